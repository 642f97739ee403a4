#include "muster/serving/codec/signature_defaults.h"

#include <algorithm>
#include <optional>

#include "muster/base/error.h"

namespace muster::serving {
namespace {

using graph::SignatureDef;
using graph::TensorInfo;
using graph::TensorValue;

constexpr std::int64_t kMostDefaultBytes = std::int64_t{256} << 20;

bool has_open_rows(const TensorInfo& info) {
  return !info.sparse && !info.shape.unknown_rank && !info.shape.dims.empty() &&
         info.shape.dims[0] == -1;
}

// Those that all inputs of the request have; one where they disagree, or there are none.
std::int64_t rows_of_request(const Tensors& inputs) {
  std::optional<std::int64_t> rows;
  for (const auto& [name, tensor] : inputs) {
    if (tensor.shape.empty() || (rows && *rows != tensor.shape.front())) return 1;
    rows = tensor.shape.front();
  }
  return rows.value_or(1);
}

std::int64_t bytes_of(const TensorValue& value) {
  std::size_t bytes = value.bytes.size() + value.strings.size() * sizeof(std::string);
  for (const std::string& text : value.strings) bytes += text.size();
  return static_cast<std::int64_t>(bytes);
}

TensorValue repeated(const TensorValue& row, std::int64_t rows) {
  const auto times = static_cast<std::size_t>(rows);
  TensorValue all{.dtype = row.dtype, .shape = row.shape};
  all.shape.front() = rows;
  all.bytes.reserve(times * row.bytes.size());
  all.strings.reserve(times * row.strings.size());
  for (std::size_t i = 0; i < times; ++i) {
    all.bytes += row.bytes;
    all.strings.insert(all.strings.end(), row.strings.begin(), row.strings.end());
  }
  return all;
}

}  // namespace

bool is_row_default(const TensorInfo& info, const TensorValue& value) {
  return has_open_rows(info) && !value.shape.empty() && value.shape.front() == 1 &&
         graph::fits(info.shape, value.shape) && graph::without_ref(info.dtype) == value.dtype;
}

void check_default_bytes(const std::string& name, const TensorValue& value, std::int64_t rows) {
  const std::int64_t each = bytes_of(value);
  if (each == 0 || rows <= kMostDefaultBytes / each) return;
  throw InvalidArgument(
      "the default of input {} for {} rows takes {} bytes each, and at most {} bytes in all: send "
      "the input, or fewer rows",
      name, rows, each, kMostDefaultBytes);
}

void add_defaults(const SignatureDef& signature, Tensors& inputs) {
  if (signature.defaults.empty()) return;
  const bool is_by_row = std::ranges::all_of(
      signature.inputs, [](const auto& input) { return has_open_rows(input.second); });
  const std::int64_t rows = is_by_row ? rows_of_request(inputs) : 1;
  for (const auto& [name, value] : signature.defaults) {
    const auto input = signature.inputs.find(name);
    if (input == signature.inputs.end() || inputs.contains(name)) continue;
    if (rows == 1 || !is_row_default(input->second, value)) {
      inputs.emplace(name, value);
      continue;
    }
    value.check();
    check_default_bytes(name, value, rows);
    inputs.emplace(name, repeated(value, rows));
  }
}

}  // namespace muster::serving
