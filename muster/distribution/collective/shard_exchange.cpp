#include "muster/distribution/collective/shard_exchange_internal.h"

#include <ATen/ops/empty.h>
#include <torch/types.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "muster/data/checkpoint/tensor.h"
#include "muster/distribution/membership/snapshot_internal.h"

namespace muster::internal {
namespace {

/// The values of one step, on their way.
class ValueExchange {
 public:
  ValueExchange(Group& group, const at::Tensor& flat, std::int64_t piece, const std::string& what)
      : group_(group), receiving_ahead_(group), flat_(flat), piece_(piece), what_(what) {}

  bool give(std::size_t to, const FlatRange& range) { return swap(to, range, {}); }
  bool take(std::size_t from, const FlatRange& range) { return swap(from, {}, range); }
  // One piece ahead, so that no side waits for one that is only now being sent.
  bool swap(std::size_t partner, const FlatRange& gives, const FlatRange& takes) {
    send(partner, piece_of(gives, 0));
    for (std::int64_t number = 0; number < std::max(pieces_of(gives), pieces_of(takes)); ++number) {
      send(partner, piece_of(gives, number + 1));
      if (!receive(partner, piece_of(takes, number))) return false;
    }
    return true;
  }

 private:
  std::int64_t pieces_of(const FlatRange& range) const {
    return (range.last - range.first + piece_ - 1) / piece_;
  }
  // Empty after the end of the range.
  FlatRange piece_of(const FlatRange& range, std::int64_t number) const {
    const std::int64_t first = std::min(range.last, range.first + number * piece_);
    return {first, std::min(range.last, first + piece_)};
  }
  at::Tensor values_of(const FlatRange& range) const {
    return flat_.narrow(0, range.first, range.last - range.first);
  }
  void send(std::size_t to, const FlatRange& range) {
    if (range.first == range.last) return;
    group_.send(to, ShardValues{{.bytes = bytes_of(values_of(range))}});
  }
  bool receive(std::size_t from, const FlatRange& range) {
    if (range.first == range.last) return true;
    const auto message = group_.take_unless_stopped<ShardValues>(from, what_);
    if (!message) return false;
    const at::Tensor to = values_of(range);
    to.copy_(message->values.as_tensor(to.sizes(), at::kFloat));
    return true;
  }

  Group& group_;
  const Group::ReceivingAhead receiving_ahead_;
  const at::Tensor& flat_;
  const std::int64_t piece_;
  const std::string& what_;
};

}  // namespace

bool gather_values(Group& group, const ShardLayout& layout, const at::Tensor& flat,
                   std::int64_t piece, const std::string& what) {
  if (group.size() == 1) return true;
  const torch::NoGradGuard no_grad;
  const Exchange exchange = exchange_of(group.plan().members, group.rank());
  const Halving halving = halving_of(group.plan().members, group.rank());
  ValueExchange values(group, flat, piece, what);
  for (const Exchange::Stage& neighbour : exchange.taken_from) {
    if (!values.take(neighbour.partner, layout.of(neighbour.others))) return false;
  }
  if (exchange.given_to) {
    const auto& [partner, own, others] = *exchange.given_to;
    const FlatRange range = layout.of(own);
    if (!values.give(partner, range) || !values.take(partner, {0, range.first}) ||
        !values.take(partner, {range.last, layout.size()})) {
      return false;
    }
  }
  // The other way round than sums are divided.
  for (std::size_t i = exchange.stages.size(); i-- > 0;) {
    const auto& [kept, given] = halving.stages[i];
    if (!values.swap(exchange.stages[i].partner, layout.at_places(kept), layout.at_places(given))) {
      return false;
    }
  }
  for (const Exchange::Stage& neighbour : exchange.taken_from) {
    const FlatRange theirs = layout.of(neighbour.others);
    if (!values.give(neighbour.partner, {0, theirs.first}) ||
        !values.give(neighbour.partner, {theirs.last, layout.size()})) {
      return false;
    }
  }
  return true;
}

// --------------------------------------------------------------------------------- slots

namespace {

constexpr const char* kWhatIsSpread = "slots and averages of the last checkpoint";

std::uint64_t whole_bytes(const TensorPart& part) {
  return static_cast<std::uint64_t>(element_count(part.shape).value()) * sizeof(float);
}

SnapshotHeader header_of(const std::vector<TensorPart>& parts, const FolderProof& proof,
                         bool has_checkpoint) {
  // The proof goes where a snapshot has its text.
  SnapshotHeader header{.state_json = proof.file + "\n" + proof.text};
  if (!has_checkpoint) return header;
  header.tensors.reserve(parts.size());
  for (const TensorPart& part : parts) {
    header.tensors.push_back({part.name, at::kFloat, whole_bytes(part)});
  }
  return header;
}

void check_header(const Group& group, std::size_t from, const SnapshotHeader& header,
                  const std::vector<TensorPart>& parts) {
  if (header.tensors.empty()) return;
  const bool is_same = std::ranges::equal(
      header.tensors, parts, [](const SnapshotTensor& theirs, const TensorPart& mine) {
        return theirs.name == mine.name && theirs.bytes == whole_bytes(mine);
      });
  if (is_same) return;
  throw FailedPrecondition("{} trains another model: its slots are not those of {}",
                           group.task(from), group.task(group.rank()));
}

at::Tensor read_whole(const ReadSaved& read, const TensorPart& part) {
  at::Tensor whole = read(part.name);
  if (whole.sizes().vec() == part.shape && whole.scalar_type() == at::kFloat) {
    return whole.contiguous().view({-1});
  }
  throw InvalidArgument(
      "{} has the shape {} in the checkpoint, but {} in the model; use another "
      "model_dir",
      part.name, shape_text(whole.sizes().vec()), shape_text(part.shape));
}

at::Tensor receive_whole(Group& group, std::size_t from, const TensorPart& part) {
  at::Tensor whole = at::empty({element_count(part.shape).value()}, at::kFloat);
  receive_state_tensor(group, from, part.name, whole, kWhatIsSpread);
  return whole;
}

FolderProof proof_of(const SnapshotHeader& header) {
  const auto end = header.state_json.find('\n');
  if (end == std::string::npos) throw DataLoss("the chief's folder is told of without a file");
  return {header.state_json.substr(0, end), header.state_json.substr(end + 1)};
}

}  // namespace

FolderProof spread_held(Group& group, HeldParts& held, FolderProof proof) {
  const torch::NoGradGuard no_grad;
  const auto& members = group.plan().members;
  const std::vector<TensorPart> parts = held.held();
  const auto from = state_sender(members, group.rank(), 0);
  const std::vector<std::size_t> receivers = state_receivers(members, group.rank(), 0);
  const ReadSaved read = from ? nullptr : held.last_saved();
  const SnapshotHeader header = from ? take_of_state<SnapshotHeader>(group, *from, kWhatIsSpread)
                                     : header_of(parts, proof, read != nullptr);
  if (from) {
    check_header(group, *from, header, parts);
    proof = proof_of(header);
  }
  for (const std::size_t to : receivers) group.send(to, header);
  if (header.tensors.empty()) return proof;
  for (const TensorPart& part : parts) {
    const at::Tensor whole = from ? receive_whole(group, *from, part) : read_whole(read, part);
    for (const std::size_t to : receivers) send_state_tensor(group, to, whole);
    if (!part.empty()) part.values.copy_(whole.narrow(0, part.first, part.last - part.first));
  }
  return proof;
}

}  // namespace muster::internal
