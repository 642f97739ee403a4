#include "muster/data/weights/weight.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "muster/base/error.h"

namespace muster {
namespace {

class BytesStorage final : public WeightStorage {
 public:
  explicit BytesStorage(WeightBytes bytes) : bytes_(std::move(bytes)) {}
  std::uint64_t size_bytes() const override { return bytes_.bytes.size(); }
  WeightBytes read() const override { return bytes_; }

 private:
  WeightBytes bytes_;
};

/// Copies strided elements into row-major order. The innermost dimensions that lie row-major
/// already are copied as one run.
class StridedCopy {
 public:
  StridedCopy(const Weight& weight, const std::byte* from, std::byte* to)
      : weight_(weight), element_(element_bytes(weight.spec.type)), from_(from), to_(to) {
    run_ = static_cast<std::int64_t>(element_);
    inner_ = weight.spec.shape.size();
    std::int64_t elements = 1;
    while (inner_ > 0 && weight.strides[inner_ - 1] == elements) {
      elements *= weight.spec.shape[--inner_];
    }
    run_ *= elements;
  }

  void copy() { copy(0, from_); }

 private:
  void copy(std::size_t dimension, const std::byte* from) {
    if (dimension == inner_) {
      std::memcpy(to_, from, static_cast<std::size_t>(run_));
      to_ += run_;
      return;
    }
    const std::int64_t step = weight_.strides[dimension] * static_cast<std::int64_t>(element_);
    for (std::int64_t i = 0; i < weight_.spec.shape[dimension]; ++i) {
      copy(dimension + 1, from + i * step);
    }
  }

  const Weight& weight_;
  std::size_t element_;
  const std::byte* from_;
  std::byte* to_;
  /// Bytes that are copied at a time, and the dimension at which they begin.
  std::int64_t run_ = 0;
  std::size_t inner_ = 0;
};

}  // namespace

std::vector<std::int64_t> row_major_strides(std::span<const std::int64_t> shape) {
  std::vector<std::int64_t> strides(shape.size(), 1);
  for (std::size_t i = shape.size(); i-- > 1;) {
    strides[i - 1] = strides[i] * std::max<std::int64_t>(shape[i], 1);
  }
  return strides;
}

bool is_row_major(const Weight& weight) {
  std::int64_t expected = 1;
  for (std::size_t i = weight.spec.shape.size(); i-- > 0;) {
    const std::int64_t size = weight.spec.shape[i];
    if (size == 0) return true;
    if (size != 1 && weight.strides[i] != expected) return false;
    expected *= size;
  }
  return true;
}

std::uint64_t element_bytes(const Weight& weight) {
  return static_cast<std::uint64_t>(element_count(weight.spec.shape).value_or(0)) *
         element_bytes(weight.spec.type);
}

std::optional<std::uint64_t> extent_bytes(DataType type, std::span<const std::int64_t> shape,
                                          std::span<const std::int64_t> strides) {
  if (!element_count(shape) || shape.size() != strides.size()) return std::nullopt;
  std::int64_t last = 0;
  bool is_empty = false;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (strides[i] < 0) return std::nullopt;
    is_empty |= shape[i] == 0;
    std::int64_t reach = 0;
    if (__builtin_mul_overflow(std::max<std::int64_t>(shape[i], 1) - 1, strides[i], &reach) ||
        __builtin_add_overflow(last, reach, &last)) {
      return std::nullopt;
    }
  }
  if (is_empty) return 0;
  std::int64_t bytes = 0;
  if (__builtin_add_overflow(last, 1, &last) ||
      __builtin_mul_overflow(last, static_cast<std::int64_t>(element_bytes(type)), &bytes)) {
    return std::nullopt;
  }
  return static_cast<std::uint64_t>(bytes);
}

void check_extent(const Weight& weight, std::uint64_t most_expanded, const std::string& where) {
  const auto extent = extent_bytes(weight.spec.type, weight.spec.shape, weight.strides);
  const std::uint64_t size = weight.storage->size_bytes();
  if (!extent || weight.first_byte > size || *extent > size - weight.first_byte) {
    throw DataLoss(
        "{}: tensor '{}', {} with strides {}, does not lie in the {} bytes of its storage", where,
        weight.name, to_string(weight.spec), shape_text(weight.strides), size);
  }
  std::int64_t bytes = 0;
  const std::int64_t elements = element_count(weight.spec.shape).value_or(0);
  const bool overflows = __builtin_mul_overflow(
      elements, static_cast<std::int64_t>(element_bytes(weight.spec.type)), &bytes);
  const auto needed = static_cast<std::uint64_t>(bytes);
  if (overflows || (needed > *extent && needed > most_expanded)) {
    throw ResourceExhausted(
        "{}: tensor '{}', {} with strides {}, repeats its elements to more than {} bytes; save "
        "tensor.contiguous()",
        where, weight.name, to_string(weight.spec), shape_text(weight.strides), most_expanded);
  }
}

WeightBytes row_major_bytes(const Weight& weight) {
  WeightBytes all = weight.storage->read();
  const std::uint64_t count = element_bytes(weight);
  if (count == 0) return {.bytes = {}, .owner = std::move(all.owner)};
  if (is_row_major(weight)) {
    return {.bytes = all.bytes.subspan(weight.first_byte, count), .owner = std::move(all.owner)};
  }
  const auto copy = std::make_shared<std::vector<std::byte>>(count);
  StridedCopy(weight, all.bytes.data() + weight.first_byte, copy->data()).copy();
  return {.bytes = *copy, .owner = copy};
}

std::shared_ptr<const WeightStorage> storage_of(WeightBytes bytes) {
  return std::make_shared<BytesStorage>(std::move(bytes));
}

std::shared_ptr<const WeightStorage> storage_of(std::shared_ptr<const MappedFile> file) {
  const std::string_view bytes = file->bytes();
  return storage_of(
      WeightBytes{.bytes = std::as_bytes(std::span(bytes)), .owner = std::move(file)});
}

}  // namespace muster
