#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "muster/data/checkpoint/data_type.h"

namespace muster {

/// Type and shape of a tensor, without its values.
struct TensorSpec {
  DataType type = DataType::kFloat;
  std::vector<std::int64_t> shape{};

  bool operator==(const TensorSpec&) const = default;
};

/// "float32 [3, 3, 1, 32]", for messages and tables.
std::string to_string(const TensorSpec& spec);
/// "[3, 3, 1, 32]"
std::string shape_text(std::span<const std::int64_t> shape);

/// The product of the dimensions; nothing when one is negative or the product leaves 63 bits.
std::optional<std::int64_t> element_count(std::span<const std::int64_t> shape);

/// The rectangle of a larger tensor that a part of it fills: the part's own shape says how far it
/// reaches from `start`.
struct TensorSlice {
  std::vector<std::int64_t> full_shape{};
  std::vector<std::int64_t> start{};
};

/// A tensor to be written. It borrows everything; the bytes are row-major and little-endian.
struct TensorView {
  std::string_view name{};
  DataType type = DataType::kFloat;
  std::vector<std::int64_t> shape{};
  /// The values, unless they are strings.
  std::span<const std::byte> bytes{};
  /// The values of a string tensor, row-major.
  std::span<const std::string_view> strings{};
  /// Set when this is one part of the variable `name`, whose other parts are written too.
  std::optional<TensorSlice> slice{};
};

/// A tensor that was read. The bytes live as long as any copy of this does; they are in the mapped
/// file where they can, with no alignment promised.
struct TensorData {
  TensorSpec spec{};
  std::span<const std::byte> bytes{};
  std::shared_ptr<const void> owner{};
};

}  // namespace muster
