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
#include "muster/model/head.h"

namespace muster::exporting {
namespace {

namespace jit = torch::jit;

// Sizes that no layer is likely to have by chance do not matter: only what differs between the two
// traces is taken for a batch size.
constexpr std::int64_t kFirstRows = 5;
constexpr std::int64_t kSecondRows = 7;

/// One run of the tracer.
struct Recording {
  std::shared_ptr<jit::Graph> graph{};
  std::int64_t rows = 0;
  std::vector<at::Tensor> inputs{};
  Features predictions{};
  std::vector<std::string> outputs{};
  std::vector<ExportOutput> export_outputs{};
};

// Rows of the example, taken over and over; backwards for the second batch, so that values differ.
Features batch_of(const Features& example, std::int64_t rows, bool backwards) {
  Features batch;
  const std::int64_t count = example.batch_size();
  std::vector<std::int64_t> order;
  for (std::int64_t row = 0; row < rows; ++row) {
    order.push_back(backwards ? count - 1 - row % count : row % count);
  }
  const auto index = torch::tensor(order, torch::kLong);
  for (const auto& [name, value] : example) {
    const auto* tensor = std::get_if<at::Tensor>(&value);
    if (tensor == nullptr) {
      throw Unimplemented(
          "feature '{}' is {}, and only tensors can be traced for an export: give a receiver of "
          "tensors",
          name, describe(value));
    }
    batch.add(name, tensor->index_select(0, index.to(tensor->device())));
  }
  return batch;
}

Recording record(Model& model, const Head* head, const Features& features,
                 const std::vector<ModuleVariable>& variables) {
  Recording recording;
  recording.rows = features.batch_size();
  jit::Stack inputs;
  for (const auto& column : features) inputs.emplace_back(std::get<at::Tensor>(column.second));
  // A parameter that is an input is found by its identity wherever the module uses it; met as a
  // constant it makes the tracer throw.
  for (const auto& variable : variables) inputs.emplace_back(variable.tensor);
  for (const auto& input : inputs) recording.inputs.push_back(input.toTensor());
  const auto run = [&](jit::Stack stack) -> jit::Stack {
    Features traced;
    std::size_t next = 0;
    for (const auto& column : features) traced.add(column.first, stack[next++].toTensor());
    const Batch batch{.features = traced};
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
  Merge(const Features& example, const std::vector<ModuleVariable>& variables,
        const Recording& first, const Recording& second)
      : example_(example), variables_(variables), first_(first), second_(second) {}

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
    std::size_t next = 0;
    for (const auto& column : example_) {
      const at::Tensor& a = first_.inputs[next];
      const ValueId id = new_value(values[next], a.scalar_type(),
                                   sizes_of(a.sizes(), second_.inputs[next].sizes()), "");
      program_.features.emplace_back(column.first, id);
      ++next;
    }
    for (const auto& variable : variables_) {
      const at::Tensor& a = first_.inputs[next];
      const ValueId id = new_value(values[next], a.scalar_type(), sizes_of(a.sizes(), a.sizes()),
                                   scope_of(variable.name));
      program_.variables.emplace_back(variable, id);
      ++next;
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
    for (std::size_t i = 0; i < a.inputs().size(); ++i) {
      const Argument item = argument(a.inputs()[i], b.inputs()[i]);
      if (const auto* id = std::get_if<ValueId>(&item)) {
        values.push_back(*id);
      } else if (const auto* size = std::get_if<Size>(&item)) {
        sizes.push_back(*size);
      } else if (std::holds_alternative<std::monostate>(item)) {
        throw Unimplemented("the trace holds a list with None in it, {}", last_);
      } else {
        throw Unimplemented("the trace holds a list of neither tensors nor integers, {}", last_);
      }
    }
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
    const std::size_t first_variable = program_.features.size();
    const std::size_t end = first_variable + program_.variables.size();
    for (const ValueId id : used) {
      if (id.index >= first_variable && id.index < end) return program_.values[id.index].scope;
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
    for (std::size_t i = 0; i < a.outputs().size(); ++i) {
      const auto type_a = a.outputs()[i]->type()->cast<c10::TensorType>();
      const auto type_b = b.outputs()[i]->type()->cast<c10::TensorType>();
      // What is no tensor may be used by nobody; argument() complains if it is.
      if (!type_a || !type_b || !type_a->scalarType()) continue;
      const auto sizes_a = type_a->sizes().concrete_sizes();
      const auto sizes_b = type_b->sizes().concrete_sizes();
      if (!sizes_a || !sizes_b) continue;
      if (type_a->scalarType() != type_b->scalarType()) throw_differs("a tensor's type differs");
      operation.outputs.push_back(new_value(a.outputs()[i], *type_a->scalarType(),
                                            sizes_of(*sizes_a, *sizes_b), operation.scope));
    }
    program_.operations.push_back(std::move(operation));
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

  const Features& example_;
  const std::vector<ModuleVariable>& variables_;
  const Recording& first_;
  const Recording& second_;
  Program program_;
  std::unordered_map<const jit::Value*, ValueId> ids_;
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

std::vector<std::string> words_of(const std::vector<ExportOutput>& outputs) {
  for (const auto& output : outputs) {
    if (!output.classes.empty()) return output.classes;
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
  const auto vocabulary = words_of(outputs);
  const std::string ids_name =
      name.find("all_classes") != std::string::npos ? "all_class_ids" : "class_ids";
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
      "'class_ids': leave it out of the predictions",
      name);
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

}  // namespace

std::string describe(const Operation& operation) {
  return operation.scope.empty() ? operation.kind + " on the input"
                                 : operation.kind + " in or after '" + operation.scope + "'";
}

Program trace(Model& model, const Head* head, const Features& example) {
  if (example.batch_size() < 1) throw InvalidArgument("tracing a model needs an example row");
  const EvalScope eval(model);
  const torch::NoGradGuard no_grad;
  const auto variables = variables_of(model);
  const auto first =
      record(model, head, batch_of(example, kFirstRows, /*backwards=*/false), variables);
  const auto second =
      record(model, head, batch_of(example, kSecondRows, /*backwards=*/true), variables);
  Program program = Merge(example, variables, first, second).run();
  for (const auto& [name, value] : first.predictions) {
    if (const auto* words = std::get_if<StringColumn>(&value)) {
      program.string_outputs.push_back(
          string_output(name, *words, first.predictions, first.export_outputs));
    }
  }
  remove_unused(program);
  return program;
}

}  // namespace muster::exporting
