#include "muster/saved_model/graph/tensor_value.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>

#include "muster/base/error.h"

namespace muster::graph {

Shape Shape::any() {
  Shape shape;
  shape.unknown_rank = true;
  return shape;
}

bool Shape::is_known() const {
  return !unknown_rank &&
         std::all_of(dims.begin(), dims.end(), [](auto size) { return size >= 0; });
}

bool fits(const Shape& wanted, std::span<const std::int64_t> sizes) {
  if (wanted.unknown_rank) return true;
  return std::ranges::equal(wanted.dims, sizes,
                            [](auto want, auto is) { return want < 0 || want == is; });
}

std::string to_string(const Shape& shape) {
  if (shape.unknown_rank) return "unknown_rank";
  return fmt::format("({})", fmt::join(shape.dims, ", "));
}

std::optional<std::int64_t> element_count(std::span<const std::int64_t> sizes) {
  // A zero makes the whole product zero, however large the other sizes are.
  bool empty = false;
  for (const std::int64_t size : sizes) {
    if (size < 0) return std::nullopt;
    empty = empty || size == 0;
  }
  if (empty) return 0;
  std::int64_t count = 1;
  for (const std::int64_t size : sizes) {
    if (count > std::numeric_limits<std::int64_t>::max() / size) return std::nullopt;
    count *= size;
  }
  return count;
}

TensorValue TensorValue::string_scalar(std::string value) {
  return of_strings({}, {std::move(value)});
}

TensorValue TensorValue::of_strings(std::vector<std::int64_t> shape,
                                    std::vector<std::string> values) {
  TensorValue made{DataType::kString, std::move(shape), {}, std::move(values)};
  made.check();
  return made;
}

void TensorValue::check() const {
  if (!opaque.empty()) return;
  const std::optional<std::int64_t> count = element_count(shape);
  if (!count) throw InvalidArgument("a constant cannot have the shape {}", to_string(Shape(shape)));
  const auto elements = static_cast<std::uint64_t>(*count);
  const std::size_t width = element_bytes(dtype);
  const bool text = dtype == DataType::kString;
  if (width == 0 && !text) throw InvalidArgument("a constant cannot be of type {}", name_of(dtype));
  const std::uint64_t given = text ? strings.size() : bytes.size() / width;
  if (given != elements || (!text && bytes.size() % width != 0)) {
    throw InvalidArgument("a constant of type {} and shape {} has {} elements instead of {}",
                          name_of(dtype), to_string(Shape(shape)), given, elements);
  }
}

void TensorValue::require(DataType type) const {
  if (dtype != type) {
    throw InvalidArgument("a constant has type {} where {} is needed", name_of(dtype),
                          name_of(type));
  }
  check();
}

}  // namespace muster::graph
