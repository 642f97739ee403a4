#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>

namespace boost::asio {
class io_context;
}  // namespace boost::asio

namespace muster::server {

/// Threads that wait for sockets and timers, and run what follows. Servers of several protocols and
/// the queues of models may share one. Any thread may call.
class EventLoop {
 public:
  using Job = std::function<void()>;
  using Clock = std::chrono::steady_clock;

  /// Zero: one more than there are processors, so that one is left to read while the others
  /// compute. Two at least.
  explicit EventLoop(std::size_t threads = 0);
  /// Ends the threads; what has not begun by then is dropped. None of the threads may call it.
  ~EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  /// For sockets, which must be gone before the loop is.
  boost::asio::io_context& io();
  std::size_t threads() const;

  /// Has a thread run a job, which must not throw. post(): whichever is free, from now on. defer():
  /// of a thread of the loop, when what that thread does now is done, behind what is ready already;
  /// it wakes none, and is as post() elsewhere.
  void post(Job job);
  void defer(Job job);

  /// Runs a job that may take long in the calling thread, which is one of the loop. False, and
  /// nothing is run, when no thread would be left to wait for sockets.
  bool run_here(const Job& job);

  /// Runs a job at a point in time that can be moved.
  class Timer {
   public:
    /// The job may run a last time while the timer is destroyed, and must bear that.
    Timer(EventLoop& loop, Job job);
    ~Timer();
    Timer(const Timer&) = delete;
    Timer& operator=(const Timer&) = delete;

    /// Any thread may call it, one at a time. What was set before no longer holds.
    void set(Clock::time_point time);

   private:
    struct State;
    std::shared_ptr<State> state_;
  };

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::server
