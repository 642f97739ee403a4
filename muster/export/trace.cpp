#include "muster/export/trace.h"

#include <torch/csrc/jit/frontend/tracer.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/types.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>

#include "muster/base/error.h"
#include "muster/data/features/column_set.h"
#include "muster/nn/model/head.h"
#include "muster/nn/model/input_layer.h"
#include "muster/nn/model/linear_model.h"

namespace muster::exporting {
namespace {

namespace jit = torch::jit;

// Sizes that no layer is likely to have by chance do not matter: only what differs between the two
// traces is taken for a batch size.
constexpr std::int64_t kFirstRows = 5;
constexpr std::int64_t kSecondRows = 7;

FeatureValue taken_rows(const FeatureValue& value, const std::vector<std::int64_t>& order) {
  if (const auto* strings = std::get_if<StringColumn>(&value)) {
    std::vector<std::string_view> words;
    std::vector<std::int64_t> splits{0};
    for (const auto row : order) {
      const auto found = strings->row(row);
      words.insert(words.end(), found.begin(), found.end());
      splits.push_back(static_cast<std::int64_t>(words.size()));
    }
    const auto owner = std::make_shared<const StringColumn>(*strings);
    if (strings->is_ragged()) return StringColumn::ragged(std::move(words), splits, owner);
    auto shape = strings->shape();
    shape[0] = static_cast<std::int64_t>(order.size());
    return StringColumn(std::move(words), std::move(shape), owner);
  }
  if (const auto* ragged = std::get_if<RaggedColumn>(&value)) {
    const auto splits = ragged->row_splits.contiguous();
    const auto* starts = splits.data_ptr<std::int64_t>();
    std::vector<std::int64_t> places;
    std::vector<std::int64_t> taken{0};
    for (const auto row : order) {
      for (auto place = starts[row]; place < starts[row + 1]; ++place) places.push_back(place);
      taken.push_back(static_cast<std::int64_t>(places.size()));
    }
    const auto index = torch::tensor(places, torch::kLong);
    return RaggedColumn{.values = ragged->values.index_select(0, index),
                        .row_splits = torch::tensor(taken, torch::kLong),
                        .weights = ragged->weights.defined()
                                       ? ragged->weights.index_select(0, index)
                                       : at::Tensor()};
  }
  const auto& tensor = std::get<at::Tensor>(value);
  return tensor.index_select(0, torch::tensor(order, torch::kLong).to(tensor.device()));
}

// Rows of the example, taken over and over; backwards for the second batch, so that values differ.
Features batch_of(const Features& example, std::int64_t rows, bool backwards) {
  Features batch;
  const std::int64_t count = example.batch_size();
  std::vector<std::int64_t> order;
  for (std::int64_t row = 0; row < rows; ++row) {
    order.push_back(backwards ? count - 1 - row % count : row % count);
  }
  for (const auto& [name, value] : example) batch.add(name, taken_rows(value, order));
  return batch;
}

/// A tensor that goes into a trace: a whole feature, or a part of what a column makes.
struct TraceInput {
  std::string feature{};
  enum class Part { kTensor, kIds, kRowSplits, kWeights } part = Part::kTensor;
  at::Tensor tensor{};
};

/// One run of the tracer.
struct Recording {
  std::shared_ptr<jit::Graph> graph{};
  std::int64_t rows = 0;
  Features features{};
  std::vector<TraceInput> inputs{};
  Features predictions{};
  std::vector<std::string> outputs{};
  std::vector<ExportOutput> export_outputs{};
};

// Strings are read by columns, before the trace; the rest of ragged features too.
std::vector<TraceInput> trace_inputs(const Features& features,
                                     const std::set<std::string>& prepared) {
  using Part = TraceInput::Part;
  std::vector<TraceInput> inputs;
  for (const auto& [name, value] : features) {
    if (const auto* tensor = std::get_if<at::Tensor>(&value)) {
      inputs.push_back({name, Part::kTensor, *tensor});
    }
    const auto* ragged = std::get_if<RaggedColumn>(&value);
    if (ragged == nullptr || !prepared.contains(name)) continue;
    inputs.push_back({name, Part::kIds, ragged->values});
    inputs.push_back({name, Part::kRowSplits, ragged->row_splits});
    if (ragged->weights.defined()) inputs.push_back({name, Part::kWeights, ragged->weights});
  }
  return inputs;
}

// The features with the tensors of the trace instead of their own.
Features traced_features(const Features& features, const std::vector<TraceInput>& inputs,
                         const jit::Stack& stack) {
  Features traced = features;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const at::Tensor tensor = stack[i].toTensor();
    if (inputs[i].part == TraceInput::Part::kTensor) {
      traced.set(inputs[i].feature, tensor);
      continue;
    }
    RaggedColumn ragged = std::get<RaggedColumn>(traced.at(inputs[i].feature));
    if (inputs[i].part == TraceInput::Part::kIds) ragged.values = tensor;
    if (inputs[i].part == TraceInput::Part::kRowSplits) ragged.row_splits = tensor;
    if (inputs[i].part == TraceInput::Part::kWeights) ragged.weights = tensor;
    traced.set(inputs[i].feature, std::move(ragged));
  }
  return traced;
}

Recording record(Model& model, const Head* head, const Features& features,
                 const std::set<std::string>& prepared,
                 const std::vector<ModuleVariable>& variables) {
  Recording recording;
  recording.rows = features.batch_size();
  recording.features = features;
  recording.inputs = trace_inputs(features, prepared);
  jit::Stack inputs;
  for (const auto& input : recording.inputs) inputs.emplace_back(input.tensor);
  // A parameter that is an input is found by its identity wherever the module uses it; met as a
  // constant it makes the tracer throw.
  for (const auto& variable : variables) inputs.emplace_back(variable.tensor);
  const auto run = [&](jit::Stack stack) -> jit::Stack {
    const Batch batch{.features = traced_features(features, recording.inputs, stack)};
    auto spec = checked(model.call(batch, Mode::kPredict, head));
    recording.predictions = spec.predictions;
    recording.export_outputs = std::move(spec.export_outputs);
    jit::Stack outputs;
    for (const auto& [name, value] : recording.predictions) {
      if (const auto* tensor = std::get_if<at::Tensor>(&value)) {
        recording.outputs.push_back(name);
        outputs.emplace_back(*tensor);
      }
    }
    return outputs;
  };
  const auto no_name = [](const torch::autograd::Variable&) { return std::string(); };
  recording.graph = jit::tracer::trace(inputs, run, no_name, /*strict=*/true,
                                       /*force_outplace=*/true)
                        .first->graph;
  return recording;
}

std::string scope_of(const std::string& variable) {
  const auto slash = variable.rfind('/');
  return slash == std::string::npos ? variable : variable.substr(0, slash);
}

/// Makes one program out of two recordings by walking both.
class Merge {
 public:
  Merge(const std::vector<ModuleVariable>& variables, const Recording& first,
        const Recording& second)
      : variables_(variables), first_(first), second_(second) {}

