#include "muster/saved_model/executor/integrated_gradients_internal.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>
#include <string>

#include "muster/base/error.h"

namespace muster::executor {
namespace {

// Below this part of the outputs a difference is rounding.
constexpr double kRoundingOfFloats = 1e-6;

// Value and slope of a Legendre polynomial, at a place where it has no end.
std::pair<double, double> legendre(std::int64_t degree, double x) {
  double before = 1;
  double value = x;
  for (std::int64_t k = 2; k <= degree; ++k) {
    const auto n = static_cast<double>(k);
    const double next = ((2 * n - 1) * x * value - (n - 1) * before) / n;
    before = value;
    value = next;
  }
  return {value, static_cast<double>(degree) * (x * value - before) / (x * x - 1)};
}

/// A part of the path, and what the leaves add to the output on it.
struct Piece {
  double begin = 0;
  double end = 1;
  double value_at_begin = 0;
  double value_at_end = 0;
  // In double: thousands of gradients are added.
  Slots shares{};

  // How far the shares are from adding up.
  double error() const {
    double sum = value_at_begin - value_at_end;
    for (const Slot& share : shares) sum += std::get<at::Tensor>(share).sum().item<double>();
    return sum;
  }
};

/// Pieces of a path; where the shares add up worst, a piece is halved.
class Pieces {
 public:
  Pieces(GradientPath& path, std::int64_t index, std::int64_t steps)
      : path_(path), index_(index), rule_(quadrature(std::min(steps, kStepsOfAPiece))) {
    const std::int64_t count = std::max<std::int64_t>(steps / kStepsOfAPiece, 1);
    double value = path_.output_at(0, index_);
    for (std::int64_t i = 0; i < count; ++i) {
      const auto at = [&](std::int64_t k) {
        return static_cast<double>(k) / static_cast<double>(count);
      };
      const double next = path_.output_at(at(i + 1), index_);
      add(at(i), at(i + 1), value, next);
      value = next;
    }
  }
  ~Pieces() {
    for (const Piece& piece : pieces_) path_.budget().release(piece.shares);
  }
  Pieces(const Pieces&) = delete;
  Pieces& operator=(const Pieces&) = delete;

  /// Steps that were made.
  std::int64_t steps() const { return steps_; }
  std::int64_t steps_of_next() const { return 2 * static_cast<std::int64_t>(rule_.size()); }
  double baseline_value() const { return baseline_value_; }
  /// Sum over the pieces of how far each is from adding up.
  double distance() const {
    double sum = 0;
    for (const double error : errors_) sum += std::abs(error);
    return sum;
  }

  void halve_worst() {
    const auto worst =
        std::ranges::max_element(errors_, {}, [](double error) { return std::abs(error); });
    const auto at = worst - errors_.begin();
    const Piece whole = std::move(pieces_[static_cast<std::size_t>(at)]);
    pieces_.erase(pieces_.begin() + at);
    errors_.erase(worst);
    path_.budget().release(whole.shares);
    const double middle = (whole.begin + whole.end) / 2;
    const double value = path_.output_at(middle, index_);
    add(whole.begin, middle, whole.value_at_begin, value);
    add(middle, whole.end, value, whole.value_at_end);
  }

  /// Shares of the leaves on the whole path.
  std::vector<at::Tensor> shares() const {
    std::vector<at::Tensor> sums;
    for (const Piece& piece : pieces_) {
      for (std::size_t i = 0; i < piece.shares.size(); ++i) {
        const auto& share = std::get<at::Tensor>(piece.shares[i]);
        if (i == sums.size()) {
          sums.push_back(share.clone());
        } else {
          sums[i].add_(share);
        }
      }
    }
    return sums;
  }

 private:
  static constexpr std::int64_t kStepsOfAPiece = 8;

  void add(double begin, double end, double value_at_begin, double value_at_end) {
    if (begin == 0) baseline_value_ = value_at_begin;
    Piece piece{
        .begin = begin, .end = end, .value_at_begin = value_at_begin, .value_at_end = value_at_end};
    for (const auto& [place, weight] : rule_) {
      const auto gradients = path_.gradients_at(begin + place * (end - begin), index_);
      const at::NoGradGuard no_grad;
      for (std::size_t i = 0; i < gradients.size(); ++i) {
        at::Tensor share = gradients[i].to(at::kDouble).mul_(weight * (end - begin));
        if (i == piece.shares.size()) {
          piece.shares.emplace_back(std::move(share));
        } else {
          std::get<at::Tensor>(piece.shares[i]).add_(share);
        }
      }
    }
    const at::NoGradGuard no_grad;
    for (std::size_t i = 0; i < piece.shares.size(); ++i) {
      const GradientPath::Leaf& leaf = path_.leaves()[i];
      std::get<at::Tensor>(piece.shares[i])
          .mul_(leaf.value.to(at::kDouble).sub(leaf.baseline.to(at::kDouble)));
    }
    steps_ += static_cast<std::int64_t>(rule_.size());
    path_.budget().hold(piece.shares, {});
    errors_.push_back(piece.error());
    pieces_.push_back(std::move(piece));
  }

