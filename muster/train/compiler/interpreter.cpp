#include "muster/train/compiler/interpreter.h"

#include <ATen/core/ivalue.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty_strided.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "muster/base/error.h"
#include "muster/train/compiler/kernel.h"
#include "muster/train/compiler/torch_dispatch.h"
#include "muster/train/compiler/uses.h"

namespace muster::compiler {
namespace {

double rounding_of(at::ScalarType type) {
  switch (type) {
    case at::kBFloat16:
      return std::exp2(-8);
    case at::kHalf:
      return std::exp2(-11);
    case at::kFloat:
      return std::exp2(-21);
    default:
      return 0;
  }
}

// By numbers of its own: libtorch's generators belong to the step.
void perturb(const at::Tensor& tensor, std::size_t node) {
  const double rounding = rounding_of(tensor.scalar_type());
  if (rounding == 0 || tensor.numel() == 0 || !geometry_of(tensor).is_dense()) return;
  const at::Tensor flat = tensor.as_strided({tensor.numel()}, {1}, tensor.storage_offset());
  at::Tensor noise = at::arange(tensor.numel(), flat.options().dtype(at::kFloat));
  noise.mul_(12.9898).add_(0.78233 * static_cast<double>(node + 1)).sin_().mul_(43758.5453);
  flat.mul_(noise.frac_().mul_(rounding).add_(1.0));
}

}  // namespace

struct Interpreter::Run {
  const Graph& graph;
  /// By storage.
  std::vector<c10::Storage> memory{};
  std::vector<bool> there{};

  explicit Run(const Graph& of, const std::vector<at::Tensor>& inputs)
      : graph(of), memory(of.storages.size()), there(of.storages.size(), false) {
    for (std::size_t i = 0; i < graph.storages.size(); ++i) {
      if (graph.storages[i].kind != Storage::Kind::kExternal) continue;
      memory[i] = graph.storages[i].memory;
      there[i] = true;
    }
    check(inputs);
    for (std::size_t i = 0; i < inputs.size(); ++i) put(graph.inputs[i], inputs[i]);
  }

  void check(const std::vector<at::Tensor>& inputs) const {
    if (inputs.size() != graph.inputs.size()) {
      throw InvalidArgument("a compiled step of {} inputs is given {}", graph.inputs.size(),
                            inputs.size());
    }
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      Geometry given = geometry_of(inputs[i]);
      if (given == graph.geometry(graph.inputs[i])) continue;
      throw InvalidArgument("input {} of a compiled step is {}, and was recorded as {}", i,
                            describe(given), describe(graph.geometry(graph.inputs[i])));
    }
  }

  void put(ValueId value, const at::Tensor& tensor) {
    const auto storage = Graph::index(graph.storage_of(value));
    memory[storage] = tensor.storage();
    there[storage] = true;
  }

  at::Tensor tensor(std::optional<ValueId> value) const {
    if (!value) return {};
    const Geometry& geometry = graph.geometry(*value);
    const auto storage = Graph::index(graph.storage_of(*value));
    if (!there[storage]) throw Internal("%{} is read before it is made", *value);
    return tensor_of(memory[storage], keys_of(geometry.device), geometry.type, geometry.sizes,
                     geometry.strides, geometry.offset);
  }

  c10::IValue argument(const Argument& of) const {
    if (of.kind == Argument::Kind::kConstant) return of.constant;
    if (of.kind == Argument::Kind::kTensor) return tensor(of.tensors[0]);
    if (!of.optional_elements) {
      c10::List<at::Tensor> list;
      for (const auto& value : of.tensors) list.push_back(tensor(value));
      return list;
    }
    c10::List<Optional<at::Tensor>> list;
    for (const auto& value : of.tensors) {
      list.push_back(value ? Optional<at::Tensor>(tensor(value)) : Optional<at::Tensor>());
    }
    return list;
  }

  void take(const Node& node, const Result& result, const at::Tensor& made) {
    if (!result.value) return;
    const auto storage = Graph::index(graph.storage_of(*result.value));
    if (there[storage]) return;
    if (geometry_of(made) != graph.geometry(*result.value)) {
      throw Internal("{} made {}, and was recorded with {}", node.name(),
                     describe(geometry_of(made)), describe(graph.geometry(*result.value)));
    }
    put(*result.value, made);
  }

