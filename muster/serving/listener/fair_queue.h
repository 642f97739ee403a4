#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

namespace muster::serving {

/// Jobs of several owners (models, say) that wait for a thread. Owners take turns, and none has all
/// threads or all of the room, so that one in demand does not keep the others from being answered.
/// There are no threads in it: the caller that offers a job runs it, and then those that came to
/// wait. Any thread may call.
class FairQueue {
 public:
  using Job = std::function<void()>;

  struct Options {
    /// Jobs that run at one time. One owner has three quarters of them at most.
    std::size_t running = 1;
    /// Jobs that wait, shared evenly between the owners that have any.
    std::size_t waiting = 1024;
  };
  explicit FairQueue(Options options);
  ~FairQueue();
  FairQueue(const FairQueue&) = delete;
  FairQueue& operator=(const FairQueue&) = delete;

  enum class Place {
    /// May be run: the caller that offered it calls run(), in any thread.
    kRuns,
    /// Was taken, and is left to a thread that runs one.
    kWaits,
    /// There is no room.
    kNone,
  };
  /// Takes the job when it has to wait, and leaves it as it is otherwise.
  Place offer(const std::string& owner, Job& job);
  /// Runs a job that may be, and then those that came to wait.
  void run(const std::string& owner, Job job);

  /// Both: runs the job now, or leaves it to a thread that runs one. False when there is no room:
  /// the job is dropped.
  bool run_or_wait(const std::string& owner, Job job);

  /// Drops what waits; nothing more is run.
  void close();

  std::size_t waiting() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::serving
