#include "muster/data/features/string_column.h"

#include <fmt/ranges.h>

#include <functional>
#include <numeric>
#include <utility>

#include "muster/base/error.h"

namespace muster {
namespace {

// Strings together with the views of them that a column holds.
struct OwnedStrings {
  explicit OwnedStrings(std::vector<std::string> values) : strings(std::move(values)) {
    views.assign(strings.begin(), strings.end());
  }
  std::vector<std::string> strings;
  std::vector<std::string_view> views;
};

void check_shape(std::size_t values, const std::vector<std::int64_t>& shape) {
  const auto product =
      std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
  if (shape.empty() || product != static_cast<std::int64_t>(values)) {
    throw InvalidArgument("{} strings do not fill the shape [{}]", values, fmt::join(shape, ", "));
  }
}

void check_splits(std::size_t values, const std::vector<std::int64_t>& splits) {
  bool rising =
      !splits.empty() && splits.front() == 0 && splits.back() == static_cast<std::int64_t>(values);
  for (std::size_t i = 1; i < splits.size(); ++i) rising = rising && splits[i - 1] <= splits[i];
  if (!rising) {
    throw InvalidArgument("row splits must rise from 0 to the number of strings, {}", values);
  }
}

}  // namespace

StringColumn::StringColumn(std::vector<std::string_view> values, std::vector<std::int64_t> shape,
                           std::shared_ptr<const void> owner)
    : owner_(std::move(owner)), shape_(std::move(shape)) {
  check_shape(values.size(), shape_);
  values_ = std::make_shared<const std::vector<std::string_view>>(std::move(values));
  end_ = shape_[0];
}

StringColumn::StringColumn(std::vector<std::string> values, std::vector<std::int64_t> shape)
    : shape_(std::move(shape)) {
  check_shape(values.size(), shape_);
  const auto owned = std::make_shared<const OwnedStrings>(std::move(values));
  values_ = {owned, &owned->views};
  end_ = shape_[0];
}

StringColumn StringColumn::ragged(std::vector<std::string_view> values,
                                  std::vector<std::int64_t> row_splits,
                                  std::shared_ptr<const void> owner) {
  check_splits(values.size(), row_splits);
  StringColumn column;
  column.shape_.clear();
  column.end_ = static_cast<std::int64_t>(row_splits.size()) - 1;
  column.values_ = std::make_shared<const std::vector<std::string_view>>(std::move(values));
  column.splits_ = std::make_shared<const std::vector<std::int64_t>>(std::move(row_splits));
  column.owner_ = std::move(owner);
  return column;
}

std::int64_t StringColumn::rows() const { return end_ - begin_; }

std::int64_t StringColumn::first_value(std::int64_t row) const {
  if (splits_) return (*splits_)[static_cast<std::size_t>(row)];
  return std::accumulate(shape_.begin() + 1, shape_.end(), row, std::multiplies<>());
}

std::span<const std::string_view> StringColumn::values() const {
  const auto first = first_value(begin_);
  return std::span(*values_).subspan(static_cast<std::size_t>(first),
                                     static_cast<std::size_t>(first_value(end_) - first));
}

std::span<const std::string_view> StringColumn::row(std::int64_t index) const {
  if (index < 0 || index >= rows()) throw OutOfRange("row {} of {} rows", index, rows());
  const auto first = first_value(begin_ + index);
  return std::span(*values_).subspan(
      static_cast<std::size_t>(first),
      static_cast<std::size_t>(first_value(begin_ + index + 1) - first));
}

StringColumn StringColumn::slice(std::int64_t begin, std::int64_t end) const {
  if (begin < 0 || begin > end || end > rows()) {
    throw OutOfRange("rows [{}, {}) of {} rows", begin, end, rows());
  }
  StringColumn part = *this;
  part.begin_ = begin_ + begin;
  part.end_ = begin_ + end;
  if (!part.shape_.empty()) part.shape_[0] = end - begin;
  return part;
}

}  // namespace muster
