#include <ATen/ops/empty.h>
#include <torch/types.h>

#include <algorithm>

#include "muster/base/log.h"
#include "muster/distribution/membership/links_internal.h"
#include "muster/distribution/membership/snapshot_internal.h"

namespace muster::internal {
namespace {

// Largest piece of a snapshot's tensors: larger tensors are sent in several messages.
constexpr std::size_t kTensorPiece = std::size_t{16} << 20;
constexpr const char* kStateOfRun = "the state of the run";

}  // namespace

Deadline synchronize_deadline(const RunConfig& config, bool has_state) {
  if (has_state && !config.is_chief())
    return Deadline::after(config.cluster.join_timeout + std::chrono::seconds(5));
  return Deadline::after(config.cluster.session_creation_timeout_secs);
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

void send_state_tensor(Group& group, std::size_t to, const at::Tensor& whole) {
  std::span<const std::byte> rest = bytes_of(whole);
  while (!rest.empty()) {
    const std::span<const std::byte> piece = rest.first(std::min(rest.size(), kTensorPiece));
    group.send(to, SnapshotPiece{{.bytes = piece}});
    rest = rest.subspan(piece.size());
  }
}

void receive_state_tensor(Group& group, std::size_t from, const std::string& name,
                          const at::Tensor& whole, const char* what) {
  std::span<std::byte> rest = bytes_of(whole);
  while (!rest.empty()) {
    const auto piece = take_of_state<SnapshotPiece>(group, from, what);
    const std::span<const std::byte> bytes = piece.values.bytes;
    if (bytes.empty() || bytes.size() > rest.size()) {
      throw DataLoss("{} sent {} bytes of {}, which has {} left", group.task(from), bytes.size(),
                     name, rest.size());
    }
    std::ranges::copy(bytes, rest.begin());
    rest = rest.subspan(bytes.size());
  }
}

void send_snapshot(Group& group, const RunSnapshot& own, std::size_t to) {
  log::info("sending step {} to {}", own.step, group.plan().members[to].task);
  SnapshotHeader header{.step = own.step,
                        .skipped_batches = own.skipped_batches,
                        .inputs_from = own.inputs_from,
                        .state_json = own.state_json};
  for (const NamedTensor& named : own.tensors) {
    header.tensors.push_back({named.name, named.tensor.scalar_type(), named.tensor.nbytes()});
  }
  group.send(to, header);
  for (const NamedTensor& named : own.tensors) {
    send_state_tensor(group, to, named.tensor.contiguous().cpu());
  }
}

namespace {

void check_model(const Group& group, std::size_t from, const SnapshotHeader& header,
                 const RunSnapshot& own) {
  const std::string& task = group.task(from);
  const std::string& self = group.task(group.rank());
  if (header.tensors.size() != own.tensors.size()) {
    throw FailedPrecondition("{} trains another model: it has {} variables and slots, {} has {}",
                             task, header.tensors.size(), self, own.tensors.size());
  }
  for (std::size_t i = 0; i < own.tensors.size(); ++i) {
    const SnapshotTensor& theirs = header.tensors[i];
    const NamedTensor& mine = own.tensors[i];
    if (theirs.name == mine.name && theirs.type == mine.tensor.scalar_type() &&
        theirs.bytes == mine.tensor.nbytes()) {
      continue;
    }
    throw FailedPrecondition(
        "{} trains another model: it has {} with {} bytes where {} has {} with {}", task,
        theirs.name, theirs.bytes, self, mine.name, mine.tensor.nbytes());
  }
}

}  // namespace

// Values are taken over when all are there: a sender that is lost on the way leaves no mixture.
RunSnapshot receive_snapshot(Group& group, std::size_t from, const RunSnapshot& own) {
  const Group::ReceivingAhead ahead(group);
  auto header = take_of_state<SnapshotHeader>(group, from, kStateOfRun);
  check_model(group, from, header, own);
  RunSnapshot snapshot{.step = header.step,
                       .skipped_batches = header.skipped_batches,
                       .inputs_from = header.inputs_from,
                       .state_json = std::move(header.state_json)};
  for (const NamedTensor& mine : own.tensors) {
    const at::Tensor whole = at::empty(mine.tensor.sizes(), mine.tensor.scalar_type());
    receive_state_tensor(group, from, mine.name, whole, kStateOfRun);
    snapshot.tensors.push_back({mine.name, whole});
  }
  const torch::NoGradGuard no_grad;
  for (std::size_t i = 0; i < snapshot.tensors.size(); ++i) {
    own.tensors[i].tensor.copy_(snapshot.tensors[i].tensor);
  }
  log::info("going on from step {} of {}", snapshot.step, group.task(from));
  return snapshot;
}

std::optional<RunSnapshot> spread_snapshot(Group& group, const Source& source,
                                           const RunSnapshot& own) {
  const auto lacks_it = [&](std::size_t rank) {
    return std::ranges::find(source.to, rank) != source.to.end();
  };
  std::optional<RunSnapshot> taken;
  if (lacks_it(group.rank())) {
    const auto from = state_sender(group.plan().members, group.rank(), source.rank);
    if (!from)
      throw Internal("{} lacks the state that it is the source of", group.task(group.rank()));
    taken = receive_snapshot(group, *from, own);
  }
  for (const std::size_t to : state_receivers(group.plan().members, group.rank(), source.rank)) {
    if (lacks_it(to)) send_snapshot(group, taken ? *taken : own, to);
  }
  return taken;
}

}  // namespace muster::internal
