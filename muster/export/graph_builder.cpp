#include <algorithm>
#include <cctype>

#include "muster/base/error.h"
#include "muster/export/graph_builder_internal.h"

namespace muster::exporting {

using graph::DataType;
using graph::TensorValue;

std::string GraphBuilder::unique(std::string name) {
  for (char& letter : name) {
    const bool allowed = std::isalnum(static_cast<unsigned char>(letter)) != 0 || letter == '_' ||
                         letter == '.' || letter == '/' || letter == '-';
    if (!allowed) letter = '_';
  }
  // A name begins with a letter, a digit or a full stop.
  const bool begins_well = !name.empty() && name[0] != '_' && name[0] != '/' && name[0] != '-';
  if (!begins_well) name.insert(0, "n");
  if (names_.insert(name).second) return name;
  for (int number = 1;; ++number) {
    const std::string next = fmt::format("{}_{}", name, number);
    if (names_.insert(next).second) return next;
  }
}

std::string GraphBuilder::add(std::string_view name, std::string_view op,
                              std::vector<std::string> inputs, graph::Attrs attrs) {
  const std::string full = scope_.empty() ? std::string(name) : fmt::format("{}/{}", scope_, name);
  const std::string used = unique(full);
  graph_.nodes.push_back({.name = used,
                          .op = std::string(op),
                          .inputs = std::move(inputs),
                          .attrs = std::move(attrs)});
  return used;
}

std::string GraphBuilder::constant(const TensorValue& value) {
  const auto found = std::find_if(constants_.begin(), constants_.end(),
                                  [&](const auto& held) { return held.first == value; });
  if (found != constants_.end()) return found->second;
  const std::string name = add("Const", "Const", {}, {{"dtype", value.dtype}, {"value", value}});
  constants_.emplace_back(value, name);
  return name;
}

std::string GraphBuilder::ints(const std::vector<std::int64_t>& values) {
  return constant(TensorValue::vector(std::vector<std::int32_t>(values.begin(), values.end())));
}

std::string GraphBuilder::int_scalar(std::int64_t value) {
  return constant(TensorValue::scalar(static_cast<std::int32_t>(value)));
}

std::string GraphBuilder::cast(const std::string& input, DataType from, DataType to) {
  if (from == to) return input;
  return add("Cast", "Cast", {input}, {{"SrcT", from}, {"DstT", to}, {"Truncate", false}});
}

std::string GraphBuilder::column_of(const std::string& matrix, std::int64_t index, DataType type) {
  return add("strided_slice", "StridedSlice",
             {matrix, ints({0, index}), ints({0, index + 1}), ints({1, 1})},
             {{"T", type},
              {"Index", DataType::kInt32},
              {"begin_mask", 1},
              {"end_mask", 1},
              {"ellipsis_mask", 0},
              {"new_axis_mask", 0},
              {"shrink_axis_mask", 2}});
}

void GraphBuilder::set_batch_source(std::string tensor, DataType type) {
  batch_source_ = std::move(tensor);
  batch_type_ = type;
  batch_size_.clear();
}

std::string GraphBuilder::batch_size() {
  if (!batch_size_.empty()) return batch_size_;
  if (batch_source_.empty()) {
    throw InvalidArgument("no prediction depends on a feature with a row for each example");
  }
  const auto shape =
      add("Shape", "Shape", {batch_source_}, {{"T", batch_type_}, {"out_type", DataType::kInt32}});
  batch_size_ = add("batch_size", "StridedSlice", {shape, ints({0}), ints({1}), ints({1})},
                    {{"T", DataType::kInt32},
                     {"Index", DataType::kInt32},
                     {"begin_mask", 0},
                     {"end_mask", 0},
                     {"ellipsis_mask", 0},
                     {"new_axis_mask", 0},
                     {"shrink_axis_mask", 1}});
  return batch_size_;
}

}  // namespace muster::exporting
