#include <ATen/Functions.h>

#include <algorithm>

#include "muster/base/error.h"
#include "muster/saved_model/executor/op_table_internal.h"

namespace muster::executor {
namespace {

Slots all_slots(const Inputs& inputs, std::size_t first) {
  Slots arguments;
  for (std::size_t i = first; i < inputs.size(); ++i) arguments.push_back(inputs.slot(i));
  return arguments;
}

Function function_of(const KernelContext& context, const char* attr) {
  return context.function(graph::attr<graph::FunctionRef>(context.node, attr).name);
}

Kernel call(const KernelContext& context) {
  return [callee = function_of(context, "f")](const Inputs& inputs) {
    return callee(all_slots(inputs, 0), inputs.budget());
  };
}

// A scalar is true unless it is zero or the empty string, a tensor unless it is empty.
bool is_true(const Value& value) {
  if (const auto* strings = std::get_if<StringTensor>(&value)) {
    return strings->shape().empty() ? !strings->values()[0].empty() : !strings->values().empty();
  }
  const auto& tensor = std::get<at::Tensor>(value);
  return tensor.dim() == 0 ? tensor.item<double>() != 0 : tensor.numel() > 0;
}

Kernel branch(const KernelContext& context) {
  return [then_call = function_of(context, "then_branch"),
          else_call = function_of(context, "else_branch")](const Inputs& inputs) {
    const auto& chosen = is_true(inputs.value(0)) ? then_call : else_call;
    return chosen(all_slots(inputs, 1), inputs.budget());
  };
}

// An index outside of the branches takes the last.
Kernel switch_case(const KernelContext& context) {
  std::vector<Function> branches;
  for (const auto& branch : graph::attr<graph::AttrList>(context.node, "branches").functions) {
    branches.push_back(context.function(branch.name));
  }
  if (branches.empty()) throw InvalidArgument("there are no branches");
  return [branches](const Inputs& inputs) {
    const auto index = inputs.integer(0);
    const auto last = static_cast<std::int64_t>(branches.size()) - 1;
    const auto chosen = index < 0 || index > last ? last : index;
    return branches[static_cast<std::size_t>(chosen)](all_slots(inputs, 1), inputs.budget());
  };
}

// The budget ends a loop that does not end by itself.
Kernel loop(const KernelContext& context) {
  return [condition = function_of(context, "cond"),
          body = function_of(context, "body")](const Inputs& inputs) {
    Budget& budget = inputs.budget();
    Slots state = all_slots(inputs, 0);
    budget.hold(state, inputs.slots());
    const auto goes_on = [&] {
      const Slots answer = condition(state, budget);
      if (answer.size() != 1) {
        throw InvalidArgument("the condition of a loop gives {} values and not one", answer.size());
      }
      return is_true(value_of(answer[0], 0));
    };
    while (goes_on()) {
      Slots next = body(state, budget);
      if (next.size() != state.size()) {
        throw InvalidArgument("the body of a loop makes {} values of {}", next.size(),
                              state.size());
      }
      budget.hold(next, inputs.slots());
      budget.release(state);
      state = std::move(next);
    }
    budget.release(state);
    return state;
  };
}

// Output 0 is for false, output 1 for true; the other one is dead.
Slots switch_by(const Inputs& inputs) {
  const bool chosen = is_true(inputs.value(1));
  return chosen ? Slots{Dead{}, inputs.slot(0)} : Slots{inputs.slot(0), Dead{}};
}

// The input that is not dead, and its number.
Slots merge(const Inputs& inputs) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (std::holds_alternative<Dead>(inputs.slot(i))) continue;
    return {inputs.slot(i), at::scalar_tensor(static_cast<std::int64_t>(i), at::kInt)};
  }
  throw InvalidArgument("there are no inputs");
}

// Nodes inside of a loop are reached through the While that stands for it.
Kernel outside_of_loop(const KernelContext&) {
  throw Unimplemented(
      "the value of one step of a loop is asked for outside of it, or the loop is inside of a "
      "function");
}

Slots pass_on(const Inputs& inputs) { return {inputs.slot(0)}; }

KernelFactory plainly(Slots (*kernel)(const Inputs&)) {
  return [kernel](const KernelContext&) -> Kernel { return kernel; };
}

}  // namespace

void add_control_flow_ops(OpTable& table) {
  for (const auto* name : {"PartitionedCall", "StatefulPartitionedCall"}) table.add(name, call);
  for (const auto* name : {"If", "StatelessIf"}) table.add(name, branch);
  for (const auto* name : {"Case", "StatelessCase"}) table.add(name, switch_case);
  for (const auto* name : {"While", "StatelessWhile"}) table.add(name, loop);
  for (const auto* name : {"Switch", "RefSwitch"}) {
    table.add(name, Op{plainly(switch_by), {"output_false", "output_true"}});
  }
  // Loops of TensorFlow 1: while_loops_internal.h.
  for (const auto* name : {"Enter", "RefEnter", "NextIteration", "RefNextIteration"}) {
    table.add(name, outside_of_loop);
  }
  for (const auto* name : {"Exit", "RefExit", "LoopCond"}) table.add_plain(name, pass_on);
  for (const auto* name : {"Merge", "RefMerge"}) {
    table.add(name, Op{plainly(merge), {"output", "value_index"}});
  }
}

}  // namespace muster::executor
