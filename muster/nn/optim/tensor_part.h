#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "muster/nn/optim/variables.h"

namespace muster {

/// The elements [first, last) of Variables::flat().
struct FlatRange {
  std::int64_t first = 0;
  std::int64_t last = 0;

  bool operator==(const FlatRange&) const = default;
};

/// Elements [first, last) of a tensor of which others hold the rest: whole rows of its first
/// dimension. Holders have the same parts by name, in the same order; those of which a holder has
/// nothing are empty.
struct TensorPart {
  std::string name{};
  /// The whole tensor's.
  std::vector<std::int64_t> shape{};
  std::int64_t first = 0;
  std::int64_t last = 0;
  /// Those elements themselves, not a copy, in one dimension.
  at::Tensor values{};

  bool empty() const { return first == last; }
  /// Whether this holder has all of the tensor.
  bool is_whole() const;
  /// The elements as rows of the tensor.
  at::Tensor rows() const;
  /// Where in the whole tensor its rows begin.
  std::vector<std::int64_t> start() const;
};

/// The elements of a dense variable that are in a range of Variables::flat(), counted from the
/// variable's first; empty where there are none.
FlatRange elements_in(const Variable& variable, const FlatRange& range);

/// The values of the dense variables that are in a range of Variables::flat().
std::vector<TensorPart> value_parts(const Variables& variables, const FlatRange& range);

}  // namespace muster
