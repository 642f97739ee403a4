#include <algorithm>

#include "muster/base/error.h"
#include "muster/executor/op_table_internal.h"

namespace muster::executor {
namespace {

Slots all_slots(const Inputs& inputs, std::size_t first) {
  Slots arguments;
  for (std::size_t i = first; i < inputs.size(); ++i) arguments.push_back(inputs.slot(i));
  return arguments;
}

Kernel call(const KernelContext& context) {
  const auto& function = graph::attr<graph::FunctionRef>(context.node, "f");
  return [callee = context.function(function.name)](const Inputs& inputs) {
    return callee(all_slots(inputs, 0));
  };
}

// A scalar is true unless it is zero or the empty string, a tensor unless it is empty.
bool is_true(const Inputs& inputs, std::size_t index) {
  const Value value = inputs.value(index);
  if (const auto* strings = std::get_if<StringTensor>(&value)) {
    return strings->shape().empty() ? !strings->values()[0].empty() : !strings->values().empty();
  }
  const auto& tensor = std::get<at::Tensor>(value);
  return tensor.dim() == 0 ? tensor.item<double>() != 0 : tensor.numel() > 0;
}

Kernel branch(const KernelContext& context) {
  const auto& then_branch = graph::attr<graph::FunctionRef>(context.node, "then_branch");
  const auto& else_branch = graph::attr<graph::FunctionRef>(context.node, "else_branch");
  return [then_call = context.function(then_branch.name),
          else_call = context.function(else_branch.name)](const Inputs& inputs) {
    return (is_true(inputs, 0) ? then_call : else_call)(all_slots(inputs, 1));
  };
}

}  // namespace

void add_function_ops(OpTable& table) {
  table.add("PartitionedCall", call);
  table.add("StatefulPartitionedCall", call);
  table.add("If", branch);
  table.add("StatelessIf", branch);
}

}  // namespace muster::executor
