#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "muster/serving/core/batch_queue.h"
#include "muster/serving/core/batch_rows_internal.h"

namespace muster::serving {

using graph::TensorValue;

namespace {

bool can_be_stacked(const TensorValue& a, const TensorValue& b) {
  return a.dtype == b.dtype && a.shape.size() == b.shape.size() && !a.shape.empty() &&
         std::equal(a.shape.begin() + 1, a.shape.end(), b.shape.begin() + 1);
}

}  // namespace

std::optional<std::int64_t> rows_in(const TensorValue& tensor) {
  if (tensor.shape.empty()) return std::nullopt;
  return tensor.shape.front();
}

bool can_be_joined(const Tensors& a, const Tensors& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    return x.first == y.first && can_be_stacked(x.second, y.second);
  });
}

TensorValue taken_rows(TensorValue& tensor, std::int64_t begin, std::int64_t end) {
  TensorValue part{.dtype = tensor.dtype, .shape = tensor.shape};
  part.shape.front() = end - begin;
  const std::int64_t rows = tensor.shape.front();
  const auto from = static_cast<std::size_t>(begin);
  const auto to = static_cast<std::size_t>(end);
  if (tensor.dtype == graph::DataType::kString) {
    const std::size_t each = elements_per_row(tensor.strings, rows);
    const auto first = tensor.strings.begin();
    part.strings.assign(std::make_move_iterator(first + static_cast<std::ptrdiff_t>(from * each)),
                        std::make_move_iterator(first + static_cast<std::ptrdiff_t>(to * each)));
  } else {
    const std::size_t each = elements_per_row(tensor.bytes, rows);
    part.bytes = tensor.bytes.substr(from * each, (to - from) * each);
  }
  return part;
}

void repeat_first_row(TensorValue& tensor, std::int64_t times) {
  const std::int64_t rows = tensor.shape.front();
  const std::string bytes = tensor.bytes.substr(0, elements_per_row(tensor.bytes, rows));
  const auto each = static_cast<std::ptrdiff_t>(elements_per_row(tensor.strings, rows));
  const std::vector<std::string> strings(tensor.strings.begin(), tensor.strings.begin() + each);
  for (std::int64_t i = 0; i < times; ++i) {
    tensor.bytes += bytes;
    tensor.strings.insert(tensor.strings.end(), strings.begin(), strings.end());
  }
  tensor.shape.front() += times;
}

bool is_row_wise(const graph::SignatureDef& signature) {
  const auto is_open = [](const auto& row) {
    const graph::Shape& shape = row.second.shape;
    return !row.second.sparse && !shape.unknown_rank && !shape.dims.empty() && shape.dims[0] == -1;
  };
  return !signature.inputs.empty() && !signature.outputs.empty() &&
         std::ranges::all_of(signature.inputs, is_open) &&
         std::ranges::all_of(signature.outputs, is_open);
}

std::int64_t rows_of(const Tensors& inputs) {
  std::optional<std::int64_t> rows;
  for (const auto& [name, tensor] : inputs) {
    const auto its_rows = rows_in(tensor);
    if (!its_rows || (rows && *rows != *its_rows)) return 1;
    rows = its_rows;
  }
  return rows.value_or(1);
}

}  // namespace muster::serving
