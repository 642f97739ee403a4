#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace muster::serving {

/// Estimates from past batches of a queue how long a request that comes now is going to wait, and
/// to be computed.
class BatchTimes {
 public:
  using Clock = std::chrono::steady_clock;

  /// A measurement counts for eight times the time of a batch, within these bounds, or while one
  /// is being computed. A slow one, or a machine that stood still, must not refuse for ever what
  /// would show it to be faster.
  static constexpr std::chrono::seconds kLeastBelieved{1};
  static constexpr std::chrono::seconds kMostBelieved{10};

  /// `slots`: how many batches are computed at one time.
  explicit BatchTimes(std::size_t slots) : slots_(static_cast<std::int64_t>(slots)) {}

  /// A batch begins; whether requests wait after it.
  void begin(Clock::time_point now, bool others_wait);
  /// One that had begun has ended.
  void end(Clock::time_point now, Clock::duration took);
  /// None waits any more.
  void nothing_waits() { last_begin_.reset(); }

  /// Usual duration of a batch; nothing before the first.
  std::optional<Clock::duration> usual() const { return usual_; }
  /// Whether one may take this long: they usually do, none was measured, one at work does, or one
  /// of late did. After one that took so long without warning that is believed for a hundred times
  /// as long.
  bool may_take(Clock::duration time, Clock::time_point now) const;
  /// Expected duration of a batch.
  Clock::duration of_one(Clock::time_point now) const;
  /// Expected time until this many waiting batches have begun, with a quarter to spare: a
  /// request that is refused at once is better off than one that has waited in vain.
  Clock::duration until_begun(std::int64_t batches, Clock::time_point now) const;

 private:
  bool is_old(Clock::time_point measured, Clock::time_point now) const;

  std::int64_t slots_;
  // When those at work began, ascending.
  std::vector<Clock::time_point> running_{};
  std::optional<Clock::duration> usual_{};
  Clock::time_point usual_at_{};
  // The longest that is not forgotten yet.
  Clock::duration longest_{};
  Clock::time_point longest_at_{};
  // From one beginning to the next while requests wait. That is more than what a batch takes, by
  // slots, where answers are to be sent and other queues and threads have their turns too.
  Clock::duration pace_{};
  // Those that count in it.
  int paces_ = 0;
  Clock::time_point pace_at_{};
  // Beginning of the last batch, if requests wait since then.
  std::optional<Clock::time_point> last_begin_{};
};

}  // namespace muster::serving
