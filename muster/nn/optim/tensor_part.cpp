#include "muster/nn/optim/tensor_part.h"

#include <torch/types.h>

#include <algorithm>

namespace muster {
namespace {

std::int64_t elements_of(const std::vector<std::int64_t>& shape) {
  std::int64_t elements = 1;
  for (const std::int64_t size : shape) elements *= size;
  return elements;
}

}  // namespace

bool TensorPart::is_whole() const { return first == 0 && last == elements_of(shape); }

at::Tensor TensorPart::rows() const {
  if (is_whole()) return values.view(shape);
  std::vector<std::int64_t> sizes = shape;
  sizes.front() = -1;
  return values.view(sizes);
}

std::vector<std::int64_t> TensorPart::start() const {
  std::vector<std::int64_t> start(shape.size(), 0);
  if (first > 0) start.front() = first / (elements_of(shape) / shape.front());
  return start;
}

FlatRange elements_in(const Variable& variable, const FlatRange& range) {
  const std::int64_t size = variable.value.numel();
  const std::int64_t first = std::clamp<std::int64_t>(range.first - variable.offset, 0, size);
  const std::int64_t last = std::clamp<std::int64_t>(range.last - variable.offset, 0, size);
  return first < last ? FlatRange{first, last} : FlatRange{};
}

std::vector<TensorPart> value_parts(const Variables& variables, const FlatRange& range) {
  std::vector<TensorPart> parts;
  for (const Variable& variable : variables.all()) {
    if (!variable.dense()) continue;
    const FlatRange held = elements_in(variable, range);
    parts.push_back(
        {variable.spec.name, variable.spec.shape, held.first, held.last,
         variables.flat().narrow(0, variable.offset + held.first, held.last - held.first)});
  }
  return parts;
}

}  // namespace muster
