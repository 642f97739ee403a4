#include "muster/nn/optim/learning_rate.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string_view>
#include <utility>

#include "muster/base/error.h"

namespace muster {
namespace {

void check_rate(double value, std::string_view schedule, std::string_view field) {
  if (!std::isfinite(value) || value < 0) {
    throw InvalidArgument("{} learning rate: {} must be finite and not negative: {}", schedule,
                          field, value);
  }
}

void check_steps(std::int64_t steps, std::string_view schedule, std::string_view field) {
  if (steps <= 0) {
    throw InvalidArgument("{} learning rate: {} must be positive: {}", schedule, field, steps);
  }
}

double part_of(std::int64_t step, std::int64_t steps) {
  return static_cast<double>(step) / static_cast<double>(steps);
}

/// From `start` to `end` along half a cosine while `part` goes from 0 to 1.
double anneal(double start, double end, double part) {
  return end + (start - end) * 0.5 * (1.0 + std::cos(std::numbers::pi * part));
}

double polynomial_at(const PolynomialDecay& options, std::int64_t step) {
  std::int64_t steps = options.decay_steps;
  if (options.cycle) {
    steps *= std::max<std::int64_t>(1, (step + steps - 1) / steps);
  }
  const double part = part_of(std::min(step, steps), steps);
  return (options.initial - options.end) * std::pow(1.0 - part, options.power) + options.end;
}

/// A period of a schedule with restarts: its number, and the part of it that is over.
struct Period {
  double number = 0;
  double part = 0;
};

Period period_at(const CosineRestarts& options, std::int64_t step) {
  const double first = part_of(step, options.first_decay_steps);
  const double factor = options.period_factor;
  if (factor == 1.0) return {std::floor(first), first - std::floor(first)};
  // The first n periods are as long as (factor^n - 1) / (factor - 1) first ones.
  const auto begin_of = [&](double number) {
    return (std::pow(factor, number) - 1.0) / (factor - 1.0);
  };
  double number = std::floor(std::log1p(first * (factor - 1.0)) / std::log(factor));
  // The logarithm may be off by its last bit at the border of two periods.
  if (begin_of(number + 1.0) <= first) number += 1.0;
  if (begin_of(number) > first) number -= 1.0;
  return {number, (first - begin_of(number)) / std::pow(factor, number)};
}

double one_cycle_at(const OneCycle& options, std::int64_t step) {
  const double start = options.maximum / options.start_divisor;
  const double last_step = static_cast<double>(options.total_steps) - 1.0;
  const double top = options.rising_part * static_cast<double>(options.total_steps) - 1.0;
  const double place = std::min(static_cast<double>(step), last_step);
  if (place <= top) return anneal(start, options.maximum, top > 0 ? place / top : 1.0);
  return anneal(options.maximum, start / options.end_divisor, (place - top) / (last_step - top));
}

}  // namespace

struct LearningRate::Schedule {
  std::function<double(std::int64_t)> function;
  std::string description;
};

LearningRate::LearningRate(double value)
    : LearningRate([value](std::int64_t) { return value; }, fmt::format("constant {}", value)) {
  check_rate(value, "constant", "value");
}

LearningRate::LearningRate(std::function<double(std::int64_t)> function, std::string description)
    : schedule_(std::make_shared<Schedule>(Schedule{std::move(function), std::move(description)})) {
}

double LearningRate::at(std::int64_t step) const {
  if (step < 0) throw InvalidArgument("a learning rate has no step {}: steps begin at 0", step);
  const double rate = schedule_->function(step);
  if (!std::isfinite(rate)) {
    throw InvalidArgument("learning rate `{}` is {} at step {}", description(), rate, step);
  }
  return rate;
}

const std::string& LearningRate::description() const { return schedule_->description; }

LearningRate piecewise(std::vector<std::int64_t> boundaries, std::vector<double> values) {
  if (values.size() != boundaries.size() + 1) {
    throw InvalidArgument("piecewise learning rate: {} boundaries need {} values: got {}",
                          boundaries.size(), boundaries.size() + 1, values.size());
  }
  if (std::ranges::adjacent_find(boundaries, std::greater_equal<>()) != boundaries.end()) {
    throw InvalidArgument("piecewise learning rate: boundaries must rise: {}",
                          fmt::join(boundaries, ", "));
  }
  for (const double value : values) check_rate(value, "piecewise", "a value");
  std::string description = fmt::format("piecewise {}", values[0]);
  for (std::size_t i = 0; i < boundaries.size(); ++i) {
    description += fmt::format(", {} after step {}", values[i + 1], boundaries[i]);
  }
  return {[boundaries = std::move(boundaries), values = std::move(values)](std::int64_t step) {
            const auto boundary = std::ranges::lower_bound(boundaries, step);
            return values[static_cast<std::size_t>(boundary - boundaries.begin())];
          },
          std::move(description)};
}

LearningRate exponential(const ExponentialDecay& options) {
  check_rate(options.initial, "exponential", "initial");
  check_rate(options.decay_rate, "exponential", "decay_rate");
  check_steps(options.decay_steps, "exponential", "decay_steps");
  return {[options](std::int64_t step) {
            const double part = part_of(step, options.decay_steps);
            return options.initial *
                   std::pow(options.decay_rate, options.staircase ? std::floor(part) : part);
          },
          fmt::format("exponential {} * {}^{}(step / {})", options.initial, options.decay_rate,
                      options.staircase ? "floor" : "", options.decay_steps)};
}

LearningRate polynomial(const PolynomialDecay& options) {
  check_rate(options.initial, "polynomial", "initial");
  check_rate(options.end, "polynomial", "end");
  check_steps(options.decay_steps, "polynomial", "decay_steps");
  return {[options](std::int64_t step) { return polynomial_at(options, step); },
          fmt::format("polynomial {} to {} in {} steps, power {}{}", options.initial, options.end,
                      options.decay_steps, options.power, options.cycle ? ", in cycles" : "")};
}

LearningRate cosine(const CosineDecay& options) {
  check_rate(options.initial, "cosine", "initial");
  check_rate(options.alpha, "cosine", "alpha");
  check_steps(options.decay_steps, "cosine", "decay_steps");
  const double end = options.alpha * options.initial;
  return {[options, end](std::int64_t step) {
            return anneal(options.initial, end,
                          part_of(std::min(step, options.decay_steps), options.decay_steps));
          },
          fmt::format("cosine {} to {} in {} steps", options.initial, end, options.decay_steps)};
}

LearningRate cosine_restarts(const CosineRestarts& options) {
  check_rate(options.initial, "cosine with restarts", "initial");
  check_rate(options.alpha, "cosine with restarts", "alpha");
  check_rate(options.rate_factor, "cosine with restarts", "rate_factor");
  check_steps(options.first_decay_steps, "cosine with restarts", "first_decay_steps");
  if (!(options.period_factor >= 1 && std::isfinite(options.period_factor))) {
    throw InvalidArgument(
        "cosine with restarts learning rate: period_factor must be at least 1: {}",
        options.period_factor);
  }
  const double end = options.alpha * options.initial;
  return {
      [options, end](std::int64_t step) {
        const Period period = period_at(options, step);
        const double start = options.initial * std::pow(options.rate_factor, period.number);
        return anneal((1.0 - options.alpha) * start + end, end, period.part);
      },
      fmt::format("cosine {} to {} in {} steps, then in periods {} times as long from {} of the "
                  "rate",
                  options.initial, end, options.first_decay_steps, options.period_factor,
                  options.rate_factor)};
}

LearningRate warm_up(LearningRate rate, const WarmUp& options) {
  check_steps(options.steps, "warm-up", "steps");
  check_rate(options.start_factor, "warm-up", "start_factor");
  std::string description = fmt::format("{}, after a warm-up from factor {} in {} steps",
                                        rate.description(), options.start_factor, options.steps);
  return {[rate = std::move(rate), options](std::int64_t step) {
            if (step >= options.steps) return rate.at(step);
            const double part = part_of(step, options.steps);
            return rate.at(step) * (options.start_factor + (1.0 - options.start_factor) * part);
          },
          std::move(description)};
}

LearningRate one_cycle(const OneCycle& options) {
  check_rate(options.maximum, "one-cycle", "maximum");
  check_steps(options.total_steps, "one-cycle", "total_steps");
  if (options.rising_part < 0 || options.rising_part > 1) {
    throw InvalidArgument("one-cycle learning rate: rising_part must be in [0, 1]: {}",
                          options.rising_part);
  }
  if (!(options.start_divisor > 0 && options.end_divisor > 0)) {
    throw InvalidArgument("one-cycle learning rate: divisors must be positive: {}, {}",
                          options.start_divisor, options.end_divisor);
  }
  return {[options](std::int64_t step) { return one_cycle_at(options, step); },
          fmt::format("one cycle up to {} in {} steps, {} of them rising", options.maximum,
                      options.total_steps, options.rising_part)};
}

LearningRate inverse_square_root(const InverseSquareRoot& options) {
  check_rate(options.peak, "inverse-square-root", "peak");
  check_steps(options.warm_up_steps, "inverse-square-root", "warm_up_steps");
  return {
      [options](std::int64_t step) {
        const double part = part_of(step + 1, options.warm_up_steps);
        return options.peak * std::min(part, 1.0 / std::sqrt(part));
      },
      fmt::format("inverse square root from {} at step {}", options.peak, options.warm_up_steps)};
}

}  // namespace muster
