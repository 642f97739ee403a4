#include "muster/nn/torch_script/torch_script_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/types.h>

#include <algorithm>
#include <optional>
#include <sstream>
#include <string_view>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/nn/torch_script/torch_script_file.h"
#include "muster/nn/torch_script/torch_script_inputs.h"
#include "muster/nn/torch_script/torch_script_program.h"

namespace muster {
namespace {

using ScriptObject = c10::intrusive_ptr<c10::ivalue::Object>;

/// A parameter or buffer: where the file's code finds it, and the tensor that the model registered.
struct ScriptVariable {
  std::string name;
  ScriptObject object;
  std::size_t slot = 0;
  at::Tensor tensor;
  bool is_parameter = false;
};

bool is_same_memory(const at::Tensor& a, const at::Tensor& b) {
  return a.has_storage() && b.has_storage() && a.is_alias_of(b) &&
         a.storage_offset() == b.storage_offset() && a.sizes() == b.sizes() &&
         a.strides() == b.strides() && a.numel() > 0;
}

bool is_float(const at::Tensor& tensor) { return tensor.scalar_type() == at::kFloat; }

std::string type_name(const at::Tensor& tensor) { return c10::toString(tensor.scalar_type()); }

/// Registers what the file's modules hold with modules of ours, which have the same names.
class VariableRegistry {
 public:
  explicit VariableRegistry(std::string file) : file_(std::move(file)) {}

  void add(torch::nn::Module& ours, const torch::jit::Module& script, const std::string& path) {
    const ScriptObject object = script._ivalue();
    const auto type = script.type();
    for (std::size_t slot = 0; slot < type->numAttributes(); ++slot) {
      const std::string name = type->getAttributeName(slot);
      const c10::IValue value = object->getSlot(slot);
      const std::string full = path.empty() ? name : fmt::format("{}.{}", path, name);
      if (value.isModule()) {
        add(*ours.register_module(name, std::make_shared<torch::nn::Module>()), value.toModule(),
            full);
      } else if (value.isTensor() && value.toTensor().defined()) {
        add_tensor(ours, {full, object, slot, value.toTensor(), type->is_parameter(slot)}, name);
      } else if (value.isObject() && is_custom_class(*type->getAttribute(slot))) {
        throw InvalidArgument(
            "{}: `{}` is a {}, whose values no optimizer sees, as in a quantised module: save the "
            "module as it was before quantisation",
            file_, full, type->getAttribute(slot)->str());
      }
    }
  }

  std::vector<ScriptVariable> take() { return std::move(variables_); }

 private:
  static bool is_custom_class(const c10::Type& type) {
    return type.str().find("torch.classes") != std::string::npos;
  }

  void add_tensor(torch::nn::Module& ours, ScriptVariable variable, const std::string& name) {
    check(variable);
    // One tensor under two names stays one.
    const auto other = std::ranges::find_if(variables_, [&](const ScriptVariable& one) {
      return is_same_memory(one.tensor, variable.tensor);
    });
    if (other != variables_.end()) {
      variable.tensor = other->tensor;
      variable.object->setSlot(variable.slot, variable.tensor);
    }
    if (variable.is_parameter) {
      ours.register_parameter(name, variable.tensor, variable.tensor.requires_grad());
    } else {
      ours.register_buffer(name, variable.tensor);
    }
    variables_.push_back(std::move(variable));
  }

  void check(const ScriptVariable& variable) const {
    const at::Tensor& tensor = variable.tensor;
    if (tensor.is_quantized() || tensor.layout() != at::kStrided) {
      throw InvalidArgument("{}: `{}` is a quantised or sparse tensor, which is not trained", file_,
                            variable.name);
    }
    if (variable.is_parameter && tensor.requires_grad() && !is_float(tensor)) {
      throw InvalidArgument(
          "{}: the parameter `{}` is {}: variables are trained in float32; save module.float(), "
          "and "
          "compute in less by the run's precision (--precision)",
          file_, variable.name, type_name(tensor));
    }
  }

  std::string file_;
  std::vector<ScriptVariable> variables_;
};

/// Looks at the operations of a graph, those in branches and loops included, for what cannot be
/// trained.
class GraphCheck {
 public:
  GraphCheck(std::string file, const TorchScriptOptions& options)
      : file_(std::move(file)), options_(options) {}