  Program run() {
    add_inputs();
    auto a = first_.graph->nodes().begin();
    auto b = second_.graph->nodes().begin();
    for (; a != first_.graph->nodes().end() && b != second_.graph->nodes().end(); ++a, ++b) {
      add(**a, **b);
    }
    if (a != first_.graph->nodes().end() || b != second_.graph->nodes().end()) {
      throw_differs("one input makes the model run more operations than the other");
    }
    add_outputs();
    return std::move(program_);
  }

 private:
  [[noreturn]] void throw_differs(const std::string& how) const {
    throw InvalidArgument(
        "what the model computes depends on the values or the number of its rows, which an "
        "exported graph cannot express: {}, {}. Write the decision with tensor operations, such "
        "as torch::where",
        how, last_.empty() ? std::string("at its first operation") : "at " + last_);
  }

  std::optional<Size> merged(std::int64_t a, std::int64_t b) const {
    if (a == b) return Size{.constant = a};
    const std::int64_t per_row = a / first_.rows;
    if (a == per_row * first_.rows && b == per_row * second_.rows) return Size{.per_row = per_row};
    return std::nullopt;
  }

  Size size_of(std::int64_t a, std::int64_t b) const {
    const auto size = merged(a, b);
    if (!size) throw_differs(fmt::format("a number is {} for one input and {} for another", a, b));
    return *size;
  }

