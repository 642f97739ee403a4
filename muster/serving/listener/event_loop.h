#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>

namespace boost::asio {
class io_context;
}  // namespace boost::asio

namespace muster::serving {

/// A request up to this size is read in a thread of a loop: others wait some 100 us for it.
inline constexpr std::size_t kMostBytesInLoop = 64 << 10;

/// Threads that wait for sockets and timers, and run what follows. Each has sockets of its own and
/// hands nothing over to another, which would have to be woken for it: so what takes long does not
/// belong there. Servers of several protocols and the queues of models may share one loop. Any
/// thread may call.
class EventLoop {
 public:
  using Job = std::function<void()>;
  using Clock = std::chrono::steady_clock;

  /// Zero: one per processor, two at least.
  explicit EventLoop(std::size_t threads = 0);
  /// Ends the threads; what has not begun by then is dropped. None of the threads may call it.
  ~EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  /// For a socket, which must be gone before the loop is: that of the thread whose turn it is.
  boost::asio::io_context& io();
  std::size_t threads() const;
  /// That of one of the threads, by its number.
  boost::asio::io_context& io_of(std::size_t thread);
  /// Which of them is the calling one; nothing when it is none.
  std::optional<std::size_t> this_thread() const;

  /// Has a thread run a job, which must not throw and not take long. post(): another than the
  /// calling one. defer(): the calling one, when what it does now is done, after what is ready
  /// already; as post() where it is none of the loop.
  void post(Job job);
  void defer(Job job);

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

}  // namespace muster::serving