  void check(const torch::jit::Block& block) const {
    for (const torch::jit::Node* node : block.nodes()) {
      for (const torch::jit::Block* inner : node->blocks()) check(*inner);
      check_attribute(*node);
      const auto* schema = node->maybeSchema();
      if (schema == nullptr) continue;
      check_sparse(*node, *schema);
      if (!options_.fixed_modes) check_mode(*node, *schema);
    }
  }

 private:
  template <typename T>
  static std::optional<T> constant(const torch::jit::Node& node, const c10::FunctionSchema& schema,
                                   std::string_view name) {
    const auto& arguments = schema.arguments();
    for (std::size_t i = 0; i < arguments.size() && i < node.inputs().size(); ++i) {
      if (arguments[i].name() != name) continue;
      const auto value = torch::jit::toIValue(node.inputs()[i]);
      if constexpr (std::is_same_v<T, bool>) {
        if (value && value->isBool()) return value->toBool();
      } else {
        if (value && value->isDouble()) return value->toDouble();
      }
    }
    return std::nullopt;
  }

  static bool is_none(const torch::jit::Node& node, const c10::FunctionSchema& schema,
                      std::string_view name) {
    const auto& arguments = schema.arguments();
    for (std::size_t i = 0; i < arguments.size() && i < node.inputs().size(); ++i) {
      if (arguments[i].name() == name) return node.inputs()[i]->mustBeNone();
    }
    return false;
  }

  void check_attribute(const torch::jit::Node& node) const {
    if (node.kind() != c10::prim::SetAttr) return;
    const std::string& name = node.s(c10::attr::name);
    const auto type = node.inputs()[1]->type();
    if (type->isSubtypeOf(*c10::TensorType::get())) return;
    throw InvalidArgument(
        "{}: forward changes the attribute `{}`, a {}, which no checkpoint would have; make it a "
        "buffer: register_buffer(\"{}\", torch.zeros(()))",
        file_, name, type->str(), name);
  }

  void check_sparse(const torch::jit::Node& node, const c10::FunctionSchema& schema) const {
    if (!constant<bool>(node, schema, "sparse").value_or(false)) return;
    throw InvalidArgument(
        "{}: {} gives sparse gradients; save the module with torch.nn.Embedding(..., sparse=False)",
        file_, schema.name());
  }

  void check_mode(const torch::jit::Node& node, const c10::FunctionSchema& schema) const {
    auto training = constant<bool>(node, schema, "training");
    if (!training) training = constant<bool>(node, schema, "train");
    auto probability = constant<double>(node, schema, "p");
    if (!probability) probability = constant<double>(node, schema, "dropout");
    if (!training) {
      probability = constant<double>(node, schema, "dropout_p");
      if (!probability) return;
      training = true;
    }
    const bool is_norm = schema.name() == "aten::batch_norm";
    // Nothing is dropped, or a caller says how much; a norm without averages has one mode.
    if (!is_norm && probability.value_or(*training ? 0 : 1) == 0) return;
    if (is_norm && is_none(node, schema, "running_mean")) return;
    throw InvalidArgument(
        "{}: {} is in the mode for {} whatever the model's mode is, as torch.jit.trace writes it: "
        "save torch.jit.script(module), or accept it by TorchScriptOptions::fixed_modes",
        file_, schema.name(), *training ? "training" : "evaluation");
  }

  std::string file_;
  const TorchScriptOptions& options_;
};

void check_parameters(const std::vector<ScriptVariable>& variables, const std::string& file) {
  const auto is_parameter = [](const ScriptVariable& one) { return one.is_parameter; };
  if (std::ranges::none_of(variables, is_parameter)) {
    throw InvalidArgument(
        "{}: the module has no parameters to train: torch.jit.freeze makes constants of them; save "
        "the module before it is frozen or optimised for inference",
        file);
  }
  const auto is_trained = [](const ScriptVariable& one) {
    return one.is_parameter && one.tensor.requires_grad();
  };
  if (std::ranges::none_of(variables, is_trained)) {
    throw InvalidArgument(
        "{}: every parameter has requires_grad=False; save the module after "
        "module.requires_grad_(True)",
        file);
  }
}

}  // namespace

struct TorchScriptModel::Impl {
  Impl(const TorchScriptFile& from, const TorchScriptOptions& given)
      : source(from),
        file(from.path().string()),
        options(given),
        module(from.load()),
        program(module, file),
        what(fmt::format("{}: {}", file, program.signature())) {}

