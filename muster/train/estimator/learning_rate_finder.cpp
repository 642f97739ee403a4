#include "muster/train/estimator/learning_rate_finder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/train/engine/trainer.h"
#include "muster/train/estimator/estimator.h"
#include "muster/train/estimator/rates_internal.h"
#include "muster/train/estimator/scratch_folder_internal.h"

namespace muster {
namespace {

void check(const LearningRateFinderOptions& options) {
  if (!(options.first > 0 && options.last > options.first && std::isfinite(options.last))) {
    throw InvalidArgument("find_learning_rate: rates must rise from a positive first one: {} to {}",
                          options.first, options.last);
  }
  if (options.steps < 3) {
    throw InvalidArgument("find_learning_rate: steps must be at least 3: {}", options.steps);
  }
  if (!(options.smoothing >= 0 && options.smoothing < 1)) {
    throw InvalidArgument("find_learning_rate: smoothing must be in [0, 1): {}", options.smoothing);
  }
  if (!(options.divergence > 1)) {
    throw InvalidArgument("find_learning_rate: divergence must be greater than 1: {}",
                          options.divergence);
  }
}

double rate_at(const LearningRateFinderOptions& options, std::int64_t step) {
  const auto part = static_cast<double>(step) / static_cast<double>(options.steps - 1);
  return options.first * std::pow(options.last / options.first, part);
}

OptimizersByPrefix with_rising_rates(const OptimizersByPrefix& optimizers,
                                     const LearningRateFinderOptions& options) {
  double largest = 0;
  for (const auto& entry : optimizers) {
    largest = std::max(largest, entry.optimizer.learning_rate().at(0));
  }
  return internal::with_rates(optimizers, [&](const LearningRate& rate) {
    // A schedule that begins with 0 tells no proportion.
    const double own = rate.at(0);
    const double factor = own > 0 ? own / largest : 1;
    return LearningRate(
        [options, factor](std::int64_t step) { return factor * rate_at(options, step); },
        fmt::format("rising from {} to {}", factor * options.first, factor * options.last));
  });
}

// Where the smoothed loss falls fastest: rates rise by equal factors, so that the difference over
// two steps is the slope.
double steepest_rate(const std::vector<LearningRatePoint>& points) {
  std::size_t best = 1;
  const auto slope = [&](std::size_t i) {
    return points[i + 1].smoothed_loss - points[i - 1].smoothed_loss;
  };
  for (std::size_t i = 1; i + 1 < points.size(); ++i) {
    if (slope(i) < slope(best)) best = i;
  }
  return points[best].learning_rate;
}

bool smaller_loss(const LearningRatePoint& left, const LearningRatePoint& right) {
  return left.smoothed_loss < right.smoothed_loss;
}

double smallest_smoothed_loss(const std::vector<LearningRatePoint>& points) {
  return std::min_element(points.begin(), points.end(), smaller_loss)->smoothed_loss;
}

// The steps that the run makes until it diverges.
LearningRateFinding sweep(Trainer& trainer, const LearningRateFinderOptions& options) {
  LearningRateFinding finding;
  double average = 0;
  double weight = 0;
  trainer.begin();
  for (std::int64_t step = 0; step < options.steps && !trainer.is_over(); ++step) {
    try {
      trainer.step();
    } catch (const Aborted&) {  // the loss or a gradient is not finite
      finding.diverged = true;
      break;
    }
    if (trainer.session().global_step() != step + 1) break;
    const double loss = trainer.session().loss();
    average = options.smoothing * average + (1 - options.smoothing) * loss;
    weight = options.smoothing * weight + (1 - options.smoothing);
    finding.points.push_back(
        {.learning_rate = rate_at(options, step), .loss = loss, .smoothed_loss = average / weight});
    if (average / weight > options.divergence * smallest_smoothed_loss(finding.points)) {
      finding.diverged = true;
      break;
    }
  }
  return finding;
}

constexpr double kPlotWidth = 800;
constexpr double kPlotHeight = 440;
constexpr double kPlotLeft = 70;
constexpr double kPlotRight = 30;
constexpr double kPlotTop = 40;
constexpr double kPlotBottom = 50;

/// Places of rates and losses in the picture; losses that are far above the first one lie on its
/// upper edge.
class RatePlot {
 public:
  explicit RatePlot(const std::vector<LearningRatePoint>& points)
      : first_(std::log10(points.front().learning_rate)),
        last_(std::log10(points.back().learning_rate)),
        least_(smallest_smoothed_loss(points)),
        most_(least_) {
    const double first_loss = points.front().smoothed_loss;
    for (const auto& point : points) {
      most_ = std::max(most_, std::min(point.smoothed_loss, 2 * std::abs(first_loss) + least_));
    }
    if (most_ == least_) most_ = least_ + 1;
    if (last_ == first_) last_ = first_ + 1;
  }

