#include "muster/nn/optim/moving_average.h"

#include <torch/types.h>

#include <algorithm>
#include <span>
#include <string>

#include "muster/base/error.h"
#include "muster/nn/optim/flat_kernels_internal.h"
#include "muster/nn/optim/tensor_kernels_internal.h"

namespace muster {
namespace {

/// The rows of a step's gradient; none where it touched none.
std::span<const std::int64_t> rows_of(const RowGradient& gradient) {
  if (gradient.empty()) return {};
  return {gradient.rows.data_ptr<std::int64_t>(), static_cast<std::size_t>(gradient.rows.numel())};
}

std::string name_of_average(const Variable& variable) {
  return variable.spec.name + "/ExponentialMovingAverage";
}

}  // namespace

MovingAverage::MovingAverage(const Variables& variables, const MovingAverageOptions& options,
                             std::optional<FlatRange> held)
    : options_(options), held_(held), values_(variables.flat()) {
  if (!(options.decay >= 0 && options.decay <= 1)) {
    throw InvalidArgument("a moving average's decay must be in [0, 1]: {}", options.decay);
  }
  take_held(held.value_or(FlatRange{0, values_.numel()}));
  for (const Variable& variable : variables.all()) {
    at::Tensor average;
    if (variable.dense()) {
      dense_.push_back(variable);
      if (held_) continue;
      average = flat_.average.narrow(0, variable.offset, variable.value.numel())
                    .view(variable.value.sizes());
    } else if (variable.sparse()) {
      average = variable.value.clone();
      Table table{.pair = {variable.value, average},
                  .rows_index = static_cast<std::size_t>(variable.rows_index)};
      if (average.is_cpu()) table.seen.resize(static_cast<std::size_t>(average.size(0)), 0);
      tables_.push_back(std::move(table));
    } else {
      continue;
    }
    tensors_.push_back({name_of_average(variable), average});
  }
}

void MovingAverage::take_held(const FlatRange& range) {
  flat_ = {};
  flat_.value = values_.narrow(0, range.first, range.last - range.first);
  flat_.average = flat_.value.clone();
}

void MovingAverage::hold(const FlatRange& range) {
  if (!held_) throw Internal("averages of all elements are to be of some");
  held_ = range;
  take_held(range);
}

std::vector<TensorPart> MovingAverage::parts() const {
  std::vector<TensorPart> parts;
  if (!held_) return parts;
  parts.reserve(dense_.size());
  for (const Variable& variable : dense_) {
    const FlatRange held = elements_in(variable, *held_);
    const std::int64_t begin =
        held == FlatRange{} ? 0 : variable.offset + held.first - held_->first;
    parts.push_back({name_of_average(variable), variable.spec.shape, held.first, held.last,
                     flat_.average.narrow(0, begin, held.last - held.first)});
  }
  return parts;
}

float MovingAverage::rate_at(std::int64_t step) const {
  double decay = options_.decay;
  if (options_.ramp) {
    const double updates = static_cast<double>(step) + 1.0;
    decay = std::min(decay, (1.0 + updates) / (10.0 + updates));
  }
  return static_cast<float>(1.0 - decay);
}

void MovingAverage::catch_up(const Table& table, std::size_t row) const {
  std::uint32_t& seen = table.seen[row];
  if (seen == rates_.size()) return;
  const auto width = static_cast<std::size_t>(table.pair.average.size(1));
  internal::move_average(width, std::span<const float>(rates_).subspan(seen),
                         table.pair.value.data_ptr<float>() + row * width,
                         table.pair.average.data_ptr<float>() + row * width);
  seen = static_cast<std::uint32_t>(rates_.size());
}

void MovingAverage::catch_up_all() const {
  if (rates_.empty()) return;
  for (const Table& table : tables_) {
    for (std::size_t row = 0; row < table.seen.size(); ++row) catch_up(table, row);
    std::ranges::fill(table.seen, 0U);
  }
  rates_.clear();
}

void MovingAverage::before_update(const Gradients& gradients) {
  for (const Table& table : tables_) {
    if (table.seen.empty()) continue;
    for (const std::int64_t row : rows_of(gradients.rows.at(table.rows_index))) {
      catch_up(table, static_cast<std::size_t>(row));
    }
  }
}

void MovingAverage::update(const Gradients& gradients, std::int64_t step) {
  const float rate = rate_at(step);
  internal::move_average(rate, flat_.value, flat_.average);
  rates_.push_back(rate);
  for (const Table& table : tables_) {
    if (table.seen.empty()) {
      internal::move_average(rate, table.pair.value, table.pair.average);
      continue;
    }
    for (const std::int64_t row : rows_of(gradients.rows.at(table.rows_index))) {
      catch_up(table, static_cast<std::size_t>(row));
    }
  }
}

void MovingAverage::update(std::int64_t step) {
  catch_up_all();
  const float rate = rate_at(step);
  internal::move_average(rate, flat_.value, flat_.average);
  for (const Table& table : tables_) {
    internal::move_average(rate, table.pair.value, table.pair.average);
  }
}

void MovingAverage::swap() {
  if (held_) throw Internal("averages of which others hold some take the variables' place");
  catch_up_all();
  internal::swap_values(flat_.value, flat_.average);
  for (const Table& table : tables_) internal::swap_values(table.pair.value, table.pair.average);
}

std::vector<NamedTensor> MovingAverage::tensors() const {
  catch_up_all();
  return tensors_;
}

}  // namespace muster