  /// Makes the file's code read and write the model's tensors again. Code may put another
  /// tensor into the place of a buffer, as in `self.seen = self.seen + 1`.
  void settle(bool takes_values) const {
    const torch::NoGradGuard no_grad;
    for (const ScriptVariable& variable : variables) {
      const at::Tensor there = variable.object->getSlot(variable.slot).toTensor();
      if (there.is_same(variable.tensor)) continue;
      variable.object->setSlot(variable.slot, variable.tensor);
      if (takes_values) take(variable, there);
    }
  }

  void take(const ScriptVariable& variable, const at::Tensor& value) const {
    if (variable.is_parameter) {
      throw InvalidArgument(
          "{}: forward replaces its parameter `{}`, which only the optimizer may change", what,
          variable.name);
    }
    if (value.sizes() != variable.tensor.sizes() ||
        value.scalar_type() != variable.tensor.scalar_type()) {
      throw InvalidArgument("{}: forward makes its buffer `{}`, {} [{}], {} [{}]", what,
                            variable.name, type_name(variable.tensor),
                            fmt::join(variable.tensor.sizes(), ", "), type_name(value),
                            fmt::join(value.sizes(), ", "));
    }
    variable.tensor.copy_(value);
  }

  c10::IValue run(const Features& features) const {
    std::vector<c10::IValue> inputs = script_inputs(program.arguments(), features, options, what);
    try {
      c10::IValue value = program.run(std::move(inputs));
      settle(/*takes_values=*/true);
      return value;
    } catch (...) {
      settle(/*takes_values=*/false);
      throw;
    }
  }

  const TorchScriptFile source;
  const std::string file;
  const TorchScriptOptions options;
  torch::jit::Module module;
  TorchScriptProgram program;
  /// "encoder.pt: forward(Tensor tokens)": for errors.
  const std::string what;
  std::vector<ScriptVariable> variables;
};

TorchScriptModel::TorchScriptModel(const Path& path, const TorchScriptOptions& options)
    : TorchScriptModel(TorchScriptFile::read(path, options.limit_bytes), options) {}

TorchScriptModel::TorchScriptModel(const TorchScriptFile& file, const TorchScriptOptions& options)
    : impl_(std::make_unique<Impl>(file, options)) {
  check_arguments(impl_->program.arguments(), options, impl_->what);
  VariableRegistry registry(impl_->file);
  registry.add(*this, impl_->module, "");
  impl_->variables = registry.take();
  check_parameters(impl_->variables, impl_->file);
  GraphCheck(impl_->file, impl_->options).check(*impl_->program.graph().block());
  TorchScriptModel::train(true);
}

TorchScriptModel::~TorchScriptModel() = default;

torch::Tensor TorchScriptModel::forward(const Features& features) {
  return script_output(impl_->run(features), impl_->options.output, impl_->what);
}

std::vector<std::pair<std::string, torch::Tensor>> TorchScriptModel::outputs(
    const Features& features) {
  return script_outputs(impl_->run(features), impl_->what);
}

void TorchScriptModel::save_script(const Path& path) const {
  // This model's parameters may be views of all variables of a run, which would be saved with each.
  const torch::NoGradGuard no_grad;
  TorchScriptModel fresh(impl_->source, impl_->options);
  fresh.train(is_training());
  for (std::size_t i = 0; i < impl_->variables.size(); ++i) {
    fresh.impl_->variables[i].tensor.copy_(impl_->variables[i].tensor);
  }
  std::ostringstream bytes;
  fresh.impl_->module.save(bytes);
  write_file_atomically(path, bytes.str());
}

bool TorchScriptModel::draws_from_libtorch() const { return impl_->options.draws_random_numbers; }

void TorchScriptModel::train(bool on) {
  Model::train(on);
  impl_->module.train(on);
}

void TorchScriptModel::to(torch::Device device, bool non_blocking) {
  Model::to(device, non_blocking);
  impl_->program.move_constants(device);
}

ModelFactory torch_script_model(const Path& path, const TorchScriptOptions& options) {
  const TorchScriptFile file = TorchScriptFile::read(path, options.limit_bytes);
  const TorchScriptModel model(file, options);
  std::int64_t parameters = 0;
  for (const at::Tensor& parameter : model.parameters()) parameters += parameter.numel();
  log::info("TorchScript model path={} parameters={}", path.string(), parameters);
  return [file, options] { return std::make_shared<TorchScriptModel>(file, options); };
}

}  // namespace muster
