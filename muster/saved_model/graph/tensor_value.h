#pragma once

#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "muster/saved_model/graph/data_type.h"

namespace muster::graph {

/// The shape of a value in a graph: of any rank, or of sizes of which -1 is unknown.
struct Shape {
  std::vector<std::int64_t> dims{};
  bool unknown_rank = false;

  Shape() = default;
  Shape(std::vector<std::int64_t> sizes) : dims(std::move(sizes)) {}  // NOLINT: a shape
  Shape(std::initializer_list<std::int64_t> sizes) : dims(sizes) {}   // NOLINT: literal
  static Shape any();

  /// Whether every size is known.
  bool is_known() const;
  bool operator==(const Shape&) const = default;
};

/// "(-1, 2)", "()" or "unknown_rank", as saved_model_cli prints it.
std::string to_string(const Shape& shape);

/// Whether a value of these sizes has this shape.
bool fits(const Shape& wanted, std::span<const std::int64_t> sizes);

/// The product of the sizes; nothing when one is negative or the product leaves 63 bits.
std::optional<std::int64_t> element_count(std::span<const std::int64_t> sizes);

/// A constant: every element is there, also where the file said "this value, a million times".
struct TensorValue {
  DataType dtype = DataType::kFloat;
  std::vector<std::int64_t> shape{};
  /// Row-major, little-endian, unless the elements are strings.
  std::string bytes{};
  /// The elements of a string tensor, row-major.
  std::vector<std::string> strings{};
  /// A resource handle or variant: TensorFlow's TensorProto as it stood in the file, not read.
  std::string opaque{};

  template <typename T>
  static TensorValue scalar(T value) {
    return of<T>({}, std::span<const T>(&value, 1));
  }
  /// Throws InvalidArgument when the shape asks for another number of values.
  template <typename T>
  static TensorValue of(std::vector<std::int64_t> shape, std::span<const T> values) {
    TensorValue made{data_type_of<T>(), std::move(shape), std::string(values.size_bytes(), '\0')};
    if (!values.empty()) std::memcpy(made.bytes.data(), values.data(), values.size_bytes());
    made.check();
    return made;
  }
  template <typename T>
  static TensorValue vector(const std::vector<T>& values) {
    return of<T>({static_cast<std::int64_t>(values.size())}, std::span<const T>(values));
  }
  static TensorValue string_scalar(std::string value);
  static TensorValue of_strings(std::vector<std::int64_t> shape, std::vector<std::string> values);

  /// The elements; throws InvalidArgument if they are of another type.
  template <typename T>
  std::vector<T> values() const {
    require(data_type_of<T>());
    // resize() of a vector<bool> would give bits, so numbers only.
    std::vector<T> out(bytes.size() / sizeof(T));
    if (!out.empty()) std::memcpy(out.data(), bytes.data(), out.size() * sizeof(T));
    return out;
  }

  /// Throws InvalidArgument unless values and shape agree.
  void check() const;
  bool operator==(const TensorValue&) const = default;

 private:
  void require(DataType type) const;
};

}  // namespace muster::graph