  GradientPath& path_;
  const std::int64_t index_;
  const std::vector<std::pair<double, double>> rule_;
  std::vector<Piece> pieces_{};
  std::vector<double> errors_{};
  double baseline_value_ = 0;
  std::int64_t steps_ = 0;
};

Attribution attribution_of(const GradientPath::Leaf& leaf, const at::Tensor& parts) {
  Attribution made{.feature = leaf.feature};
  if (!leaf.is_argument) {
    // No -0.
    made.values = {parts.sum().item<double>() + 0.0};
    return made;
  }
  made.shape = parts.sizes().vec();
  // The axis of the rows, of which there is one.
  if (!made.shape.empty()) made.shape.erase(made.shape.begin());
  const at::Tensor flat = parts.add(0).cpu().contiguous();
  made.values.assign(flat.data_ptr<double>(), flat.data_ptr<double>() + flat.numel());
  return made;
}

void merge_into(Attribution& one, const Attribution& more) {
  if (one.values.size() != 1 && more.values.size() == one.values.size()) {
    for (std::size_t i = 0; i < one.values.size(); ++i) one.values[i] += more.values[i];
    return;
  }
  const bool is_one = one.values.size() == 1 && more.values.size() == 1;
  if (!is_one) one.shape.clear();
  if (is_one && one.shape.empty()) one.shape = more.shape;
  one.values = {one.sum() + more.sum()};
}

std::vector<Attribution> attributions_of(const GradientPath& path,
                                         const std::vector<at::Tensor>& parts) {
  std::map<std::string, Attribution> by_feature;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Attribution one = attribution_of(path.leaves()[i], parts[i]);
    const auto [place, is_new] = by_feature.emplace(one.feature, one);
    if (!is_new) merge_into(place->second, one);
  }
  for (const std::string& name : path.unused()) {
    by_feature.emplace(name, Attribution{.feature = name, .values = {0}});
  }
  std::vector<Attribution> all;
  all.reserve(by_feature.size());
  for (auto& item : by_feature) all.push_back(std::move(item.second));
  return all;
}

std::int64_t index_of(const at::Tensor& output, const ExplainOptions& options) {
  if (output.numel() == 0) throw InvalidArgument("the output has no numbers");
  if (!options.index) return output.argmax().item<std::int64_t>();
  if (*options.index < output.numel()) return *options.index;
  throw InvalidArgument("there is no number {} in the output: it has {}", *options.index,
                        output.numel());
}

double sum_of(const std::vector<Attribution>& attributions) {
  double sum = 0;
  for (const Attribution& one : attributions) sum += one.sum();
  return sum;
}

void check_finite(double number, const char* what) {
  if (std::isfinite(number)) return;
  throw FailedPrecondition("{} is not finite, and can have no parts; choose another baseline",
                           what);
}

}  // namespace

std::vector<std::pair<double, double>> quadrature(std::int64_t count) {
  std::vector<std::pair<double, double>> places;
  places.reserve(static_cast<std::size_t>(count));
  const auto n = static_cast<double>(count);
  for (std::int64_t i = 0; i < count; ++i) {
    double x = std::cos(std::numbers::pi * (static_cast<double>(count - i) - 0.25) / (n + 0.5));
    double slope = 1;
    // Newton's steps double the digits: the guess has two.
    for (int step = 0; step < 6; ++step) {
      const auto [value, its_slope] = legendre(count, x);
      slope = its_slope;
      x -= value / slope;
    }
    places.emplace_back((x + 1) / 2, 1 / ((1 - x * x) * slope * slope));
  }
  return places;
}

Explanation integrate_gradients(GradientPath& path, const ExplainOptions& options) {
  options.check();
  Explanation made;
  made.index = index_of(path.output(), options);
  made.value = path.output().select(0, made.index).item<double>();
  check_finite(made.value, "the output");
  Pieces pieces(path, made.index, options.steps);
  made.baseline_value = pieces.baseline_value();
  check_finite(made.baseline_value, "the output of the baseline");
  check_finite(pieces.distance(), "a gradient on the way from the baseline");
  const double difference = made.value - made.baseline_value;
  const double most_error =
      options.tolerance * std::abs(difference) +
      kRoundingOfFloats * std::max(std::abs(made.value), std::abs(made.baseline_value));
  while (pieces.distance() > most_error &&
         pieces.steps() + pieces.steps_of_next() <= options.max_steps) {
    pieces.halve_worst();
    check_finite(pieces.distance(), "a gradient on the way from the baseline");
  }
  made.steps = pieces.steps();
  made.attributions = attributions_of(path, pieces.shares());
  made.error = std::abs(sum_of(made.attributions) - difference);
  made.is_complete = made.error <= most_error;
  return made;
}

}  // namespace muster::executor
