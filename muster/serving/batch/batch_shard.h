#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "muster/serving/batch/batch_job.h"
#include "muster/serving/codec/instances.h"

namespace muster::serving {

/// How far a shard is: what is known to be on the disk.
struct ShardState {
  /// Instances that are done.
  std::uint64_t records = 0;
  /// Of lines of results and of errors, and the CRC-32C of these bytes.
  std::uint64_t result_bytes = 0;
  std::uint64_t error_bytes = 0;
  std::uint32_t result_crc32c = 0;
  std::uint32_t error_crc32c = 0;
  BatchCounts counts{};
  /// All are done; then the files are published, or about to be.
  bool complete = false;
};

/// Nothing before the first save. Throws DataLoss for a file that is damaged.
std::optional<ShardState> read_shard_state(const Path& output_path, std::uint64_t shard);
/// Reads the files of published shards once more. A shard of which a byte differs is published no
/// more, and starts again from its beginning, with a warning. (One that is not published is looked
/// at when it is gone on with.)
void check_published_shards(const Path& output_path, const BatchJob& job);
/// The files of all shards. All of them are published.
std::vector<WrittenFile> files_of_shards(const Path& output_path, const BatchJob& job);
/// Whether its files have their names.
bool is_published(const Path& output_path, const BatchJob& job, std::uint64_t shard);

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
  /// instance that fails gets a line in errors_stats, and its batch goes on without it. Throws for
  /// what ends the job: files that cannot be read or written, an input that has changed. Waits for
  /// the disk are spent on the next batches, also on those of the next shard: a shard is published
  /// when another one has been run, or finish() has returned. Until then it is taken.
  ShardOutcome run(std::uint64_t shard, const ShardOptions& options = {});
  /// Waits for the disk. Throws what went wrong with it.
  void finish();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::serving
