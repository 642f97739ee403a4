#include <ATen/ops/empty.h>
#include <torch/types.h>

#include <algorithm>

#include "muster/base/log.h"
#include "muster/distribution/body_codec_internal.h"
#include "muster/distribution/head_codec_internal.h"
#include "muster/distribution/snapshot_internal.h"

namespace muster::internal {
namespace {

// Of a snapshot's tensors: larger ones are sent in several messages.
constexpr std::size_t kTensorPiece = std::size_t{16} << 20;

}  // namespace

Deadline synchronize_deadline(const RunConfig& config, bool has_state) {
  if (has_state && !config.is_chief())
    return Deadline::after(config.join_timeout + std::chrono::seconds(5));
  return Deadline::after(config.session_creation_timeout_secs);
}

bool synchronize(Membership& membership, const Deadline& deadline,
                 const std::function<Progress()>& progress,
                 const std::function<bool(Group& group, const Source& source)>& take) {
  for (;;) {
    const auto source = membership.begin_generation(progress(), deadline);
    if (!source) return false;
    try {
      return take(membership.group(), *source);
    } catch (const PeersChanged& error) {
      log::warning("generation {} ends before it began: {}", membership.group().plan().number,
                   error.what());
    }
  }
}

void send_snapshot(Group& group, const RunSnapshot& own, std::size_t to) {
  log::info("sending step {} to {}", own.step, group.plan().members[to].task);
  HeaderWriter header;
  header.put(own.step);
  header.put(own.left_out);
  header.put(own.inputs_from);
  header.put(own.state_json);
  header.put_number(own.tensors.size());
  for (const NamedTensor& named : own.tensors) {
    header.put(named.name);
    header.put_number(static_cast<int>(named.tensor.scalar_type()));
    header.put_number(named.tensor.nbytes());
  }
  group.send(to, MessageType::kSnapshot, header.bytes(), {});
  for (const NamedTensor& named : own.tensors) {
    const at::Tensor whole = named.tensor.contiguous();
    std::span<const std::byte> rest = bytes_of(whole);
    while (!rest.empty()) {
      const std::span<const std::byte> piece = rest.first(std::min(rest.size(), kTensorPiece));
      group.send(to, MessageType::kTensor, {}, std::span(&piece, 1));
      rest = rest.subspan(piece.size());
    }
  }
}

// Values are taken over when all are there: a sender that is lost on the way leaves no mixture.
RunSnapshot receive_snapshot(Group& group, std::size_t from, const RunSnapshot& own) {
  const std::string& task = group.plan().members[from].task;
  const auto next = [&](MessageType type) {
    auto frame = group.take(from, type, "the state of the run");
    if (!frame) throw PeersChanged("the run has ended");
    return std::move(*frame);
  };
  const net::Frame frame = next(MessageType::kSnapshot);
  HeaderReader header(frame.header);
  RunSnapshot snapshot;
  snapshot.step = header.number();
  snapshot.left_out = header.number();
  snapshot.inputs_from = header.number();
  snapshot.state_json = header.text();
  const std::size_t count = header.count(24);
  if (count != own.tensors.size()) {
    throw FailedPrecondition("{} trains another model: it has {} variables and slots, {} has {}",
                             task, count, group.plan().members[group.rank()].task,
                             own.tensors.size());
  }
  for (const NamedTensor& mine : own.tensors) {
    const std::string_view name = header.text();
    const std::int64_t type = header.number();
    const std::int64_t bytes = header.number();
    if (name != mine.name || type != static_cast<std::int64_t>(mine.tensor.scalar_type()) ||
        bytes != static_cast<std::int64_t>(mine.tensor.nbytes())) {
      throw FailedPrecondition(
          "{} trains another model: it has {} with {} bytes where {} has {} with {}", task, name,
          bytes, group.plan().members[group.rank()].task, mine.name, mine.tensor.nbytes());
    }
  }
  for (const NamedTensor& mine : own.tensors) {
    at::Tensor whole = at::empty(mine.tensor.sizes(), mine.tensor.options());
    std::span<std::byte> rest = bytes_of(whole);
    while (!rest.empty()) {
      const net::Frame piece = next(MessageType::kTensor);
      if (piece.body.empty() || piece.body.size() > rest.size()) {
        throw DataLoss("{} sent {} bytes of {}, which has {} left", task, piece.body.size(),
                       mine.name, rest.size());
      }
      std::ranges::copy(piece.body.bytes(), rest.begin());
      rest = rest.subspan(piece.body.size());
    }
    snapshot.tensors.push_back({mine.name, std::move(whole)});
  }
  const torch::NoGradGuard no_grad;
  for (std::size_t i = 0; i < snapshot.tensors.size(); ++i) {
    own.tensors[i].tensor.copy_(snapshot.tensors[i].tensor);
  }
  log::info("going on from step {} of {}", snapshot.step, task);
  return snapshot;
}

}  // namespace muster::internal
