#pragma once

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdint>

#include "muster/base/file_system.h"
#include "muster/cli/worker_program.h"
#include "muster/saved_model/executor/run_limits.h"
#include "muster/serving/batch/batch_job.h"

namespace muster::cli {

struct BatchWorkerOptions {
  std::uint64_t workers = 1;
  std::chrono::milliseconds save_every{2000};
  executor::RunLimits limits{};
};

/// Runs the shards of a job that are not published yet in forks of muster-torch, and returns when
/// all are. A worker that a signal ends is replaced, and its successor continues at its last
/// save, up to three times without progress. Shows progress on the terminal, or logs it every ten
/// seconds. Throws what a worker failed with, and Interrupted after SIGINT or SIGTERM, which
/// workers have saved for.
void run_batch_workers(const Path& output_path, const serving::BatchJob& job,
                       const BatchWorkerOptions& options, WorkerProgram& program);

/// The flags of a worker, for muster-torch.
void add_batch_predict_worker(CLI::App& command);

}  // namespace muster::cli
