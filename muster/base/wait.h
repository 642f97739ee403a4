#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <stop_token>
#include <string>
#include <utility>

namespace muster {

/// A point in time after which waiting is over. A value; every blocking call takes one.
class Deadline {
 public:
  using Clock = std::chrono::steady_clock;

  /// For waits that end by themselves or by a stop token; a stall is still reported.
  static Deadline never() { return Deadline(Clock::time_point::max()); }
  static Deadline after(Clock::duration span);
  static Deadline at(Clock::time_point time) { return Deadline(time); }

  bool is_never() const { return time_ == Clock::time_point::max(); }
  bool expired() const { return !is_never() && Clock::now() >= time_; }
  /// Zero once expired; Clock::duration::max() for never().
  Clock::duration remaining() const;
  Clock::time_point time() const { return time_; }

 private:
  explicit Deadline(Clock::time_point time) : time_(time) {}
  Clock::time_point time_;
};

/// Idles for a span of time, which no stall is reported of. False when a stop is asked for first.
bool nap(const std::stop_token& stop, Deadline::Clock::duration span);

/// Reason of a wait, in words, asked for only when the wait is reported or fails:
/// "ps:0 at host:2222: pull step=120" makes "waits 4.0 s for ps:0 at host:2222: pull step=120".
using WaitReason = std::function<std::string()>;

/// A wait that lasts this long is logged as a warning, and again each time its age has doubled.
/// 30 s at start, or what MUSTER_STALL_SECONDS says.
void set_stall_after(Deadline::Clock::duration span);
Deadline::Clock::duration stall_after();

/// One wait and its reports; wait() and wait_until() own one each.
class StallReport {
 public:
  explicit StallReport(const WaitReason& reason);

  /// Waits until `ready()` holds or the deadline passes, and logs each time a report is due.
  template <typename Ready>
  bool loop(std::condition_variable& changed, std::unique_lock<std::mutex>& lock,
            const Deadline& deadline, Ready& ready) {
    for (;;) {
      // A wait on time_point::max() overflows inside some standard libraries' clock conversion.
      const auto next = std::min({next_, deadline.time(), Deadline::Clock::now() + kLongestNap});
      changed.wait_until(lock, next);
      if (ready()) return true;
      if (deadline.expired()) return false;
      log_if_due();
    }
  }

  /// Throws DeadlineExceeded with the reason and the time waited.
  [[noreturn]] void fail() const;

 private:
  static constexpr std::chrono::hours kLongestNap{1};

  void log_if_due();

  const WaitReason& reason_;
  Deadline::Clock::time_point start_;
  Deadline::Clock::time_point next_;
};

/// Waits until `ready()` holds, checked under `lock`. False when the deadline passes first.
template <typename Ready>
bool wait_until(std::condition_variable& changed, std::unique_lock<std::mutex>& lock,
                const Deadline& deadline, const WaitReason& reason, Ready ready) {
  if (ready()) return true;
  StallReport report(reason);
  return report.loop(changed, lock, deadline, ready);
}

/// Waits until `ready()` holds; throws DeadlineExceeded, naming the reason, when the deadline
/// passes.
template <typename Ready>
void wait(std::condition_variable& changed, std::unique_lock<std::mutex>& lock,
          const Deadline& deadline, const WaitReason& reason, Ready ready) {
  if (ready()) return;
  StallReport report(reason);
  if (!report.loop(changed, lock, deadline, ready)) report.fail();
}

/// Marks a region that blocks inside foreign code (a system call, an RPC), which this facility
/// cannot interrupt: a watchdog thread logs it like any other wait. The region sets its own
/// deadline.
class BlockingRegion {
 public:
  explicit BlockingRegion(WaitReason reason);
  ~BlockingRegion();
  BlockingRegion(const BlockingRegion&) = delete;
  BlockingRegion& operator=(const BlockingRegion&) = delete;

 private:
  std::size_t id_;
};

}  // namespace muster