  void run_operation(const Node& node) {
    torch::jit::Stack stack;
    stack.reserve(node.arguments.size());
    for (const Argument& of : node.arguments) stack.push_back(argument(of));
    node.operation->callBoxed(&stack);
    for (const Result& result : node.results) {
      const c10::IValue& given = stack[result.place];
      take(node, result,
           result.element ? given.toTensorVector()[*result.element] : given.toTensor());
    }
  }

  // Results of one storage are views of one another.
  void make_memory(ValueId value) {
    const Geometry& geometry = graph.geometry(value);
    if (there[Graph::index(graph.storage_of(value))]) return;
    put(value, at::empty_strided(geometry.sizes, geometry.strides,
                                 at::TensorOptions(geometry.type).device(geometry.device)));
  }

  void run_kernel(const Node& node) {
    std::vector<at::Tensor> inputs;
    for (const ValueId value : values_read(node)) inputs.push_back(tensor(value));
    std::vector<at::Tensor> results;
    for (const ValueId value : values_made(node)) {
      make_memory(value);
      results.push_back(tensor(value));
    }
    node.kernel->run(inputs, results);
  }

  void run(const Node& node) { node.kernel ? run_kernel(node) : run_operation(node); }
};

Interpreter::Interpreter(Graph graph) : graph_(std::move(graph)) { find_last_uses(); }

void Interpreter::find_last_uses() {
  freed_.resize(graph_.nodes.size());
  std::vector<bool> needed(graph_.storages.size(), false);
  const auto see = [&](ValueId value, std::vector<StorageId>& last) {
    const StorageId storage = graph_.storage_of(value);
    if (graph_.storage(storage).kind == Storage::Kind::kExternal) return;
    if (!needed[Graph::index(storage)]) last.push_back(storage);
    needed[Graph::index(storage)] = true;
  };
  std::vector<StorageId> kept;
  for (const auto& output : graph_.outputs) {
    if (output) see(*output, kept);
  }
  for (std::size_t i = graph_.nodes.size(); i-- > 0;) {
    for (const ValueId value : values_read(graph_.nodes[i])) see(value, freed_[i]);
    for (const ValueId value : values_made(graph_.nodes[i])) see(value, freed_[i]);
  }
}

std::vector<at::Tensor> Interpreter::run(const std::vector<at::Tensor>& inputs) const {
  return run(inputs, {});
}

std::vector<at::Tensor> Interpreter::run(const std::vector<at::Tensor>& inputs,
                                         const Observer& observer) const {
  return run(inputs, observer, {});
}

std::vector<at::Tensor> Interpreter::run_perturbed(const std::vector<at::Tensor>& inputs) const {
  const Uses uses(graph_);
  return run(inputs, {}, [&](Run& run, std::size_t node) {
    for (const ValueId value : values_made(graph_.nodes[node])) {
      const bool is_made_here = uses.of_value(value).maker == static_cast<NodeId>(node);
      if (is_made_here) perturb(run.tensor(value), node);
    }
  });
}

std::vector<at::Tensor> Interpreter::run(const std::vector<at::Tensor>& inputs,
                                         const Observer& observer, const After& after) const {
  const BelowAutograd below;
  Run run(graph_, inputs);
  for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
    const Node& node = graph_.nodes[i];
    observer ? observer(node, [&] { run.run(node); }) : run.run(node);
    if (after) after(run, i);
    for (const StorageId storage : freed_[i]) {
      run.memory[Graph::index(storage)] = {};
      run.there[Graph::index(storage)] = false;
    }
  }
  std::vector<at::Tensor> outputs;
  for (const auto& output : graph_.outputs) outputs.push_back(run.tensor(output));
  return outputs;
}

std::size_t Interpreter::peak_bytes() const {
  std::vector<std::size_t> bytes(graph_.storages.size(), 0);
  std::size_t now = 0;
  std::size_t peak = 0;
  for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
    for (const ValueId value : values_made(graph_.nodes[i])) {
      const StorageId storage = graph_.storage_of(value);
      auto& of = bytes[Graph::index(storage)];
      if (graph_.storage(storage).kind != Storage::Kind::kComputed || of != 0) continue;
      of = graph_.geometry(value).bytes();
      now += of;
    }
    peak = std::max(peak, now);
    for (const StorageId storage : freed_[i]) now -= std::exchange(bytes[Graph::index(storage)], 0);
  }
  return peak;
}

}  // namespace muster::compiler