  std::vector<Size> sizes_of(at::IntArrayRef a, at::IntArrayRef b) const {
    if (a.size() != b.size()) throw_differs("a tensor has another rank for another input");
    std::vector<Size> sizes;
    for (std::size_t i = 0; i < a.size(); ++i) sizes.push_back(size_of(a[i], b[i]));
    return sizes;
  }

  ValueId new_value(const jit::Value* a, at::ScalarType dtype, std::vector<Size> sizes,
                    std::string scope) {
    const ValueId id{program_.values.size()};
    program_.values.push_back({dtype, std::move(sizes), std::move(scope)});
    ids_[a] = id;
    return id;
  }

  void add_inputs() {
    const auto values = first_.graph->inputs();
    if (first_.inputs.size() != second_.inputs.size()) throw_differs("other weights are given");
    std::size_t next = 0;
    for (const auto& input : first_.inputs) {
      const at::Tensor& a = input.tensor;
      const at::Tensor& b = second_.inputs[next].tensor;
      // How many ids there are follows the data; `muster::lookup` alone reads them.
      const bool whole = input.part == TraceInput::Part::kTensor;
      auto sizes = whole ? sizes_of(a.sizes(), b.sizes()) : std::vector<Size>{{.constant = -1}};
      const ValueId id = new_value(values[next++], a.scalar_type(), std::move(sizes), "");
      const bool named = whole || input.part == TraceInput::Part::kIds;
      if (named) program_.features.emplace_back(input.feature, id);
    }
    first_variable_ = program_.values.size();
    for (const auto& variable : variables_) {
      const at::Tensor& a = variable.tensor;
      const ValueId id = new_value(values[next++], a.scalar_type(), sizes_of(a.sizes(), a.sizes()),
                                   scope_of(variable.name));
      program_.variables.emplace_back(variable, id);
    }
  }

  Argument constant(const at::IValue& a, const at::IValue& b) const {
    if (a.tagKind() != b.tagKind()) throw_differs("a constant has another type for another input");
    if (a.isNone()) return std::monostate{};
    if (a.isBool()) {
      if (a.toBool() != b.toBool()) throw_differs("a truth value differs");
      return a.toBool();
    }
    if (a.isInt()) return size_of(a.toInt(), b.toInt());
    if (a.isDouble()) {
      if (a.toDouble() != b.toDouble()) {
        throw_differs(fmt::format("a number is {} for one input and {} for another", a.toDouble(),
                                  b.toDouble()));
      }
      return a.toDouble();
    }
    if (a.isString()) return std::string(a.toStringRef());
    if (a.isDevice()) return a.toDevice().str();
    if (a.isIntList()) return sizes_of(a.toIntVector(), b.toIntVector());
    if (a.isDoubleList()) {
      if (a.toDoubleVector() != b.toDoubleVector()) throw_differs("a list of numbers differs");
      return a.toDoubleVector();
    }
    if (a.isTensor()) return constant_tensor(a.toTensor(), b.toTensor());
    throw Unimplemented("the trace holds a constant of type {}, {}", a.tagKind(), last_);
  }

  Argument constant_tensor(const at::Tensor& a, const at::Tensor& b) const {
    if (!a.defined()) return std::monostate{};
    if (a.sizes() != b.sizes() || !at::equal(a, b)) {
      throw_differs("a tensor that is no feature and no variable differs");
    }
    return a.detach().cpu().contiguous();
  }