  double x(double rate) const {
    return kPlotLeft +
           (kPlotWidth - kPlotLeft - kPlotRight) * (std::log10(rate) - first_) / (last_ - first_);
  }
  double y(double loss) const {
    const double part = std::clamp((loss - least_) / (most_ - least_), -0.05, 1.05);
    return kPlotHeight - kPlotBottom - (kPlotHeight - kPlotTop - kPlotBottom) * part;
  }
  std::string line(const std::vector<LearningRatePoint>& points, double LearningRatePoint::*loss,
                   const char* style) const {
    std::string places;
    for (const auto& point : points) {
      places += fmt::format("{}{:.1f},{:.1f}", places.empty() ? "" : " ", x(point.learning_rate),
                            y(point.*loss));
    }
    return fmt::format("<polyline points=\"{}\" fill=\"none\" {}/>\n", places, style);
  }
  std::string axes() const {
    std::string out;
    for (int power = static_cast<int>(std::ceil(first_)); power <= last_; ++power) {
      const double at = x(std::pow(10, power));
      out += fmt::format(
          "<line x1=\"{0:.1f}\" y1=\"{1}\" x2=\"{0:.1f}\" y2=\"{2}\" stroke=\"#ddd\"/>\n"
          "<text x=\"{0:.1f}\" y=\"{3}\" text-anchor=\"middle\">1e{4}</text>\n",
          at, kPlotTop, kPlotHeight - kPlotBottom, kPlotHeight - kPlotBottom + 18, power);
    }
    for (int i = 0; i <= 4; ++i) {
      const double loss = least_ + (most_ - least_) * i / 4;
      out += fmt::format("<text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{:.3g}</text>\n",
                         kPlotLeft - 8, y(loss) + 4, loss);
    }
    return out;
  }

 private:
  double first_;
  double last_;
  double least_;
  double most_;
};

}  // namespace

std::string LearningRateFinding::svg() const {
  if (points.empty()) throw InvalidArgument("a finding without steps has no picture");
  const RatePlot plot(points);
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" "
      "font-family=\"sans-serif\" font-size=\"12\" fill=\"#333\">\n"
      "<rect width=\"{0}\" height=\"{1}\" fill=\"#fff\"/>\n{2}",
      kPlotWidth, kPlotHeight, plot.axes());
  out += plot.line(points, &LearningRatePoint::loss, "stroke=\"#bbb\"");
  out +=
      plot.line(points, &LearningRatePoint::smoothed_loss, "stroke=\"#0072b2\" stroke-width=\"2\"");
  out += fmt::format(
      "<line x1=\"{0:.1f}\" y1=\"{1}\" x2=\"{0:.1f}\" y2=\"{2}\" stroke=\"#d55e00\"/>\n"
      "<text x=\"{0:.1f}\" y=\"{3}\" text-anchor=\"middle\" fill=\"#d55e00\">steepest at "
      "{4:.2g}</text>\n",
      plot.x(steepest), kPlotTop, kPlotHeight - kPlotBottom, kPlotTop - 8, steepest);
  return out + fmt::format(
                   "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">learning rate; blue: smoothed "
                   "loss, grey: loss</text>\n</svg>\n",
                   kPlotWidth / 2, kPlotHeight - 10);
}

LearningRateFinding find_learning_rate(EstimatorOptions estimator, RunConfig config,
                                       const InputFn& input_fn,
                                       const LearningRateFinderOptions& options) {
  check(options);
  const internal::ScratchFolder folder;
  config.model_dir = folder.path();
  config.cluster = {};
  config.checkpoints.save_checkpoints = false;
  config.save_summary_steps = 0;
  config.log_step_count_steps = 0;
  estimator.optimizer = with_rising_rates(estimator.optimizer, options);
  estimator.nan_policy = {.action = NanPolicy::Action::kStop};
  Estimator run(std::move(estimator), std::move(config));
  const auto trainer = run.trainer(input_fn, {.max_steps = options.steps});
  LearningRateFinding finding = sweep(*trainer, options);
  if (finding.points.size() < 3) {
    throw InvalidArgument("find_learning_rate: {} steps were made before {}; it needs 3: {}",
                          finding.points.size(),
                          finding.diverged ? "the loss was no finite number" : "the input ended",
                          finding.diverged ? "begin with a smaller rate" : "repeat() the input");
  }
  finding.steepest = steepest_rate(finding.points);
  finding.smallest_loss =
      std::min_element(finding.points.begin(), finding.points.end(), smaller_loss)->learning_rate;
  log::info("learning rates steps={} diverged={} steepest={:.3g} smallest_loss={:.3g}",
            finding.points.size(), finding.diverged, finding.steepest, finding.smallest_loss);
  return finding;
}

}  // namespace muster
