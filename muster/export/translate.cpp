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
    for (const auto part :
         {activation_translations(), attention_translations(), convolution_translations(),
          gather_translations(), column_translations(), linear_translations(),
          normalisation_translations(), pointwise_translations(), pooling_translations(),
          recurrent_translations(), reduction_translations(), shape_translations()}) {
      for (const auto& entry : part) all.emplace(entry.aten, entry);
    }
    return all;
  }();
  return made;
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

void add_inputs(const ProgramInputs& inputs, Translation& to) {
  const Program& program = to.program();
  for (std::size_t i = 0; i < program.features.size(); ++i) {
    to.set(program.features[i].second, inputs.features.at(i));
  }
  for (std::size_t i = 0; i < program.columns.size(); ++i) {
    const ColumnInput& column = program.columns[i];
    const ColumnNodes& nodes = inputs.columns.at(i);
    if (column.ids) {
      to.set_ids(column.value, nodes);
    } else {
      to.set(column.value, nodes.numbers);
    }
  }
}

GraphVariable variable_node(const ModuleVariable& variable, Translation& to) {
  const auto type = graph_type(variable.tensor.scalar_type());
  const graph::Shape shape(checkpoint_shape(variable.tensor.sizes(), variable.layout));
  const auto node = to.add(
      variable.name, "VarHandleOp", {},
      {{"dtype", type}, {"shape", shape}, {"container", ""}, {"shared_name", variable.name}});
  const auto read =
      to.add(variable.name + "/Read/ReadVariableOp", "ReadVariableOp", {node}, {{"dtype", type}});
  return {.node = node, .read = read, .variable = variable};
}

void add_variables(Translation& to, std::vector<GraphVariable>& variables) {
  for (const auto& [variable, id] : to.program().variables) {
    const auto& name = variable.name;
    auto held = std::find_if(variables.begin(), variables.end(),
                             [&](const auto& there) { return there.variable.name == name; });
    if (held == variables.end()) {
      variables.push_back(variable_node(variable, to));
      held = variables.end() - 1;
    }
    to.set(id, held->read, variable_order(variable));
  }
}

void translate_operation(const Operation& operation, const std::string& scope, Translation& to) {
  const auto found = table().find(operation.kind);
  if (found == table().end()) {
    throw Unimplemented(
        "no translation to TensorFlow: {}. Write the model without it, or leave the prediction "
        "that needs it out of predictions",
        describe(operation));
  }
  to.enter(scope);
  Call call(operation, to);
  try {
    found->second.translate(call);
  } catch (Error& error) {
    error.add_context(fmt::format("translating {}", describe(operation)));
    throw;
  }
}

void add_operations(Translation& to) {
  for (const auto& operation : to.program().operations) {
    translate_operation(operation, operation.scope, to);
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

std::vector<std::pair<std::string, GraphTensor>> add_outputs(Translation& to) {
  const Program& program = to.program();
  to.enter("head/predictions");
  std::vector<std::pair<std::string, GraphTensor>> outputs;
  std::map<std::string, ValueId> by_name;
  for (const auto& [name, id] : program.outputs) {
    by_name[name] = id;
    const Value& value = program.values[id.index];
    outputs.emplace_back(
        name, named(to, name, to.get(id), graph_type(value.dtype), shape_of(value.sizes)));
  }
  for (const auto& output : program.string_outputs) {
    const ValueId id = by_name.at(output.ids);
    const Value& value = program.values[id.index];
    const auto made = words(to, to.get(id), graph_type(value.dtype), output.words);
    outputs.emplace_back(output.name,
                         named(to, output.name, made, DataType::kString, shape_of(value.sizes)));
  }
  return outputs;
}

}  // namespace

graph::Versions graph_versions() { return {.producer = kProducer, .min_consumer = 12}; }

graph::Shape shape_of(const std::vector<Size>& sizes) {
  graph::Shape shape;
  for (const Size& size : sizes) shape.dims.push_back(size.follows_batch() ? -1 : size.constant);
  return shape;
}

std::vector<std::pair<std::string, GraphTensor>> translate_into(
    const Program& program, const ProgramInputs& inputs, GraphBuilder& builder,
    std::vector<GraphVariable>& variables) {
  Translation to(program, builder);
  add_inputs(inputs, to);
  builder.enter("");
  add_variables(to, variables);
  add_operations(to);
  return add_outputs(to);
}

std::string translate_function(const Program& program, const std::string& input,
                               GraphBuilder& builder) {
  if (program.features.size() != 1 || program.outputs.size() != 1 || !program.variables.empty()) {
    throw InvalidArgument("a function of one tensor must give one that depends on it alone");
  }
  const std::string scope = builder.scope();
  Translation to(program, builder);
  to.set(program.features[0].second, input);
  for (const auto& operation : program.operations) translate_operation(operation, scope, to);
  return to.get(program.outputs[0].second);
}

TranslatedModel translate(const Program& program) {
  if (!program.columns.empty()) {
    throw Unimplemented("a model with feature columns is exported with a serving input");
  }
  GraphBuilder builder;
  TranslatedModel model;
  ProgramInputs inputs;
  for (const auto& [name, id] : program.features) {
    const Value& value = program.values[id.index];
    const auto type = graph_type(value.dtype);
    const graph::Shape shape = shape_of(value.sizes);
    inputs.features.push_back(
        builder.add(name, "Placeholder", {}, {{"dtype", type}, {"shape", shape}}));
    const std::string& node = inputs.features.back();
    model.inputs.emplace_back(name, GraphTensor{.name = node + ":0", .type = type, .shape = shape});
    const bool has_rows = !value.sizes.empty() && value.sizes[0].per_row == 1;
    if (has_rows && !builder.has_batch_source()) builder.set_batch_source(node, type);
  }
  model.outputs = translate_into(program, inputs, builder, model.variables);
  model.graph = builder.take();
  model.graph.versions = graph_versions();
  return model;
}

std::vector<std::pair<std::string, std::string>> translated_operations() {
  std::vector<std::pair<std::string, std::string>> list;
  for (const auto& [name, entry] : table()) list.emplace_back(name, entry.tensorflow);
  return list;
}

std::string translated_operations_page() {
  const auto list = translated_operations();
  std::string page = fmt::format(
      "# Operations of libtorch that models may use to be exported\n\n"
      "An export writes these {} operations as TensorFlow's beside them; a model that uses another "
      "on the way to a prediction is\nrefused with the name of the operation and of the module it "
      "follows. So is a form that TensorFlow does not have, such as dilated\npooling: the error "
      "says which. This page is written from the table in the code.\n\n"
      "| libtorch | TensorFlow |\n| --- | --- |\n",
      list.size());
  for (const auto& [name, tensorflow] : list) {
    page += fmt::format("| `{}` | {} |\n", name, tensorflow);
  }
  return page;
}

}  // namespace muster::exporting
