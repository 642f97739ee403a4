#include "muster/saved_model/executor/arena_plan_internal.h"

#include <ATen/EmptyTensor.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "muster/base/error.h"
#include "muster/saved_model/executor/arena_bridge_internal.h"

namespace muster::executor {
namespace {

/// Misses in a row after which a plan is not tried any more.
constexpr int kMostMisses = 64;
/// Steps of a plan for each that runs by the operation's own kernel, at least.
constexpr std::size_t kLeastStepsOfABridge = 4;

/// Memory that a thread keeps from run to run.
struct ThreadArena {
  Arena arena{};
  std::vector<ArenaValue> values{};
  ArenaCall::Kept kept{};
};
ThreadArena& thread_arena() {
  thread_local ThreadArena held;
  return held;
}

std::vector<std::string> copied_strings(const ArenaValue& value) {
  const auto* const words = value.as<std::string_view>();
  return {words, words + value.count};
}

std::vector<std::int64_t> copied_shape(const ArenaValue& value) {
  return {value.sizes.begin(), value.sizes.begin() + value.rank};
}

}  // namespace

bool ArenaPlan::add_constant(const Slot& slot) {
  held_.emplace_back();
  words_.emplace_back();
  ArenaValue& value = constants_.emplace_back();
  if (const auto* strings = std::get_if<StringTensor>(&slot)) {
    held_.back() = *strings;
    words_.back().assign(strings->values().begin(), strings->values().end());
    if (!value.set_shape(strings->shape())) return false;
    value.type = ArenaType::kStrings;
    value.data = words_.back().data();
    return true;
  }
  const auto* tensor = std::get_if<at::Tensor>(&slot);
  // A table is known to the kernel that reads it.
  if (tensor == nullptr) return std::holds_alternative<std::shared_ptr<Table>>(slot);
  if (!tensor->defined() || !tensor->is_cpu() || !tensor->is_contiguous()) return false;
  held_.back() = *tensor;
  return set_tensor(*tensor, value);
}

std::optional<ArenaCall::Number> ArenaPlan::number_of(const Plan::Source& source) {
  if (source.place == Plan::kFolded) return -1 - static_cast<ArenaCall::Number>(source.output);
  const auto& [first, outputs] = places_[source.place];
  if (source.output >= outputs) return std::nullopt;
  return first + static_cast<ArenaCall::Number>(source.output);
}

// By the operation's own kernel.
ArenaOp ArenaPlan::bridged(const Plan& plan, const Plan::Step& step) {
  if (!may_be_bridged(step.op)) return {};
  std::vector<std::shared_ptr<const Slot>> constants;
  for (const Plan::Source& source : step.inputs) {
    const bool is_constant = source.place == Plan::kFolded;
    constants.push_back(is_constant ? std::make_shared<const Slot>(plan.folded_[source.output])
                                    : nullptr);
  }
  ++bridges_;
  const std::size_t outputs = plan.outputs_read(places_.size());
  return {arena_bridge(step.kernel, std::move(constants), outputs), outputs};
}

bool ArenaPlan::add_step(const Plan& plan, const Plan::Step& step, bool tables_stay) {
  ArenaNode node{.op = step.op,
                 .node = step.node.get(),
                 .layer = step.layer.get(),
                 .chain = step.chain.get(),
                 .constants = {},
                 .tables_stay = tables_stay};
  const bool is_fused = node.layer != nullptr || node.chain != nullptr;
  if (node.node == nullptr && !is_fused && !may_be_bridged(step.op)) return false;
  Step made;
  for (const Plan::Source& source : step.inputs) {
    const auto number = number_of(source);
    if (!number) return false;
    made.inputs.push_back(*number);
    const bool is_constant = source.place == Plan::kFolded;
    node.constants.push_back(is_constant ? &plan.folded_[source.output] : nullptr);
    // No value: only a lookup has it, as its first input.
    const bool is_table =
        is_constant && std::holds_alternative<std::shared_ptr<Table>>(*node.constants.back());
    if (is_table && (made.inputs.size() > 1 || !step.op.starts_with("LookupTableFind"))) {
      return false;
    }
  }
  ArenaOp op = arena_op(node);
  if (!op.kernel) op = bridged(plan, step);
  if (!op.kernel) return false;
  made.kernel = std::move(op.kernel);
  made.output = static_cast<ArenaCall::Number>(values_);
  places_.emplace_back(made.output, op.outputs);
  values_ += op.outputs;
  operations_ += node.chain != nullptr ? static_cast<std::int64_t>(node.chain->nodes.size()) : 1;
  steps_.push_back(std::move(made));
  return true;
}

std::unique_ptr<const ArenaPlan> ArenaPlan::make(const Plan& plan, bool tables_stay) {
  if (plan.has_dead_ || !plan.device_.is_cpu()) return nullptr;
  std::unique_ptr<ArenaPlan> made(new ArenaPlan);
  const auto count_argument = [&](const Plan::Source& source) {
    if (source.place == 0) made->arguments_ = std::max(made->arguments_, source.output + 1);
  };
  for (const Plan::Step& step : plan.steps_) std::ranges::for_each(step.inputs, count_argument);
  std::ranges::for_each(plan.fetches_, count_argument);
  made->values_ = made->arguments_;
  made->places_.emplace_back(0, made->arguments_);
  const auto add_constant = [&](const Slot& slot) { return made->add_constant(slot); };
  if (!std::ranges::all_of(plan.folded_, add_constant)) return nullptr;
  for (const Plan::Step& step : plan.steps_) {
    if (!made->add_step(plan, step, tables_stay)) return nullptr;
  }
  // Copies into libtorch's memory and out of it would take what is won.
  if (made->bridges_ * kLeastStepsOfABridge > made->steps_.size()) return nullptr;
  for (const Plan::Source& fetch : plan.fetches_) {
    const auto number = made->number_of(fetch);
    if (!number) return nullptr;
    made->fetches_.push_back(*number);
  }
  // Inputs of tables are not looked at by steps; results would be.
  for (const ArenaCall::Number number : made->fetches_) {
    if (number < 0 && made->constants_[static_cast<std::size_t>(-1 - number)].data == nullptr) {
      return nullptr;
    }
  }
  return made;
}

ArenaRun::ArenaRun(const ArenaPlan& plan) : plan_(plan), arena_(thread_arena().arena) {
  ThreadArena& held = thread_arena();
  held.arena.reset();
  held.kept.clear();
  if (held.values.size() < plan.values_) held.values.resize(plan.values_);
  values_ = held.values.data();
}

// An argument that nothing reads has no place.
ArenaValue* ArenaRun::next_argument() {
  return added_ < plan_.arguments_ ? &values_[added_++] : nullptr;
}

bool ArenaRun::add_strings(std::span<const std::string> strings,
                           std::span<const std::int64_t> shape) {
  ArenaValue* const to = next_argument();
  if (to == nullptr) return true;
  if (!to->set_shape(shape)) return false;
  auto* const words =
      static_cast<std::string_view*>(arena_.take(strings.size() * sizeof(std::string_view)));
  if (words == nullptr) return false;
  std::uninitialized_copy(strings.begin(), strings.end(), words);
  to->type = ArenaType::kStrings;
  to->data = words;
  return true;
}

bool ArenaRun::add(const Value& value) {
  if (const auto* strings = std::get_if<StringTensor>(&value)) {
    return add_strings(strings->values(), strings->shape());
  }
  const auto& tensor = std::get<at::Tensor>(value);
  ArenaValue* const to = next_argument();
  if (to == nullptr) return true;
  return tensor.is_cpu() && tensor.nbytes() <= Arena::kMostBytes && set_tensor(tensor, *to);
}

bool ArenaRun::add(const graph::TensorValue& value) {
  if (value.dtype == graph::DataType::kString) return add_strings(value.strings, value.shape);
  ArenaValue* const to = next_argument();
  if (to == nullptr) return true;
  const auto type = arena_type(value.dtype);
  if (!type || !to->set_shape(value.shape)) return false;
  const auto is_boolean = [](char byte) { return byte == 0 || byte == 1; };
  if (*type == ArenaType::kBool && !std::ranges::all_of(value.bytes, is_boolean)) return false;
  // Bytes of a string are not aligned for numbers.
  void* const copy = arena_.take(value.bytes.size());
  if (copy == nullptr) return false;
  std::memcpy(copy, value.bytes.data(), value.bytes.size());
  to->type = *type;
  to->data = copy;
  return true;
}

ArenaRun::~ArenaRun() { thread_arena().kept.clear(); }

bool ArenaRun::run_steps(Budget& budget) {
  ArenaCall call(values_, plan_.constants_.data(), arena_, thread_arena().kept, budget);
  for (const ArenaPlan::Step& step : plan_.steps_) {
    call.set(step.inputs, step.output);
    if (!step.kernel(call)) return false;
  }
  return true;
}

bool ArenaRun::run(Budget& budget) {
  if (added_ < plan_.arguments_ || plan_.misses_.load(std::memory_order_relaxed) > kMostMisses ||
      !budget.has_room_for(plan_.operations_, static_cast<std::int64_t>(Arena::kMostBytes))) {
    return false;
  }
  bool is_done = false;
  try {
    is_done = run_steps(budget);
  } catch (const std::exception&) {
    // The plan has the same error, with the name of its node.
  }
  if (!is_done) {
    plan_.misses_.fetch_add(1, std::memory_order_relaxed);
    return false;
  }
  if (plan_.misses_.load(std::memory_order_relaxed) != 0) plan_.misses_ = 0;
  budget.begin_operations(plan_.operations_);
  return true;
}

const ArenaValue& ArenaRun::fetched(std::size_t fetch) const {
  const ArenaCall::Number number = plan_.fetches_[fetch];
  return number >= 0 ? values_[number] : plan_.constants_[static_cast<std::size_t>(-1 - number)];
}

Value ArenaRun::result(std::size_t fetch) const {
  const ArenaCall::Number number = plan_.fetches_[fetch];
  if (number < 0) return plan_.held_[static_cast<std::size_t>(-1 - number)];
  const ArenaValue& value = fetched(fetch);
  if (value.type == ArenaType::kStrings) {
    return StringTensor(copied_strings(value), copied_shape(value));
  }
  at::Tensor made = at::detail::empty_cpu(at::IntArrayRef(value.sizes.data(), value.rank),
                                          scalar_type(value.type));
  std::memcpy(made.data_ptr(), value.data, made.nbytes());
  return made;
}

graph::TensorValue ArenaRun::tensor_result(std::size_t fetch) const {
  const ArenaValue& value = fetched(fetch);
  graph::TensorValue made{.dtype = data_type(value.type), .shape = copied_shape(value)};
  if (value.type == ArenaType::kStrings) {
    made.strings = copied_strings(value);
  } else {
    made.bytes.assign(value.as<char>(),
                      static_cast<std::size_t>(value.count) * size_of(value.type));
  }
  return made;
}

}  // namespace muster::executor
