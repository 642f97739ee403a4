#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>

#include "muster/serving/batch/batch_job.h"
#include "muster/serving/batch/shard_state.h"
#include "muster/serving/codec/instances.h"

namespace muster::serving {

struct ShardOptions {
  /// Called after each batch with what is done; false ends the shard for now, with a save.
  std::function<bool(const ShardState& done)> on_batch{};
  /// How much work a kill may cost.
  std::chrono::milliseconds save_every{2000};
};

enum class ShardOutcome { kPublished, kStopped, kTakenByAnother };

/// Answers a batch of inputs.
using AnswerBatch = std::function<Tensors(Tensors inputs)>;

/// Predicts shards of a job, one after another. Keeps references to job and signature. Belongs to
/// one thread.
class BatchShards {
 public:
  BatchShards(const Path& output_path, const BatchJob& job, const graph::SignatureDef& signature,
              AnswerBatch answer);
  ~BatchShards();
  BatchShards(const BatchShards&) = delete;
  BatchShards& operator=(const BatchShards&) = delete;

  /// Predicts the instances of one shard that are not done yet, saves now and then, and publishes
  /// its files. A process that is killed loses what came after its last save, and the next call
  /// computes that again, in the same batches: no line is lost or doubled, and none differs. An
  /// instance that fails gets a line in errors_stats, and its batch continues without it. Throws
  /// for what ends the job: files that cannot be read or written, an input that has changed. Waits
  /// for the disk are spent on the next batches, also on those of the next shard: a shard is
  /// published when another one has been run, or finish() has returned. Until then it is taken.
  ShardOutcome run(std::uint64_t shard, const ShardOptions& options = {});
  /// Waits for the disk. Throws what went wrong with it.
  void finish();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::serving
