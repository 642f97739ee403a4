// A worker of `muster batch-predict`: takes shards that no other worker has, one after another, and
// prints "@SHARD INSTANCES" for the command that started it.

#include <fmt/core.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include "muster/base/signals.h"
#include "muster/cli/batch_workers.h"
#include "muster/cli/limit_flags.h"
#include "muster/saved_model/executor/executable_model.h"
#include "muster/saved_model/graph/saved_model.h"
#include "muster/serving/batch/batch_shard.h"
#include "muster/serving/batch/prediction_step.h"
#include "muster/serving/executable/run_signature.h"
#include "muster/train/engine/arithmetic.h"

namespace muster::cli {
namespace {

using Clock = std::chrono::steady_clock;

struct WorkerFlags {
  std::string output_path{};
  std::int64_t save_milliseconds = 2000;
  executor::RunLimits limits{};
};

/// Tells of progress, though not of every batch.
class ShardTeller {
 public:
  explicit ShardTeller(std::uint64_t shard) : shard_(shard) {}

  bool operator()(const serving::ShardState& done) {
    const auto now = Clock::now();
    if (now >= next_) {
      next_ = now + std::chrono::milliseconds(100);
      tell(done.records);
    }
    return StopSignals::received() == 0;
  }
  void tell(std::uint64_t records) const {
    fmt::print("@{} {}\n", shard_, records);
    std::fflush(stdout);
  }

 private:
  std::uint64_t shard_;
  Clock::time_point next_{};
};

void run_worker(const WorkerFlags& flags) {
  const StopSignals signals;
  const Path output_path = flags.output_path;
  const serving::BatchJob job = serving::read_batch_job(output_path);
  set_cpu_threads(static_cast<int>(job.threads_per_worker));
  const auto model = serving::in_step(serving::kLoadStep, [&] {
    return executor::ExecutableModel::load(
        job.model_dir, {.tags = job.tags, .signatures = {job.signature}, .limits = flags.limits});
  });
  const graph::SignatureDef& signature = model.signatures().find(job.signature)->second;
  serving::BatchShards shards(output_path, job, signature, [&](serving::Tensors inputs) {
    return serving::run_signature(model, job.signature, std::move(inputs));
  });
  for (std::uint64_t shard = 0; shard < job.shards; ++shard) {
    if (serving::is_published(output_path, job, shard)) continue;
    ShardTeller teller(shard);
    const auto outcome = shards.run(
        shard, {.on_batch = [&](const serving::ShardState& done) { return teller(done); },
                .save_every = std::chrono::milliseconds(flags.save_milliseconds)});
    if (outcome == serving::ShardOutcome::kStopped) {
      throw Interrupted(StopSignals::received(), "stopped in shard {}", shard);
    }
    if (outcome == serving::ShardOutcome::kPublished) {
      teller.tell(job.first_record(shard + 1) - job.first_record(shard));
    }
  }
  shards.finish();
  // All is on the disk, and told. Destructors of libtorch, which forget its operators one by one,
  // would take a tenth of a second.
  ::_exit(EXIT_SUCCESS);
}

}  // namespace

void add_batch_predict_worker(CLI::App& command) {
  const auto flags = std::make_shared<WorkerFlags>();
  command.add_option("OUTPUT_PATH", flags->output_path, "The folder of the job")->required();
  command.add_option("--save-milliseconds", flags->save_milliseconds, "Between two saves")
      ->check(CLI::NonNegativeNumber);
  add_limit_flags(command, flags->limits);
  command.callback([flags] { run_worker(*flags); });
}

}  // namespace muster::cli
