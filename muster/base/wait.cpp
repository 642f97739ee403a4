#include "muster/base/wait.h"

#include <atomic>
#include <cstdlib>
#include <map>
#include <thread>

#include "muster/base/error.h"
#include "muster/base/log.h"

namespace muster {
namespace {

using Clock = Deadline::Clock;

double seconds(Clock::duration span) { return std::chrono::duration<double>(span).count(); }

// Adding to a time point must not overflow when the span is huge.
Clock::time_point saturating_add(Clock::time_point time, Clock::duration span) {
  return span >= Clock::time_point::max() - time ? Clock::time_point::max() : time + span;
}

Clock::duration stall_after_from_environment() {
  constexpr std::chrono::seconds kDefault{30};
  const char* text = std::getenv("MUSTER_STALL_SECONDS");
  if (text == nullptr || *text == '\0') return kDefault;
  char* end = nullptr;
  const double value = std::strtod(text, &end);
  if (*end != '\0' || !(value > 0) || value > 1e9) {
    log::warning("MUSTER_STALL_SECONDS must be a positive number of seconds, ignored: {}", text);
    return kDefault;
  }
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(value));
}

std::atomic<Clock::duration>& stall_after_cell() {
  static std::atomic<Clock::duration> cell{stall_after_from_environment()};
  return cell;
}

void log_wait(const WaitReason& reason, Clock::time_point start) {
  log::warning("waits {:.1f} s for {}", seconds(Clock::now() - start), reason());
}

/// The thread that looks at regions blocked in foreign code. It starts with the first region.
class Watchdog {
 public:
  static Watchdog& instance() {
    static Watchdog watchdog;
    return watchdog;
  }

  std::size_t add(WaitReason reason) {
    std::lock_guard lock(mutex_);
    const auto now = Clock::now();
    const std::size_t id = next_id_++;
    const auto report = saturating_add(now, stall_after());
    regions_.emplace(id, Region{std::move(reason), now, report});
    if (!thread_.joinable()) {
      thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
    }
    // Mostly the thread sleeps for an older region, which is due earlier.
    if (report < wakes_at_) {
      wakes_at_ = report;
      changed_.notify_one();
    }
    return id;
  }

  void remove(std::size_t id) {
    std::lock_guard lock(mutex_);
    regions_.erase(id);
  }

 private:
  struct Region {
    WaitReason reason;
    Clock::time_point start;
    Clock::time_point next_report;
  };

  void run(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    while (!stop.stop_requested()) {
      auto next = Clock::time_point::max();
      for (auto& [id, region] : regions_) {
        const auto now = Clock::now();
        if (now >= region.next_report) {
          log_wait(region.reason, region.start);
          region.next_report = saturating_add(now, now - region.start);
        }
        next = std::min(next, region.next_report);
      }
      wakes_at_ = next;
      const auto due_earlier = [&] { return wakes_at_ < next; };
      if (next == Clock::time_point::max()) {
        changed_.wait(lock, stop, due_earlier);
      } else {
        changed_.wait_until(lock, stop, next, due_earlier);
      }
    }
  }

  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::map<std::size_t, Region> regions_;
  std::size_t next_id_ = 0;
  Clock::time_point wakes_at_ = Clock::time_point::max();
  std::jthread thread_;  // Last, so that it ends before what it uses.
};

}  // namespace

Deadline Deadline::after(Clock::duration span) {
  return Deadline(saturating_add(Clock::now(), span));
}

Clock::duration Deadline::remaining() const {
  if (is_never()) return Clock::duration::max();
  return std::max(time_ - Clock::now(), Clock::duration::zero());
}

bool nap(const std::stop_token& stop, Deadline::Clock::duration span) {
  std::mutex mutex;
  std::condition_variable_any stopped;
  std::unique_lock lock(mutex);
  stopped.wait_for(lock, stop, span, [] { return false; });
  return !stop.stop_requested();
}

void set_stall_after(Clock::duration span) { stall_after_cell() = span; }
Clock::duration stall_after() { return stall_after_cell(); }

StallReport::StallReport(const WaitReason& reason)
    : reason_(reason), start_(Clock::now()), next_(saturating_add(start_, stall_after())) {}

void StallReport::log_if_due() {
  const auto now = Clock::now();
  if (now < next_) return;
  log_wait(reason_, start_);
  next_ = saturating_add(now, now - start_);
}

void StallReport::fail() const {
  throw DeadlineExceeded("waited {:.1f} s for {}", seconds(Clock::now() - start_), reason_());
}

BlockingRegion::BlockingRegion(WaitReason reason)
    : id_(Watchdog::instance().add(std::move(reason))) {}

BlockingRegion::~BlockingRegion() { Watchdog::instance().remove(id_); }

}  // namespace muster