  Argument list(const jit::Node& a, const jit::Node& b) const {
    if (a.inputs().size() != b.inputs().size()) throw_differs("a list has another length");
    std::vector<ValueId> values;
    std::vector<Size> sizes;
    std::vector<double> numbers;
    for (std::size_t i = 0; i < a.inputs().size(); ++i) {
      const Argument item = argument(a.inputs()[i], b.inputs()[i]);
      if (const auto* id = std::get_if<ValueId>(&item)) {
        values.push_back(*id);
      } else if (const auto* size = std::get_if<Size>(&item)) {
        sizes.push_back(*size);
      } else if (const auto* number = std::get_if<double>(&item)) {
        numbers.push_back(*number);
      } else if (std::holds_alternative<std::monostate>(item)) {
        throw Unimplemented("the trace holds a list with None in it, {}", last_);
      } else {
        throw Unimplemented("the trace holds a list of neither tensors nor numbers, {}", last_);
      }
    }
    if (!numbers.empty()) return numbers;
    if (values.empty()) return sizes;
    return values;
  }

  Argument argument(const jit::Value* a, const jit::Value* b) const {
    if (a->node()->kind() != b->node()->kind()) throw_differs("other operations run");
    if (a->node()->kind() == c10::prim::Constant) {
      return constant(*jit::toIValue(a), *jit::toIValue(b));
    }
    if (a->node()->kind() == c10::prim::ListConstruct) return list(*a->node(), *b->node());
    const auto found = ids_.find(a);
    if (found == ids_.end()) {
      throw Unimplemented("the trace uses the result of {}, which is no tensor, {}",
                          a->node()->kind().toQualString(), last_);
    }
    return found->second;
  }

  std::string scope_of_arguments(const std::vector<Argument>& arguments) const {
    std::vector<ValueId> used;
    for (const auto& given : arguments) {
      if (const auto* id = std::get_if<ValueId>(&given)) used.push_back(*id);
      if (const auto* ids = std::get_if<std::vector<ValueId>>(&given)) {
        used.insert(used.end(), ids->begin(), ids->end());
      }
    }
    const std::size_t end = first_variable_ + program_.variables.size();
    for (const ValueId id : used) {
      if (id.index >= first_variable_ && id.index < end) return program_.values[id.index].scope;
    }
    for (const ValueId id : used) {
      if (!program_.values[id.index].scope.empty()) return program_.values[id.index].scope;
    }
    return "";
  }

  void add(const jit::Node& a, const jit::Node& b) {
    if (a.kind() != b.kind()) {
      throw_differs(fmt::format("{} runs for one input and {} for another", a.kind().toQualString(),
                                b.kind().toQualString()));
    }
    if (a.kind() == c10::prim::Constant || a.kind() == c10::prim::ListConstruct) return;
    if (a.kind() == c10::prim::ListUnpack) return add_list(a, b);
    Operation operation{.kind = a.kind().toQualString()};
    if (a.inputs().size() != b.inputs().size()) throw_differs("other arguments are given");
    const std::string before = last_;
    last_ = operation.kind + (before.empty() ? "" : ", which follows " + scope_or_start());
    for (std::size_t i = 0; i < a.inputs().size(); ++i) {
      operation.arguments.push_back(argument(a.inputs()[i], b.inputs()[i]));
    }
    operation.scope = scope_of_arguments(operation.arguments);
    scope_ = operation.scope;
    last_ = describe(operation);
    add_results(a, b, operation);
    program_.operations.push_back(std::move(operation));
  }

  void add_results(const jit::Node& a, const jit::Node& b, Operation& operation) {
    if (a.outputs().size() != b.outputs().size()) throw_differs("other results are given");
    for (std::size_t i = 0; i < a.outputs().size(); ++i) {
      const auto type_a = a.outputs()[i]->type()->cast<c10::TensorType>();
      const auto type_b = b.outputs()[i]->type()->cast<c10::TensorType>();
      // An output that is no tensor must go unused; argument() complains if it is used.
      if (!type_a || !type_b || !type_a->scalarType()) continue;
      const auto sizes_a = type_a->sizes().concrete_sizes();
      const auto sizes_b = type_b->sizes().concrete_sizes();
      if (!sizes_a || !sizes_b) continue;
      if (type_a->scalarType() != type_b->scalarType()) throw_differs("a tensor's type differs");
      const ValueId id = new_value(a.outputs()[i], *type_a->scalarType(),
                                   result_sizes(operation, i, *sizes_a, *sizes_b), operation.scope);
      if (is_packed(operation, i)) packed_.insert(id.index);
      operation.outputs.push_back(id);
    }
  }

