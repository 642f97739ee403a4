#pragma once

#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/runtime/interpreter.h>

#include <memory>
#include <string>
#include <vector>

namespace muster {

/// forward of a TorchScript module with all calls in one graph, run by libtorch's interpreter one
/// operation after another, in the calling thread. libtorch's own executor looks at the first calls
/// and compiles later ones by what it saw, so that bits depend on how often it was called.
class TorchScriptProgram {
 public:
  /// `file` stands for the module in messages. Throws InvalidArgument when it has no forward.
  TorchScriptProgram(const torch::jit::Module& module, std::string file);

  /// The arguments of forward, without self.
  const std::vector<c10::Argument>& arguments() const { return arguments_; }
  const torch::jit::Graph& graph() const { return *graph_; }
  /// "forward(Tensor tokens, Tensor? mask=None)": for errors.
  std::string signature() const;

  /// Whether forward replaces attributes, so that concurrent calls would interfere.
  bool changes_attributes() const { return changes_attributes_; }

  /// Calls forward. `inputs` are as many as there are arguments, of their types. Throws
  /// InvalidArgument with the place in the file's code where an operation fails.
  c10::IValue run(std::vector<c10::IValue> inputs) const;

  /// Moves the tensors that are part of the code, as torch.jit.trace writes them.
  void move_constants(c10::Device device);

 private:
  torch::jit::Module module_;
  std::string file_;
  std::vector<c10::Argument> arguments_;
  std::shared_ptr<torch::jit::Graph> graph_;
  bool changes_attributes_ = false;
  torch::jit::Code code_;
};

}  // namespace muster
