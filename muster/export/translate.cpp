#include "muster/export/translate.h"

#include <algorithm>
#include <map>

#include "muster/base/error.h"
#include "muster/export/translation_internal.h"

namespace muster::exporting {
namespace {

using graph::DataType;
using graph::TensorValue;
using Table = std::map<std::string_view, OpTranslation>;

// The version of graphs that TensorFlow 1.15 writes: older readers lack operations we use.
constexpr std::int32_t kProducer = 134;

const Table& table() {
  static const Table made = [] {
    Table all;
    for (const auto part : {linear_translations(), pointwise_translations(),
                            reduction_translations(), shape_translations(), image_translations()}) {
      for (const auto& entry : part) all.emplace(entry.aten, entry);
    }
    return all;
  }();
  return made;
}

graph::Shape shape_of(const std::vector<Size>& sizes) {
  graph::Shape shape;
  for (const Size& size : sizes) shape.dims.push_back(size.follows_batch() ? -1 : size.constant);
  return shape;
}

GraphTensor tensor_of(const std::string& node, const Value& value) {
  return {.name = node + ":0", .type = graph_type(value.dtype), .shape = shape_of(value.sizes)};
}

// The axes of the variable as the bundle holds it.
Order variable_order(const ModuleVariable& variable) {
  const auto rank = static_cast<std::size_t>(variable.tensor.dim());
  if (variable.layout == VariableLayout::kAsIs) return identity_order(rank);
  std::vector<std::int64_t> axes;
  for (std::size_t axis = 2; axis < rank; ++axis) axes.push_back(static_cast<std::int64_t>(axis));
  axes.push_back(1);
  axes.push_back(0);
  return axes;
}

void add_inputs(const Program& program, Translation& to, TranslatedModel& model) {
  for (const auto& [name, id] : program.features) {
    const Value& value = program.values[id.index];
    const auto node =
        to.add(name, "Placeholder", {},
               {{"dtype", graph_type(value.dtype)}, {"shape", shape_of(value.sizes)}});
    to.set(id, node);
    model.inputs.emplace_back(name, tensor_of(node, value));
  }
}

void add_variables(const Program& program, Translation& to, TranslatedModel& model) {
  for (const auto& [variable, id] : program.variables) {
    const auto type = graph_type(variable.tensor.scalar_type());
    const graph::Shape shape(checkpoint_shape(variable.tensor.sizes(), variable.layout));
    const auto node = to.add(
        variable.name, "VarHandleOp", {},
        {{"dtype", type}, {"shape", shape}, {"container", ""}, {"shared_name", variable.name}});
    const auto read =
        to.add(variable.name + "/Read/ReadVariableOp", "ReadVariableOp", {node}, {{"dtype", type}});
    to.set(id, read, variable_order(variable));
    model.variables.push_back({.node = node, .read = read, .variable = variable});
  }
}

void add_operations(const Program& program, Translation& to) {
  for (const auto& operation : program.operations) {
    const auto found = table().find(operation.kind);
    if (found == table().end()) {
      throw Unimplemented(
          "no translation to TensorFlow: {}. Write the model without it, or leave the prediction "
          "that needs it out of predictions",
          describe(operation));
    }
    to.enter(operation.scope);
    Call call(operation, to);
    try {
      found->second.translate(call);
    } catch (Error& error) {
      error.add_context(fmt::format("translating {}", describe(operation)));
      throw;
    }
  }
}

std::string words(Translation& to, const std::string& ids, DataType type,
                  const std::vector<std::string>& vocabulary) {
  if (vocabulary.empty()) {
    return to.add("AsString", "AsString", {ids},
                  {{"T", type},
                   {"precision", -1},
                   {"scientific", false},
                   {"shortest", false},
                   {"width", -1},
                   {"fill", ""}});
  }
  const auto count = static_cast<std::int64_t>(vocabulary.size());
  return to.add("GatherV2", "GatherV2",
                {to.constant(TensorValue::of_strings({count}, vocabulary)), ids,
                 to.constant(TensorValue::scalar(std::int32_t{0}))},
                {{"Tparams", DataType::kString},
                 {"Tindices", type},
                 {"Taxis", DataType::kInt32},
                 {"batch_dims", 0}});
}

// Every prediction gets a node of its own name, so that it can be found in the graph.
GraphTensor named(Translation& to, const std::string& name, const std::string& from, DataType type,
                  graph::Shape shape) {
  const auto node = to.add(name, "Identity", {from}, {{"T", type}});
  return {.name = node + ":0", .type = type, .shape = std::move(shape)};
}

void add_outputs(const Program& program, Translation& to, TranslatedModel& model) {
  to.enter("head/predictions");
  std::map<std::string, ValueId> by_name;
  for (const auto& [name, id] : program.outputs) {
    by_name[name] = id;
    const Value& value = program.values[id.index];
    model.outputs.emplace_back(
        name, named(to, name, to.get(id), graph_type(value.dtype), shape_of(value.sizes)));
  }
  for (const auto& output : program.string_outputs) {
    const ValueId id = by_name.at(output.ids);
    const Value& value = program.values[id.index];
    const auto made = words(to, to.get(id), graph_type(value.dtype), output.words);
    model.outputs.emplace_back(
        output.name, named(to, output.name, made, DataType::kString, shape_of(value.sizes)));
  }
}

}  // namespace

TranslatedModel translate(const Program& program) {
  TranslatedModel model;
  Translation to(program);
  add_inputs(program, to, model);
  add_variables(program, to, model);
  add_operations(program, to);
  add_outputs(program, to, model);
  model.graph = to.take();
  model.graph.versions = {.producer = kProducer, .min_consumer = 12};
  return model;
}

std::vector<std::pair<std::string, std::string>> translated_operations() {
  std::vector<std::pair<std::string, std::string>> list;
  for (const auto& [name, entry] : table()) list.emplace_back(name, entry.tensorflow);
  return list;
}

}  // namespace muster::exporting
