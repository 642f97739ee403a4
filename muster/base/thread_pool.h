#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <stop_token>
#include <vector>

namespace muster {

/// A fixed number of threads that run submitted jobs in the order of submission. Any thread may
/// submit.
class ThreadPool {
 public:
  /// A job that runs long looks at its stop token now and then. What it throws is logged as an
  /// error: a job that can fail hands its failure on itself.
  using Job = std::function<void(const std::stop_token&)>;

  /// `threads` of 0 means one a processor.
  explicit ThreadPool(std::size_t threads);
  /// Asks running jobs to stop, drops those that have not begun, and waits for the threads.
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  void submit(Job job);
  std::size_t size() const;

  /// How many processors this process may use: those of its affinity mask, or fewer where a control
  /// group (a container's `cpu.max`) leaves it less time, a part of one counted as a whole one.
  static std::size_t available_processors();
  /// Their numbers, in rising order; empty where the system does not tell.
  static std::vector<int> allowed_processors();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster
