#include "muster/serving/load/load_run.h"

#include <sys/resource.h>

#include <algorithm>
#include <exception>
#include <memory>
#include <thread>

#include "muster/base/error.h"
#include "muster/base/wait.h"
#include "muster/serving/load/load_worker_internal.h"

namespace muster::serving {
namespace {

constexpr std::size_t kMostThreads = 1024;
constexpr std::size_t kStreamsPerConnection = 16;
constexpr std::chrono::nanoseconds kLeastConnectTime = std::chrono::seconds(5);
// All threads have begun to run by then.
constexpr std::chrono::milliseconds kBeginDelay{2};

void check(const LoadPlan& plan, const std::vector<LoadTarget>& targets) {
  if (targets.empty()) throw InvalidArgument("there is no model to load");
  for (const LoadTarget& target : targets) {
    if (target.requests.empty()) throw InvalidArgument("model {} has no requests", target.model);
  }
  if (plan.rate && !(*plan.rate > 0 && *plan.rate <= kMostRate)) {
    throw InvalidArgument("the rate must be positive, and at most {:.0f}: {}", kMostRate,
                          *plan.rate);
  }
  if (plan.concurrency == 0 || plan.concurrency > kMostConcurrency) {
    throw InvalidArgument("the concurrency must be from 1 to {}: {}", kMostConcurrency,
                          plan.concurrency);
  }
  if (plan.threads == 0 || plan.threads > std::min(plan.concurrency, kMostThreads)) {
    throw InvalidArgument("threads must be from 1 to {}, the requests in flight: {}",
                          std::min(plan.concurrency, kMostThreads), plan.threads);
  }
  if (plan.duration.count() <= 0 || plan.deadline.count() <= 0 || plan.warm_up.count() < 0) {
    throw InvalidArgument("duration and deadline must be positive, and the warm-up not negative");
  }
}

std::size_t connections_of(const LoadPlan& plan) {
  if (!plan.over_grpc) return plan.concurrency;
  const std::size_t wanted =
      plan.connections > 0 ? plan.connections
                           : (plan.concurrency + kStreamsPerConnection - 1) / kStreamsPerConnection;
  return std::clamp(wanted, plan.threads, plan.concurrency);
}

// A process may have 1024 files open unless it asks for more.
void allow_files(std::size_t connections) {
  constexpr std::size_t kOther = 64;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= connections + kOther) return;
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, connections + kOther);
  ::setrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_cur < connections + kOther) {
    throw ResourceExhausted(
        "{} connections need as many open files, and this process may have {}: see ulimit -n",
        connections, limit.rlim_cur);
  }
}

std::vector<std::unique_ptr<LoadWorker>> make_workers(const LoadPlan& plan,
                                                      const std::vector<LoadTarget>& targets,
                                                      std::atomic<std::uint64_t>& answered) {
  const std::size_t connections = connections_of(plan);
  allow_files(connections);
  std::vector<std::unique_ptr<LoadWorker>> workers;
  workers.reserve(plan.threads);
  for (std::size_t i = 0; i < plan.threads; ++i) {
    const std::size_t own = connections / plan.threads + (i < connections % plan.threads ? 1 : 0);
    workers.push_back(std::make_unique<LoadWorker>(plan, targets, i, own, answered));
  }
  return workers;
}

void run_all(const std::vector<std::unique_ptr<LoadWorker>>& workers, const std::stop_token& stop) {
  const auto begin = LoadWorker::Clock::now() + kBeginDelay;
  std::vector<std::exception_ptr> failures(workers.size());
  {
    std::vector<std::jthread> threads;
    threads.reserve(workers.size());
    for (std::size_t i = 0; i < workers.size(); ++i) {
      threads.emplace_back([&, i] {
        try {
          workers[i]->run(begin, stop);
        } catch (...) {
          failures[i] = std::current_exception();
        }
      });
    }
  }
  for (const auto& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
}

}  // namespace

void ModelMeasurements::merge(const ModelMeasurements& other) {
  requests += other.requests;
  failed += other.failed;
  latency.merge(other.latency);
  for (const auto& [kind, error] : other.errors) {
    LoadError& own = errors[kind];
    if (own.count == 0 || error.first_nanoseconds < own.first_nanoseconds) {
      own.message = error.message;
      own.first_nanoseconds = error.first_nanoseconds;
    }
    own.count += error.count;
  }
}

ModelMeasurements LoadMeasurements::total() const {
  ModelMeasurements all;
  for (const ModelMeasurements& model : models) all.merge(model);
  return all;
}

double LoadMeasurements::answers_per_second() const {
  return seconds > 0 ? static_cast<double>(answered) / seconds : 0;
}

void LoadMeasurements::merge(const LoadMeasurements& other) {
  if (models.size() < other.models.size()) models.resize(other.models.size());
  for (std::size_t i = 0; i < other.models.size(); ++i) models[i].merge(other.models[i]);
  send_delay.merge(other.send_delay);
  sent += other.sent;
  answered += other.answered;
  seconds = std::max(seconds, other.seconds);
  unfinished += other.unfinished;
  was_stopped = was_stopped || other.was_stopped;
}

LoadMeasurements run_load(const LoadPlan& plan, const std::vector<LoadTarget>& targets,
                          const std::stop_token& stop, std::atomic<std::uint64_t>& answered) {
  check(plan, targets);
  const auto workers = make_workers(plan, targets, answered);
  const Deadline connected = Deadline::after(std::max(plan.deadline, kLeastConnectTime));
  for (const auto& worker : workers) worker->connect(connected, stop);
  run_all(workers, stop);
  LoadMeasurements all;
  for (const auto& worker : workers) all.merge(worker->measurements());
  return all;
}

}  // namespace muster::serving
