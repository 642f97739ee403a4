#include "muster/serving/executable/explain_rows.h"

#include <fmt/core.h>

#include <string>
#include <utility>

#include "muster/base/error.h"

namespace muster::serving {
namespace {

using graph::TensorValue;

// The number of rows that all inputs have; 1 where some have none.
std::int64_t common_rows(const Tensors& inputs) {
  std::optional<std::int64_t> rows;
  for (const auto& [name, tensor] : inputs) {
    if (tensor.shape.empty()) return 1;
    if (rows && *rows != tensor.shape[0]) {
      throw InvalidArgument("the input {} has {} rows, and others have {}", name, tensor.shape[0],
                            *rows);
    }
    rows = tensor.shape[0];
  }
  return rows.value_or(1);
}

TensorValue row_at(const TensorValue& tensor, std::int64_t row, std::int64_t rows) {
  if (tensor.shape.empty()) return tensor;
  tensor.check();
  TensorValue one{.dtype = tensor.dtype, .shape = tensor.shape};
  one.shape[0] = 1;
  const auto at = static_cast<std::size_t>(row);
  const auto count = static_cast<std::size_t>(rows);
  const std::size_t bytes = tensor.bytes.size() / count;
  one.bytes = tensor.bytes.substr(at * bytes, bytes);
  const auto strings = static_cast<std::ptrdiff_t>(tensor.strings.size() / count);
  const auto first = tensor.strings.begin() + static_cast<std::ptrdiff_t>(at) * strings;
  one.strings.assign(first, first + strings);
  return one;
}

executor::Values values_of_row(const Tensors& inputs, std::int64_t row, std::int64_t rows) {
  executor::Values values;
  for (const auto& [name, tensor] : inputs) {
    values.emplace(name, executor::to_value(row_at(tensor, row, rows)));
  }
  return values;
}

}  // namespace

std::vector<executor::Explanation> explain_rows(const executor::ExecutableModel& model,
                                                std::string_view signature, const Tensors& inputs,
                                                const executor::ExplainOptions& options,
                                                const std::optional<Tensors>& baseline) {
  std::optional<executor::Values> start;
  if (baseline) start = values_of_row(*baseline, 0, common_rows(*baseline));
  const std::int64_t rows = common_rows(inputs);
  std::vector<executor::Explanation> all;
  all.reserve(static_cast<std::size_t>(rows));
  for (std::int64_t row = 0; row < rows; ++row) {
    try {
      all.push_back(model.explain(signature, values_of_row(inputs, row, rows), options, start));
    } catch (Error& error) {
      if (rows > 1) error.add_context(fmt::format("instance {}", row + 1));
      throw;
    }
  }
  return all;
}

}  // namespace muster::serving