  // How many values packed sequences have follows the lengths of rows; operations of their own
  // alone read them.
  bool is_packed(const Operation& operation, std::size_t result) const {
    if (operation.kind == "aten::_pack_padded_sequence") return true;
    if (result > 0 || operation.kind == "aten::_pad_packed_sequence") return false;
    if (operation.arguments.empty()) return false;
    const auto* first = std::get_if<ValueId>(&operation.arguments[0]);
    return first != nullptr && packed_.contains(first->index);
  }

  std::vector<Size> result_sizes(const Operation& operation, std::size_t result, at::IntArrayRef a,
                                 at::IntArrayRef b) const {
    if (!is_packed(operation, result) || a.size() != b.size() || a.empty()) return sizes_of(a, b);
    std::vector<Size> sizes{{.constant = -1}};
    for (std::size_t i = 1; i < a.size(); ++i) sizes.push_back(size_of(a[i], b[i]));
    return sizes;
  }

  // The tracer writes a list that an operation gives, and takes it apart at once.
  void add_list(const jit::Node& a, const jit::Node& b) {
    if (program_.operations.empty() || !program_.operations.back().outputs.empty()) {
      throw Unimplemented("the trace takes a list apart, {}", last_);
    }
    add_results(a, b, program_.operations.back());
  }

  std::string scope_or_start() const { return scope_.empty() ? "the input" : scope_; }

  void add_outputs() {
    if (first_.outputs != second_.outputs) throw_differs("other predictions are made");
    for (std::size_t i = 0; i < first_.outputs.size(); ++i) {
      const auto found = ids_.find(first_.graph->outputs()[i]);
      if (found == ids_.end()) {
        throw InvalidArgument("prediction '{}' does not depend on features or variables",
                              first_.outputs[i]);
      }
      program_.outputs.emplace_back(first_.outputs[i], found->second);
    }
    program_.export_outputs = first_.export_outputs;
  }

