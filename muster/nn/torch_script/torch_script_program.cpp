#include "muster/nn/torch_script/torch_script_program.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/passes/inliner.h>

#include <functional>
#include <sstream>
#include <utility>

#include "muster/base/error.h"

namespace muster {
namespace {

const torch::jit::Function& forward_of(const torch::jit::Module& module, const std::string& file) {
  const auto method = module.find_method("forward");
  if (!method) {
    throw InvalidArgument(
        "{}: the module has no method forward; call the method that computes the logits forward, "
        "or export it from a module whose forward calls it",
        file);
  }
  return method->function();
}

std::shared_ptr<torch::jit::Graph> inlined_graph(const torch::jit::Module& module,
                                                 const std::string& file) {
  auto& function = const_cast<torch::jit::Function&>(forward_of(module, file));
  auto graph = torch::jit::toGraphFunction(function).graph()->copy();
  torch::jit::Inline(*graph);
  return graph;
}

std::string text_of(const c10::Argument& argument) {
  std::ostringstream text;
  text << argument;
  return text.str();
}

void move_constants_of(torch::jit::Block& block, torch::jit::Graph& graph, c10::Device device) {
  for (torch::jit::Node* node : block.nodes()) {
    for (torch::jit::Block* inner : node->blocks()) move_constants_of(*inner, graph, device);
    if (node->kind() != c10::prim::Constant) continue;
    const auto value = torch::jit::toIValue(node->output());
    if (!value || !value->isTensor() || !value->toTensor().defined()) continue;
    node->t_(c10::attr::value, value->toTensor().to(device));
  }
}

bool sets_attributes(const torch::jit::Block& block) {
  for (const torch::jit::Node* node : block.nodes()) {
    if (node->kind() == c10::prim::SetAttr) return true;
    for (const torch::jit::Block* inner : node->blocks()) {
      if (sets_attributes(*inner)) return true;
    }
  }
  return false;
}

}  // namespace

TorchScriptProgram::TorchScriptProgram(const torch::jit::Module& module, std::string file)
    : module_(module), file_(std::move(file)), graph_(inlined_graph(module, file_)) {
  const auto& all = forward_of(module, file_).getSchema().arguments();
  arguments_.assign(all.begin() + 1, all.end());
  changes_attributes_ = sets_attributes(*graph_->block());
  code_ = torch::jit::Code(graph_, "forward");
}

std::string TorchScriptProgram::signature() const {
  std::vector<std::string> texts;
  texts.reserve(arguments_.size());
  for (const c10::Argument& argument : arguments_) texts.push_back(text_of(argument));
  return fmt::format("forward({})", fmt::join(texts, ", "));
}

c10::IValue TorchScriptProgram::run(std::vector<c10::IValue> inputs) const {
  if (inputs.size() != arguments_.size()) {
    throw Internal("{}: {} takes {} arguments, not {}", file_, signature(), arguments_.size(),
                   inputs.size());
  }
  torch::jit::Stack stack;
  stack.reserve(inputs.size() + 1);
  stack.emplace_back(module_._ivalue());
  for (c10::IValue& input : inputs) stack.push_back(std::move(input));
  // Work of torch.jit.fork is done before the next operation, in this thread, so that random
  // numbers are drawn in one order.
  torch::jit::InterpreterState state(code_, [](const std::function<void()>& work) { work(); });
  try {
    state.run(stack);
  } catch (const c10::Error& error) {
    throw InvalidArgument("{}: {}: {}", file_, signature(), error.what_without_backtrace());
  } catch (const std::exception& error) {
    throw InvalidArgument("{}: {}: {}", file_, signature(), error.what());
  }
  return std::move(stack.back());
}

void TorchScriptProgram::move_constants(c10::Device device) {
  move_constants_of(*graph_->block(), *graph_, device);
  code_ = torch::jit::Code(graph_, "forward");
}

}  // namespace muster
