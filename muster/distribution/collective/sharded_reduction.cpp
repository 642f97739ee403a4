#include <ATen/ops/empty.h>
#include <fmt/core.h>

#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "muster/base/file_system.h"
#include "muster/base/log.h"
#include "muster/base/random_token.h"
#include "muster/distribution/collective/all_reduce_internal.h"
#include "muster/distribution/collective/collective_reduction_internal.h"
#include "muster/distribution/membership/part_writing_internal.h"

// CollectiveReduction in a sharded run.
namespace muster::internal {
namespace {

// Not what a writer of checkpoints removes when it begins: tasks look for it meanwhile.
constexpr std::string_view kProofPrefix = ".shared-with-tasks-";

constexpr std::uint64_t kProofBytes = 1024;
constexpr int kMostTries = 3;

std::string name_of_checkpoint(std::int64_t step) { return fmt::format("model.ckpt-{}", step); }

/// The sums of a process in which no replica has a batch.
PartialSums no_batches(const ReplicaRange& replicas, std::int64_t count) {
  TreeSum<Gradients> sum(count, [](Gradients&, Gradients&&) {});
  for (std::int64_t r = replicas.first; r < replicas.last; ++r) sum.report(r, std::nullopt);
  PartialSums none{.sums = sum.take_parts()};
  none.losses.resize(static_cast<std::size_t>(count));
  return none;
}

}  // namespace

// --------------------------------------------------------------------------------- generations

void CollectiveReduction::end_generation() {
  if (const auto parts = parts_.lock()) parts->fail_all("another generation begins");
  parts_.reset();
  order_ = {};
  is_closed_ = false;
  is_abandoned_ = false;
}

CollectiveReduction::~CollectiveReduction() {
  end_generation();
  if (proof_.file.empty()) return;
  try {
    // Also those of chiefs that were killed.
    const Path& folder = membership_.config().model_dir;
    FileSystem& files = file_system_for(folder);
    for (const std::string& name : files.list(folder)) {
      if (name.starts_with(kProofPrefix)) files.remove(folder / name);
    }
  } catch (const Error& error) {
    log::warning("{}", error.what());
  }
}

// Each task gets its part of the slots, and finds out whether what it writes is found.
void CollectiveReduction::begin_shard(Group& group) {
  const std::vector<std::size_t> order = halving_of(group.plan().members, group.rank()).order;
  shards_.emplace(participant().run_variables(), order);
  if (divides_gradients()) {
    std::vector<FlatRange> ranges;
    for (std::size_t rank = 0; rank < group.size(); ++rank) ranges.push_back(shards_->of(rank));
    norms_.emplace(participant().run_variables(), std::move(ranges));
  }
  HeldParts& held = participant().held_parts();
  held.hold(shards_->of(group.rank()));
  const bool is_chief = membership_.config().is_chief();
  if (is_chief && group.size() > 1) prove_folder();
  const FolderProof proof = spread_held(group, held, proof_);
  if (!is_chief) check_folder(proof);
}

// One file for the whole run: a task may look for it when the next generation has begun already.
void CollectiveReduction::prove_folder() {
  if (!proof_.file.empty()) return;
  const std::string text = random_token();
  proof_ = {fmt::format("{}{}", kProofPrefix, text.substr(0, 8)), text};
  write_file_atomically(membership_.config().model_dir / proof_.file, text, /*durable=*/false);
}

// A folder of the same name may be another one here.
void CollectiveReduction::check_folder(const FolderProof& proof) const {
  const Path& folder = membership_.config().model_dir;
  const bool is_plain = !proof.file.empty() && proof.file.find('/') == std::string::npos;
  if (!is_plain) throw DataLoss("'{}' names no file of the chief's folder", proof.file);
  FileSystem& files = file_system_for(folder);
  if (files.status(folder / proof.file) &&
      read_file(folder / proof.file, kProofBytes) == proof.text) {
    return;
  }
  throw FailedPrecondition(
      "{} does not see the chief's model_dir as {}: with RunConfig::sharding each task writes its "
      "part of checkpoints there; give all tasks one folder that they share, or leave sharding off",
      membership_.tasks().task(), folder.string());
}

// --------------------------------------------------------------------------------- a step

std::optional<StepResult> CollectiveReduction::update(std::int64_t step, PartialSums total) {
  if (!divides_gradients() || group().size() == 1) {
    return participant().update(step, std::move(total));
  }
  return participant().update_held(step, std::move(total),
                                   [&](const Gradients& held) { return join_norms(step, held); });
}

// Each task tells the others what they need of its range.
std::optional<SquareSums> CollectiveReduction::join_norms(std::int64_t step,
                                                          const Gradients& held) {
  std::vector<std::int64_t> sizes;
  for (std::size_t rank = 0; rank < group().size(); ++rank) {
    sizes.push_back(norms_->size_of_record(rank));
  }
  const ShardLayout records(sizes, halving_of(group().plan().members, group().rank()).order);
  const at::Tensor all = at::empty({records.size()}, at::kFloat);
  const auto record_of = [&](std::size_t rank) { return view_of(all, 0, records.of(rank)); };
  norms_->write(held, group().rank(), record_of(group().rank()));
  if (!gather_values(group(), records, all, options_.slice_piece,
                     fmt::format("the norms of step {}", step + 1))) {
    return std::nullopt;
  }
  return norms_->sums(held, record_of);
}

bool CollectiveReduction::gather(std::int64_t step) {
  if (!is_sharded()) return true;
  return gather_values(group(), *shards_, participant().run_variables().flat(),
                       options_.slice_piece, fmt::format("the values of step {}", step + 1));
}

// --------------------------------------------------------------------------------- checkpoints

std::shared_ptr<CheckpointParts> CollectiveReduction::begin_parts(std::int64_t step) {
  if (!is_sharded() || group().size() == 1) return nullptr;
  std::vector<std::string> writers;
  writers.reserve(group().size() - 1);
  for (std::size_t rank = 1; rank < group().size(); ++rank) writers.push_back(group().task(rank));
  std::set<std::string, std::less<>> names;
  for (const TensorPart& part : participant().held_parts().held()) names.insert(part.name);
  auto parts =
      std::make_shared<CheckpointParts>(membership_.config().model_dir, name_of_checkpoint(step),
                                        std::move(writers), std::move(names));
  tasks().expect_parts(parts);
  if (const auto why = parts->failure()) throw PeersChanged("{}", *why);
  if (is_closed_) parts->fail_all("it has left after an earlier one");
  order_ = {.id = parts->id()};
  parts_ = parts;
  return parts;
}

// The sum has come, and with it what the chief wants. False when no step follows.
bool CollectiveReduction::follow_order(std::int64_t step) {
  const PartOrder order = std::exchange(order_, {});
  if (!order.id.empty() && membership_.config().is_chief()) {
    if (step == 0) await_first_parts();
  } else if (!order.id.empty()) {
    if (!part_writer_) part_writer_.emplace();
    begin_part(*part_writer_, tasks(), membership_.config().model_dir,
               {.id = order.id,
                .name = name_of_checkpoint(step),
                .shard = static_cast<int>(group().rank()),
                .num_shards = static_cast<int>(group().size())},
               std::make_shared<EncodedTensors>(participant().held_parts().encoded()));
    part_writer_->wait_until_copied();
  }
  is_closed_ = order.is_last;
  return !order.is_last;
}

// Without it there would be nothing to go back to from the first step. The others wait for this
// task's values meanwhile.
void CollectiveReduction::await_first_parts() {
  const auto parts = parts_.lock();
  if (!parts) return;
  try {
    parts->wait();
  } catch (const Unavailable& error) {
    if (++first_tries_ >= kMostTries) throw;
    throw PeersChanged("the first checkpoint is not written: {}", error.what());
  }
}

// As a step in which no replica has a batch, which others may take for the step that they make.
void CollectiveReduction::close() {
  if (!is_sharded() || is_closed_ || group().size() == 1) return;
  if (!is_abandoned_) {
    order_.is_last = true;
    const std::int64_t step = participant().snapshot().step;
    StepNotes notes = notes_of(participant());
    if (sum(step, no_batches(group().replicas(), tasks().terms().replicas), notes)) {
      follow_order(step);
      return;
    }
  }
  if (const auto parts = parts_.lock()) parts->fail_all("it did not come to the end of its step");
}

}  // namespace muster::internal