  const std::vector<ModuleVariable>& variables_;
  const Recording& first_;
  const Recording& second_;
  Program program_;
  std::size_t first_variable_ = 0;
  std::unordered_map<const jit::Value*, ValueId> ids_;
  std::set<std::size_t> packed_;
  std::string last_;
  std::string scope_;
};

std::vector<ValueId> values_of(const Argument& argument) {
  if (const auto* id = std::get_if<ValueId>(&argument)) return {*id};
  if (const auto* ids = std::get_if<std::vector<ValueId>>(&argument)) return *ids;
  return {};
}

// Leaves out what no output needs: what heads compute for words, or models for summaries.
void remove_unused(Program& program) {
  std::vector<bool> needed(program.values.size(), false);
  for (const auto& output : program.outputs) needed[output.second.index] = true;
  std::vector<Operation> kept;
  for (auto at = program.operations.rbegin(); at != program.operations.rend(); ++at) {
    const bool used = std::any_of(at->outputs.begin(), at->outputs.end(),
                                  [&](ValueId id) { return needed[id.index]; });
    if (!used) continue;
    for (const auto& argument : at->arguments) {
      for (const ValueId id : values_of(argument)) needed[id.index] = true;
    }
    kept.push_back(std::move(*at));
  }
  std::reverse(kept.begin(), kept.end());
  program.operations = std::move(kept);
  const auto unused = [&](const auto& item) { return !needed[item.second.index]; };
  std::erase_if(program.variables, unused);
  std::erase_if(program.features, unused);
  std::erase_if(program.columns,
                [&](const ColumnInput& column) { return !needed[column.value.index]; });
}

bool are_decimals_of(const StringColumn& words, const at::Tensor& ids) {
  const auto flat = ids.to(torch::kCPU, torch::kLong).contiguous();
  if (static_cast<std::size_t>(flat.numel()) != words.values().size()) return false;
  const auto* id = flat.data_ptr<std::int64_t>();
  for (std::size_t i = 0; i < words.values().size(); ++i) {
    if (words.values()[i] != std::to_string(id[i])) return false;
  }
  return true;
}

// The classes of the head whose predictions begin with `head`.
std::vector<std::string> words_of(const std::vector<ExportOutput>& outputs, std::string_view head) {
  for (const auto& output : outputs) {
    const bool is_of_head = std::ranges::any_of(
        output.outputs, [&](const auto& item) { return item.second.starts_with(head); });
    if (is_of_head && !output.classes.empty()) return output.classes;
  }
  return {};
}

bool are_words_of(const StringColumn& words, const at::Tensor& ids,
                  const std::vector<std::string>& vocabulary) {
  const auto flat = ids.to(torch::kCPU, torch::kLong).contiguous();
  if (static_cast<std::size_t>(flat.numel()) != words.values().size()) return false;
  const auto* id = flat.data_ptr<std::int64_t>();
  for (std::size_t i = 0; i < words.values().size(); ++i) {
    if (id[i] < 0 || static_cast<std::size_t>(id[i]) >= vocabulary.size()) return false;
    if (words.values()[i] != vocabulary[static_cast<std::size_t>(id[i])]) return false;
  }
  return true;
}

// Which ids a head made these words of: the head does not tell, so its answers are compared.
StringOutput string_output(const std::string& name, const StringColumn& words,
                           const Features& predictions, const std::vector<ExportOutput>& outputs) {
  // A multi-head's predictions are named "HEAD/classes".
  const auto slash = name.rfind('/');
  const std::string head = slash == std::string::npos ? "" : name.substr(0, slash + 1);
  const bool is_all = name.find("all_classes", head.size()) != std::string::npos;
  const std::string ids_name = head + (is_all ? "all_class_ids" : "class_ids");
  const auto vocabulary = words_of(outputs, head);
  const FeatureValue* value = predictions.find(ids_name);
  if (value != nullptr && std::holds_alternative<at::Tensor>(*value)) {
    const auto& ids = std::get<at::Tensor>(*value);
    if (are_decimals_of(words, ids)) return {.name = name, .words = {}, .ids = ids_name};
    if (are_words_of(words, ids, vocabulary)) {
      return {.name = name, .words = vocabulary, .ids = ids_name};
    }
  }
  throw Unimplemented(
      "prediction '{}' is strings, which can be exported only where they are the words of "
      "'{}': leave it out of the predictions",
      name, ids_name);
}

/// Eval mode until the end of the scope.
class EvalScope {
 public:
  explicit EvalScope(Model& model) : model_(model), was_training_(model.is_training()) {
    model_.eval();
  }
  ~EvalScope() { model_.train(was_training_); }
  EvalScope(const EvalScope&) = delete;
  EvalScope& operator=(const EvalScope&) = delete;

 private:
  Model& model_;
  bool was_training_;
};

/// A piece of a column set.
struct ColumnPlace {
  std::string name{};
  std::size_t first = 0;
  std::size_t count = 1;
  bool ids = false;
};

std::vector<ColumnPlace> places_of(const ColumnSet& set, const Features& prepared) {
  const auto names = set.prepared_names();
  const auto pieces = set.pieces(prepared);
  std::vector<ColumnPlace> places;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    places.push_back({names[i], pieces[i].first, pieces[i].count,
                      std::holds_alternative<RaggedColumn>(pieces[i].value)});
  }
  return places;
}

// Moves the features that columns prepared, and not the caller, to Program::columns.
void separate_columns(const std::vector<const ColumnSet*>& sets, const Features& prepared,
                      Program& program) {
  for (const ColumnSet* set : sets) {
    const auto columns = set->columns();
    for (const ColumnPlace& place : places_of(*set, prepared)) {
      const auto found = std::find_if(program.features.begin(), program.features.end(),
                                      [&](const auto& item) { return item.first == place.name; });
      if (found == program.features.end()) continue;  // A set like one before it.
      const auto first = columns.begin() + static_cast<std::ptrdiff_t>(place.first);
      const auto end = first + static_cast<std::ptrdiff_t>(place.count);
      program.columns.push_back({.columns = FeatureColumnList(first, end),
                                 .value = found->second,
                                 .ids = place.ids,
                                 .embedded = set->use() == ColumnUse::kInputLayer});
      program.features.erase(found);
    }
  }
}

