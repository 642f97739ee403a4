#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace muster {

/// A learning rate as a pure function of the step: nothing is counted, so a resumed run continues
/// exactly. The step is the number of updates made before, 0 for the first. Evaluated in double.
/// Copies are cheap; any thread may evaluate.
class LearningRate {
 public:
  /// Holds for ever. Not explicit, so that a plain number is a learning rate.
  LearningRate(double value);  // NOLINT(google-explicit-constructor)
  /// A schedule of one's own; `description` is what logs show.
  LearningRate(std::function<double(std::int64_t)> function, std::string description);

  /// Throws InvalidArgument when the step is negative or the rate is not finite.
  double at(std::int64_t step) const;
  /// Such as "exponential 0.1 * 0.96^(step / 1000)".
  const std::string& description() const;

 private:
  struct Schedule;
  std::shared_ptr<const Schedule> schedule_;
};

/// values[i] while step <= boundaries[i], the last value after the last boundary. There is one
/// value more than boundaries, and boundaries rise; InvalidArgument otherwise.
LearningRate piecewise(std::vector<std::int64_t> boundaries, std::vector<double> values);

struct ExponentialDecay {
  double initial{};
  std::int64_t decay_steps{};
  double decay_rate{};
  /// Falls in stairs, once every decay_steps.
  bool staircase = false;
};
/// initial * decay_rate^(step / decay_steps).
LearningRate exponential(const ExponentialDecay& options);

struct PolynomialDecay {
  double initial{};
  std::int64_t decay_steps{};
  double end = 0.0001;
  double power = 1.0;
  /// Past the end, starts over with the period stretched to the next multiple of decay_steps.
  bool cycle = false;
};
/// (initial - end) * (1 - step / decay_steps)^power + end, and `end` from decay_steps on.
LearningRate polynomial(const PolynomialDecay& options);

struct CosineDecay {
  double initial{};
  std::int64_t decay_steps{};
  /// The part of the initial rate that remains at the end.
  double alpha = 0.0;
};
/// Half a cosine from `initial` to alpha * initial.
LearningRate cosine(const CosineDecay& options);

struct CosineRestarts {
  double initial{};
  /// Steps of the first period.
  std::int64_t first_decay_steps{};
  /// Each period is this many times as long as the one before; at least 1.
  double period_factor = 2.0;
  /// Factor, at each restart, of the part of the rate that is above its end.
  double rate_factor = 1.0;
  /// The part of `initial` that remains at the end of every period.
  double alpha = 0.0;
};
/// Half a cosine after another, each from its first rate down to alpha * initial: warm restarts.
LearningRate cosine_restarts(const CosineRestarts& options);

struct WarmUp {
  std::int64_t steps{};
  /// The part of the rate that step 0 gets.
  double start_factor = 0.0;
};
/// `rate` times a factor that rises in a line from start_factor at step 0 to 1 at `steps`. `rate`
/// sees the same step, so a warm-up does not move its boundaries.
LearningRate warm_up(LearningRate rate, const WarmUp& options);

struct OneCycle {
  double maximum{};
  std::int64_t total_steps{};
  /// The part of the steps that rises.
  double rising_part = 0.3;
  /// Step 0 has maximum / start_divisor, the last step that divided by end_divisor.
  double start_divisor = 25.0;
  double end_divisor = 1e4;
};
/// Up and down again in two half cosines; the last rate holds after total_steps.
LearningRate one_cycle(const OneCycle& options);

struct InverseSquareRoot {
  double peak{};
  std::int64_t warm_up_steps = 1;
};
/// With n = step + 1: peak * min(n / warm_up_steps, sqrt(warm_up_steps / n)).
LearningRate inverse_square_root(const InverseSquareRoot& options);

}  // namespace muster
