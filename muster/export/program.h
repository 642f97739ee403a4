#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "muster/data/features/feature_column.h"
#include "muster/nn/model/export_output.h"
#include "muster/nn/model/module_variables.h"

/// A traced model as a list of libtorch's operations, without libtorch's own graph types.
namespace muster::exporting {

/// A size: a constant, or this many times the number of rows in the batch.
struct Size {
  std::int64_t constant = 0;
  std::int64_t per_row = 0;

  bool follows_batch() const { return per_row != 0; }
  bool operator==(const Size&) const = default;
};

/// A place in Program::values.
struct ValueId {
  std::size_t index = 0;
  bool operator==(const ValueId&) const = default;
};

/// An argument of an operation; monostate is None.
using Argument = std::variant<std::monostate, ValueId, std::vector<ValueId>, bool, Size, double,
                              std::vector<Size>, std::vector<double>, std::string, at::Tensor>;

/// A tensor that the program computes or is given.
struct Value {
  at::ScalarType dtype = at::kFloat;
  std::vector<Size> sizes{};
  /// The module whose variables were last used on the way to it: "conv1"; empty before the first.
  std::string scope{};
};

struct Operation {
  /// "aten::linear"
  std::string kind{};
  std::vector<Argument> arguments{};
  std::vector<ValueId> outputs{};
  std::string scope{};
};

/// Strings that a model predicts, which libtorch does not trace: the words of another prediction.
struct StringOutput {
  std::string name{};
  /// The words that the ids index; empty: the ids in decimals.
  std::vector<std::string> words{};
  /// The prediction that holds the ids.
  std::string ids{};
};

/// Output of feature columns for raw features, computed outside of the trace.
struct ColumnInput {
  /// Neighbours that give one block of numbers, or one that gives ids.
  FeatureColumnList columns{};
  /// Numbers [rows, sum of widths], or ids [?], which only `muster::lookup` reads.
  ValueId value{};
  bool ids = false;
  /// The ids are those of an embedding, for which weights that are not positive do not count.
  bool embedded = false;
};

/// The computation of a model in prediction, for any number of rows.
struct Program {
  std::vector<Value> values{};
  /// Operations that no output needs are dropped.
  std::vector<Operation> operations{};
  /// Features by name that some output needs.
  std::vector<std::pair<std::string, ValueId>> features{};
  /// Columns that some output needs.
  std::vector<ColumnInput> columns{};
  /// Variables that some output needs.
  std::vector<std::pair<ModuleVariable, ValueId>> variables{};
  std::vector<std::pair<std::string, ValueId>> outputs{};
  std::vector<StringOutput> string_outputs{};
  std::vector<ExportOutput> export_outputs{};
};

/// "aten::relu after conv1": for errors.
std::string describe(const Operation& operation);

}  // namespace muster::exporting