// Prepared pieces are found by the names and sizes of columns, so sets that have them alike must
// hold the same columns.
void check_sets(const std::vector<const ColumnSet*>& sets) {
  const auto same = [](const FeatureColumn& a, const FeatureColumn& b) {
    return &a.internal() == &b.internal();
  };
  for (std::size_t i = 0; i < sets.size(); ++i) {
    for (std::size_t j = i + 1; j < sets.size(); ++j) {
      if (sets[i]->prepared_names() != sets[j]->prepared_names()) continue;
      if (std::ranges::equal(sets[i]->columns(), sets[j]->columns(), same)) continue;
      throw Unimplemented(
          "the model has two layers of columns that have the same names, such as \"{}\", but were "
          "made apart: give both the same columns, or other names",
          sets[i]->columns().front().name());
    }
  }
}

/// A function of one tensor as a model.
struct FunctionOfOne : Model {
  explicit FunctionOfOne(const std::function<at::Tensor(const at::Tensor&)>& function)
      : function_(function) {}
  torch::Tensor forward(const Features& features) override {
    return function_(features.tensor("x"));
  }
  EstimatorSpec call(const Batch& batch, Mode, const Head*) override {
    EstimatorSpec spec{.mode = Mode::kPredict};
    spec.predictions = {{"y", forward(batch.features)}};
    return spec;
  }

 private:
  const std::function<at::Tensor(const at::Tensor&)>& function_;
};

}  // namespace

std::string describe(const Operation& operation) {
  return operation.scope.empty() ? operation.kind + " on the input"
                                 : operation.kind + " in or after '" + operation.scope + "'";
}

std::vector<const ColumnSet*> column_sets_of(const Model& model) {
  std::vector<const ColumnSet*> sets;
  for (const auto& module : model.modules(/*include_self=*/false)) {
    if (const auto* input = dynamic_cast<const InputLayer*>(module.get())) {
      sets.push_back(&input->columns());
    } else if (const auto* linear = dynamic_cast<const LinearModel*>(module.get())) {
      sets.push_back(&linear->columns());
    }
  }
  return sets;
}

Program trace(Model& model, const Head* head, const Features& example) {
  if (example.batch_size() < 1) throw InvalidArgument("tracing a model needs an example row");
  const EvalScope eval(model);
  const torch::NoGradGuard no_grad;
  const auto variables = variables_of(model);
  const auto sets = column_sets_of(model);
  check_sets(sets);
  std::set<std::string> prepared;
  for (const ColumnSet* set : sets) {
    for (auto& name : set->prepared_names()) prepared.insert(std::move(name));
  }
  const auto recorded = [&](std::int64_t rows, bool backwards) {
    Features batch = batch_of(example, rows, backwards);
    for (const ColumnSet* set : sets) batch = set->prepare(std::move(batch));
    return record(model, head, batch, prepared, variables);
  };
  const auto first = recorded(kFirstRows, /*backwards=*/false);
  const auto second = recorded(kSecondRows, /*backwards=*/true);
  Program program = Merge(variables, first, second).run();
  for (const auto& [name, value] : first.predictions) {
    if (const auto* words = std::get_if<StringColumn>(&value)) {
      program.string_outputs.push_back(
          string_output(name, *words, first.predictions, first.export_outputs));
    }
  }
  separate_columns(sets, first.features, program);
  remove_unused(program);
  return program;
}

Program trace_function(const std::function<at::Tensor(const at::Tensor&)>& function,
                       const at::Tensor& example) {
  const auto model = std::make_shared<FunctionOfOne>(function);
  return trace(*model, nullptr, {{"x", example}});
}

}  // namespace muster::exporting
