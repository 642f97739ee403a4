#include "muster/serving/executable/torch_script_servable.h"

#include <c10/core/InferenceMode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/types.h>

#include <algorithm>
#include <iterator>
#include <mutex>
#include <optional>
#include <utility>
#include <variant>

#include "muster/base/log.h"
#include "muster/nn/torch_script/torch_script_file.h"
#include "muster/nn/torch_script/torch_script_inputs.h"
#include "muster/nn/torch_script/torch_script_program.h"
#include "muster/saved_model/executor/value.h"
#include "muster/serving/executable/torch_script_signature.h"

namespace muster::serving {
namespace {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

bool is_place(const std::string& name) {
  return !name.empty() && name.find_first_not_of("0123456789") == std::string::npos;
}

torch::jit::Module evaluation_module(const TorchScriptFile& file, c10::Device device) {
  torch::jit::Module module = file.load(device);
  module.eval();
  return module;
}

// Zeros, with `open` elements along each dimension that may have any number.
std::optional<at::Tensor> example_of(const graph::TensorInfo& input, std::int64_t open,
                                     c10::Device device) {
  if (input.shape.unknown_rank) return std::nullopt;
  std::vector<std::int64_t> sizes = input.shape.dims;
  std::ranges::replace(sizes, std::int64_t{-1}, open);
  return torch::zeros(sizes, at::TensorOptions(executor::scalar_type(input.dtype)).device(device));
}

/// A TorchScript file that answers requests.
class TorchScriptServable final : public Servable {
 public:
  TorchScriptServable(const TorchScriptFile& file, c10::Device device)
      : device_(device),
        program_(evaluation_module(file, device), file.path().string()),
        what_(fmt::format("{}: {}", file.path().string(), program_.signature())),
        takes_turns_(program_.changes_attributes()) {
    program_.move_constants(device);
    TorchScriptSignature signature = torch_script_signature(file.path(), program_);
    output_names_ = std::move(signature.output_names);
    find_outputs(signature.definition);
    if (!signature.is_declared) {
      log::warning(
          "{} has no signature beside it: its inputs are taken for float32 of any shape, and "
          "requests are not joined to batches",
          file.path().string());
    }
    signatures_.emplace(graph::kDefaultSignature, std::move(signature.definition));
  }

  const Signatures& signatures() const override { return signatures_; }
  std::string_view platform() const override { return "pytorch_libtorch"; }

  Tensors run(std::string_view /*signature*/, const Tensors& inputs) const override {
    const graph::SignatureDef& signature = signatures_.begin()->second;
    check_names(signature, inputs);
    Tensors answer;
    for (auto& [name, tensor] : outputs_of([&](const std::string& name) {
           const auto given = inputs.find(name);
           return given == inputs.end() ? std::optional<at::Tensor>()
                                        : input_tensor(name, signature, given->second);
         })) {
      answer.emplace(name, executor::to_tensor_value(tensor));
    }
    return answer;
  }

 private:
  // Outputs have types and shapes where inputs of two sizes can be made up: what differs between
  // the two answers is open.
  void find_outputs(graph::SignatureDef& signature) const {
    const auto run_example = [&](std::int64_t open) -> std::optional<NamedTensors> {
      for (const auto& [name, input] : signature.inputs) {
        if (!example_of(input, open, device_)) return std::nullopt;
      }
      return outputs_of([&](const std::string& name) -> std::optional<at::Tensor> {
        const auto input = signature.inputs.find(name);
        if (input == signature.inputs.end()) return std::nullopt;
        return example_of(input->second, open, device_);
      });
    };
    const auto two = run_example(2);
    if (!two) return;
    const NamedTensors three = run_example(3).value();
    for (std::size_t i = 0; i < two->size(); ++i) {
      const auto& [name, tensor] = (*two)[i];
      graph::TensorInfo info{.name = name, .dtype = executor::data_type(tensor.scalar_type())};
      info.shape.dims = tensor.sizes().vec();
      const bool is_there = i < three.size() && three[i].first == name;
      if (!is_there || three[i].second.dim() != tensor.dim()) {
        info.shape = graph::Shape::any();
      } else {
        for (std::int64_t d = 0; d < tensor.dim(); ++d) {
          if (three[i].second.size(d) != tensor.size(d))
            info.shape.dims[static_cast<std::size_t>(d)] = -1;
        }
      }
      signature.outputs.emplace(name, std::move(info));
    }
  }

  void check_names(const graph::SignatureDef& signature, const Tensors& inputs) const {
    for (const auto& [name, info] : signature.inputs) {
      if (!inputs.contains(name)) throw InvalidArgument("{} needs the input {}", what_, name);
    }
    for (const auto& [name, tensor] : inputs) {
      if (!signature.inputs.contains(name))
        throw InvalidArgument("{} has no input {}", what_, name);
    }
  }

  at::Tensor input_tensor(const std::string& name, const graph::SignatureDef& signature,
                          const graph::TensorValue& value) const {
    const graph::TensorInfo& info = signature.inputs.find(name)->second;
    if (value.dtype != info.dtype || !graph::fits(info.shape, value.shape)) {
      throw InvalidArgument("the input {} must be {} {}, but is {} [{}]", name,
                            graph::name_of(info.dtype), graph::to_string(info.shape),
                            graph::name_of(value.dtype), fmt::join(value.shape, ", "));
    }
    return std::get<at::Tensor>(executor::to_value(value)).to(device_);
  }

  // Each input by its argument's name; arguments without one have their default.
  template <typename InputOf>
  NamedTensors outputs_of(const InputOf& input_of) const {
    const c10::InferenceMode inference;
    std::vector<c10::IValue> values;
    for (const c10::Argument& argument : program_.arguments()) {
      std::optional<at::Tensor> tensor = input_of(argument.name());
      values.push_back(tensor ? c10::IValue(std::move(*tensor)) : *argument.default_value());
    }
    return named(script_outputs(forward(std::move(values)), what_));
  }

  c10::IValue forward(std::vector<c10::IValue> values) const {
    std::unique_lock lock(turn_, std::defer_lock);
    if (takes_turns_) lock.lock();
    return program_.run(std::move(values));
  }

  NamedTensors named(NamedTensors outputs) const {
    if (!output_names_.empty() && output_names_.size() != outputs.size()) {
      throw InvalidArgument("{}: it gives {} outputs, and the signature names {}", what_,
                            outputs.size(), output_names_.size());
    }
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      std::string& name = outputs[i].first;
      if (!output_names_.empty()) {
        name = output_names_[i];
      } else if (is_place(name)) {
        name = "output_" + name;
      }
    }
    return outputs;
  }

  c10::Device device_;
  TorchScriptProgram program_;
  // "encoder.pt: forward(Tensor tokens)": for errors.
  std::string what_;
  // forward replaces attributes of the module.
  bool takes_turns_;
  mutable std::mutex turn_{};
  std::vector<std::string> output_names_{};
  Signatures signatures_{};
};

}  // namespace

std::shared_ptr<const Servable> load_torch_script(const Path& file,
                                                  const TorchScriptServableOptions& options) {
  return std::make_shared<TorchScriptServable>(TorchScriptFile::read(file, options.limit_bytes),
                                               options.device);
}

}  // namespace muster::serving
