#include <algorithm>
#include <chrono>
#include <exception>
#include <functional>
#include <unordered_map>
#include <utility>

#include "muster/base/error.h"
#include "muster/saved_model/executor/arena_kernels_internal.h"
#include "muster/saved_model/executor/fused_layer_internal.h"
#include "muster/saved_model/executor/in_node_internal.h"
#include "muster/saved_model/executor/plan_frame_internal.h"
#include "muster/saved_model/executor/plan_internal.h"
#include "muster/saved_model/executor/sizes_internal.h"

namespace muster::executor {
namespace {

constexpr std::size_t kMaxCallDepth = 64;

// Limits of the values that fold() keeps beside constants and variables, in elements: of one step
// and of a plan.
constexpr std::int64_t kMaxFoldedStep = 1 << 20;
constexpr std::int64_t kMaxFoldedPlan = 1 << 24;
constexpr std::int64_t kMaxElementBytes = 8;

// Operations that leave values dead.
bool may_kill(std::string_view op) { return op == "Switch" || op == "RefSwitch"; }

bool assigns(std::string_view op) { return op.starts_with("Assign"); }

// Whether the operation does nothing but make its outputs of its inputs.
bool is_pure(std::string_view op) {
  return !calls_functions(op) && !assigns(op) && op != "Assert" && op != "NoOp" &&
         op != "RestoreV2" && op != "IsVariableInitialized" && op != "VarIsInitializedOp" &&
         !may_kill(op) && !takes_dead(op) && !op.starts_with("Random") &&
         !op.starts_with("Placeholder") && !op.starts_with("InitializeTable") &&
         !op.starts_with("LookupTable");
}

// Whether the tensor is in the memory of one of these, or of a variable.
bool shares_memory(const at::Tensor& tensor, const Slots& with) {
  return std::ranges::any_of(with, [&](const Slot& slot) {
    if (const auto* other = std::get_if<at::Tensor>(&slot)) return tensor.is_alias_of(*other);
    const auto* variable = std::get_if<std::shared_ptr<Variable>>(&slot);
    if (variable == nullptr || !(*variable)->has_value()) return false;
    const Value value = (*variable)->read();
    const auto* held = std::get_if<at::Tensor>(&value);
    return held != nullptr && tensor.is_alias_of(*held);
  });
}

// The memory that outputs take beside that of the inputs, in elements, and bytes of strings.
std::int64_t fresh_elements(const Slots& outputs, const Slots& inputs) {
  std::int64_t count = 0;
  for (const Slot& slot : outputs) {
    const auto* tensor = std::get_if<at::Tensor>(&slot);
    if (tensor != nullptr && !shares_memory(*tensor, inputs)) count += tensor->numel();
    if (const auto* strings = std::get_if<StringTensor>(&slot)) {
      for (const auto& text : strings->values()) {
        count += 1 + static_cast<std::int64_t>(text.size());
      }
    }
  }
  return count;
}

std::string where_is(const graph::NodeDef& node) { return where(node.name, node.op); }

// Sizes that no element is behind may have grown by joining and stacking.
void check_countable_values(const Slots& values) {
  for (const Slot& slot : values) {
    const auto* tensor = std::get_if<at::Tensor>(&slot);
    if (tensor != nullptr && tensor->defined() && tensor->numel() == 0) {
      check_countable(tensor->sizes());
    }
  }
}

// Where an output of a node stands among its outputs.
std::size_t flat_output(const graph::NodeDef& node, const Op& op, const graph::InputRef& ref) {
  int offset = 0;
  if (!ref.output.empty()) {
    if (op.offset) {
      offset = op.offset(node, ref.output);
    } else if (!op.outputs.empty()) {
      const auto found = std::ranges::find(op.outputs, ref.output);
      if (found == op.outputs.end()) {
        throw InvalidArgument("{} has no output {}", where_is(node), ref.output);
      }
      offset = static_cast<int>(found - op.outputs.begin());
    }
  }
  return static_cast<std::size_t>(std::int64_t{offset} + ref.index);
}

}  // namespace

bool calls_functions(std::string_view op) {
  return op == "PartitionedCall" || op == "StatefulPartitionedCall" || op == "If" ||
         op == "StatelessIf" || op == "While" || op == "StatelessWhile" || op == "Case" ||
         op == "StatelessCase";
}

Slots Plan::run_step(const Step& step, const SlotRefs& inputs, Budget& budget) const {
  budget.begin_operation();
  const Budget::Step in_step(budget);
  // Values read from files take no more memory than the files are large.
  if (step.op == "RestoreV2") {
    const auto begin = std::chrono::steady_clock::now();
    Slots made = step.kernel(Inputs(inputs, device_, budget));
    budget.add_time(std::chrono::steady_clock::now() - begin);
    budget.hold_free(made);
    return made;
  }
  Slots made = step.kernel(Inputs(inputs, device_, budget));
  check_countable_values(made);
  budget.hold(made, inputs);
  return made;
}

Slots Plan::run(Slots arguments, Budget& budget) const {
  Frame frame(*this, std::move(arguments), budget);
  run_steps(frame, 0, steps_.size(), budget);
  return frame.finish();
}

void Plan::run_steps(Frame& frame, std::size_t begin, std::size_t end, Budget& budget) const {
  std::vector<const Slot*> inputs(most_inputs_);
  for (std::size_t i = begin; i < end; ++i) {
    const Step& step = steps_[i];
    if (step.names_its_errors) {
      run_into(frame, i, inputs, budget);
    } else {
      in_node(step.name, step.op, [&] { run_into(frame, i, inputs, budget); });
    }
    for (const auto place : step.release) frame.release(place);
  }
}

void Plan::run_into(Frame& frame, std::size_t i, std::span<const Slot*> room,
                    Budget& budget) const {
  const Step& step = steps_[i];
  for (std::size_t k = 0; k < step.inputs.size(); ++k) room[k] = &frame.at(step.inputs[k]);
  const SlotRefs inputs(std::span<const Slot* const>(room.data(), step.inputs.size()));
  if (frame.inherits_death(step, inputs)) {
    frame.kill(i + 1);
  } else {
    frame.set(i + 1, run_step(step, inputs, budget));
  }
}

std::vector<std::string> Plan::operations() const {
  std::vector<std::string> names;
  names.reserve(steps_.size());
  for (const Step& step : steps_) names.push_back(step.op);
  return names;
}

void Plan::forget_nodes() {
  for (Step& step : steps_) step.node.reset();
}

bool Plan::may_assign() const {
  return std::ranges::any_of(
      steps_, [](const Step& step) { return assigns(step.op) || calls_functions(step.op); });
}

std::optional<Slots> Plan::folded(const Step& step, const std::vector<std::optional<Slots>>& known,
                                  bool variables_stay, std::int64_t& room, Budget& load) const {
  if (!is_pure(step.op)) return std::nullopt;
  // In a branch of a conditional even a constant may be dead.
  const auto is_open = [&](std::size_t place) { return !known[place]; };
  if (has_dead_ && std::ranges::any_of(step.controls, is_open)) return std::nullopt;
  Slots inputs;
  for (const Source& source : step.inputs) {
    const auto& held = known[source.place];
    if (!held || source.output >= held->size()) return std::nullopt;
    inputs.push_back((*held)[source.output]);
    const bool variable = std::holds_alternative<std::shared_ptr<Variable>>(inputs.back());
    if (variable && !variables_stay) return std::nullopt;
  }
  try {
    load.begin_operation();
    Budget budget({.live_bytes = kMaxFoldedStep * kMaxElementBytes});
    Slots made = step.kernel(Inputs(inputs, device_, budget));
    // A constant is kept in any case, by its kernel.
    const std::int64_t fresh = step.inputs.empty() ? 0 : fresh_elements(made, inputs);
    if (fresh > kMaxFoldedStep || fresh > room) return std::nullopt;
    room -= fresh;
    return made;
  } catch (const std::exception&) {
    return std::nullopt;  // run() throws it again, where this value is needed.
  }
}

void Plan::fold(bool variables_stay, Budget& load) {
  std::vector<std::optional<Slots>> known(steps_.size() + 1);
  std::vector<bool> is_gone(steps_.size() + 1, false);
  std::int64_t room = kMaxFoldedPlan;
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    known[i + 1] = folded(steps_[i], known, variables_stay, room, load);
    is_gone[i + 1] = known[i + 1].has_value();
  }
  const auto read_folded = [&](Source& source) {
    const auto& held = known[source.place];
    if (!held || source.output >= held->size()) return;
    folded_.push_back((*held)[source.output]);
    source = {kFolded, folded_.size() - 1};
  };
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    if (is_gone[i + 1]) continue;
    for (Source& source : steps_[i].inputs) read_folded(source);
  }
  for (Source& fetch : fetches_) read_folded(fetch);
  drop(is_gone);
}

void Plan::drop(const std::vector<bool>& is_gone) {
  std::vector<std::size_t> place_of(steps_.size() + 1, 0);
  std::vector<Step> left;
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    if (is_gone[i + 1]) continue;
    left.push_back(std::move(steps_[i]));
    place_of[i + 1] = left.size();
  }
  const auto move = [&](Source& source) {
    if (source.place != kFolded) source.place = place_of[source.place];
  };
  for (Step& step : left) {
    for (Source& source : step.inputs) move(source);
    std::erase_if(step.controls, [&](std::size_t place) { return is_gone[place]; });
    for (std::size_t& place : step.controls) place = place_of[place];
  }
  for (Source& fetch : fetches_) move(fetch);
  steps_ = std::move(left);
  set_releases();
}

void Plan::reorder(const std::vector<std::size_t>& order) {
  std::vector<std::size_t> place_of(steps_.size() + 1, 0);
  std::vector<Step> ordered;
  for (const std::size_t i : order) {
    ordered.push_back(std::move(steps_[i]));
    place_of[i + 1] = ordered.size();
  }
  const auto move = [&](Source& source) {
    if (source.place != kFolded) source.place = place_of[source.place];
  };
  for (Step& step : ordered) {
    std::ranges::for_each(step.inputs, move);
    for (std::size_t& place : step.controls) place = place_of[place];
  }
  std::ranges::for_each(fetches_, move);
  steps_ = std::move(ordered);
  set_releases();
}

std::size_t Plan::outputs_read(std::size_t place) const {
  std::size_t outputs = 0;
  const auto look = [&](const Source& source) {
    if (source.place == place) outputs = std::max(outputs, source.output + 1);
  };
  for (const Step& step : steps_) std::ranges::for_each(step.inputs, look);
  std::ranges::for_each(fetches_, look);
  return outputs;
}

void Plan::set_releases() {
  std::vector<std::size_t> last_use(steps_.size() + 1, 0);
  std::vector<bool> kept(steps_.size() + 1, false);
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    steps_[i].release.clear();
    for (const Source& source : steps_[i].inputs) {
      if (source.place != kFolded) last_use[source.place] = i + 1;
    }
  }
  most_inputs_ = 0;
  for (const Step& step : steps_) most_inputs_ = std::max(most_inputs_, step.inputs.size());
  for (const Source& fetch : fetches_) {
    if (fetch.place != kFolded) kept[fetch.place] = true;
  }
  for (std::size_t place = 0; place < last_use.size(); ++place) {
    if (kept[place]) continue;
    const std::size_t user = last_use[place] != 0 ? last_use[place] : place;
    if (user > 0) steps_[user - 1].release.push_back(place);
  }
}

// A list of nodes with arguments and results: the graph, or a function.
struct Planner::Body {
  const std::vector<graph::NodeDef>& nodes;
  // Tensors, with the number of the argument that each stands for.
  std::vector<std::pair<std::string, std::size_t>> feeds;
  std::vector<std::string> fetches;
  std::vector<std::string> targets;
  std::string name;
};

Planner::Planner(Environment environment) : environment_(std::move(environment)) {
  for (const auto& function : environment_.graph.functions) {
    library_.emplace(function.signature.name, &function);
  }
  const auto& nodes = environment_.graph.nodes;
  if (std::ranges::any_of(nodes, [](const auto& node) { return node.op == "LoopCond"; })) {
    try {
      looped_ = with_while_nodes(nodes);
    } catch (const Error&) {
      loop_failure_ = std::current_exception();
    }
  }
}

Kernel Planner::make_kernel(const graph::NodeDef& node, const Op& op) {
  KernelContext context{.node = node,
                        .device = environment_.device,
                        .resources = environment_.resources,
                        .variables_prefix = environment_.variables_prefix,
                        .assets_dir = environment_.assets_dir,
                        .function = [this](const std::string& name) -> Function {
                          return [plan = function(name)](Slots arguments, Budget& budget) {
                            const Budget::Call call(budget);
                            return plan->run(std::move(arguments), budget);
                          };
                        }};
  return in_node(node.name, node.op, [&] { return op.make(context); });
}

std::shared_ptr<const Plan> Planner::function(const std::string& name) {
  auto& made = functions_[name];
  if (made) return made;
  if (looped_) {
    if (const auto part = looped_->parts.find(name); part != looped_->parts.end()) {
      return functions_[name] = std::make_shared<const Plan>(loop_part(name, part->second));
    }
  }
  const auto found = library_.find(name);
  if (found == library_.end()) throw NotFound("there is no function {} in the graph", name);
  if (!open_.insert(name).second) throw InvalidArgument("the function {} calls itself", name);
  if (open_.size() > kMaxCallDepth) {
    throw ResourceExhausted("functions call each other more than {} deep at {}", kMaxCallDepth,
                            name);
  }
  const graph::FunctionDef& definition = *found->second;
  Body body{.nodes = definition.nodes, .feeds = {}, .fetches = {}, .targets = {}, .name = name};
  for (const auto& argument : definition.signature.inputs) {
    body.feeds.emplace_back(argument.name, body.feeds.size());
  }
  for (const auto& result : definition.signature.outputs) {
    const auto value = definition.ret.find(result.name);
    if (value == definition.ret.end()) {
      throw InvalidArgument("the function {} does not say what its result {} is", name,
                            result.name);
    }
    body.fetches.push_back(value->second);
  }
  for (const auto& [key, node] : definition.control_ret) body.targets.push_back(node);
  Plan plan = compile(body);
  rewrite(plan);
  open_.erase(name);
  return functions_[name] = std::make_shared<const Plan>(std::move(plan));
}

Plan Planner::loop_part(const std::string& name, const LoopPart& part) {
  if (!open_.insert(name).second) throw InvalidArgument("{} is inside of itself", name);
  if (open_.size() > kMaxCallDepth) {
    throw ResourceExhausted("loops are inside of each other more than {} deep at {}", kMaxCallDepth,
                            name);
  }
  Plan plan = compile({looped_->nodes, part.arguments, part.results, {}, name});
  rewrite(plan);
  open_.erase(name);
  return plan;
}

void Planner::rewrite(Plan& plan) {
  plan.fold(/*variables_stay=*/false, environment_.budget);
  plan.merge();
  if (environment_.layers != nullptr) plan.fuse(*environment_.layers, environment_.budget);
  if (!environment_.captures) plan.forget_nodes();
}

Plan Planner::plan(const std::vector<std::string>& feeds, const std::vector<std::string>& fetches,
                   const std::vector<std::string>& targets) {
  // An earlier plan that failed may have left some open.
  open_.clear();
  std::vector<std::pair<std::string, std::size_t>> numbered;
  numbered.reserve(feeds.size());
  for (const auto& feed : feeds) numbered.emplace_back(feed, numbered.size());
  const auto& nodes = looped_ ? looped_->nodes : environment_.graph.nodes;
  return compile({nodes, numbered, fetches, targets, "the graph"});
}

/// The steps of one body: which of its nodes are needed, in an order in which each comes after its
/// inputs, and what each reads.
class Planner::Compilation {
 public:
  Compilation(Planner& planner, const Body& body)
      : planner_(planner),
        body_(body),
        states_(body.nodes.size(), State::kNew),
        place_of_(body.nodes.size(), 0),
        op_of_(body.nodes.size(), nullptr) {
    index_nodes();
    index_arguments();
  }

  Plan run() {
    find_order();
    plan_.device_ = planner_.environment_.device;
    for (const std::size_t node : order_) add_step(node);
    for (const auto& ref : fetched_) plan_.fetches_.push_back(source_of(ref));
    plan_.set_releases();
    return std::move(plan_);
  }

 private:
  enum class State : char { kNew, kOpen, kDone };
  // A node, and which of its inputs is looked at next.
  using Visits = std::vector<std::pair<std::size_t, std::size_t>>;

  void index_nodes() {
    for (std::size_t i = 0; i < body_.nodes.size(); ++i) {
      if (!by_name_.emplace(body_.nodes[i].name, i).second) {
        throw InvalidArgument("{} has two nodes of the name {}", body_.name, body_.nodes[i].name);
      }
    }
  }

  void index_arguments() {
    for (const auto& [feed, number] : body_.feeds) {
      const auto ref = graph::parse_input(feed);
      arguments_.emplace(std::pair(ref.node, ref.index), number);
    }
  }

  const std::size_t* argument_of(const graph::InputRef& ref) const {
    if (ref.control || !ref.output.empty()) return nullptr;
    const auto found = arguments_.find(std::pair(ref.node, ref.index));
    return found == arguments_.end() ? nullptr : &found->second;
  }

  std::size_t node_of(const graph::InputRef& ref, std::string_view user) const {
    const auto found = by_name_.find(ref.node);
    if (found == by_name_.end()) {
      throw InvalidArgument("{} needs {}, but there is no such node in {}", user, ref.node,
                            body_.name);
    }
    return found->second;
  }

  void find_order() {
    for (const auto& fetch : body_.fetches) {
      fetched_.push_back(graph::parse_input(fetch));
      if (!argument_of(fetched_.back())) visit(node_of(fetched_.back(), "an output"));
    }
    for (const auto& target : body_.targets) {
      visit(node_of(graph::parse_input(target), "a target"));
    }
  }

  // Depth first without recursion, so that a long graph needs no long stack.
  void visit(std::size_t root) {
    Visits visits;
    enter(root, visits);
    while (!visits.empty()) {
      const auto [node, next] = visits.back();
      const auto& inputs = body_.nodes[node].inputs;
      if (next == inputs.size()) {
        states_[node] = State::kDone;
        order_.push_back(node);
        visits.pop_back();
        continue;
      }
      ++visits.back().second;
      const auto ref = graph::parse_input(inputs[next]);
      if (argument_of(ref)) continue;
      // A control edge from an argument orders nothing.
      if (ref.control && arguments_.contains({ref.node, 0})) continue;
      enter(node_of(ref, where_is(body_.nodes[node])), visits);
    }
  }

  void enter(std::size_t node, Visits& visits) {
    if (states_[node] == State::kDone) return;
    if (states_[node] == State::kOpen) {
      throw InvalidArgument("{} depends on itself: a cycle in {}", where_is(body_.nodes[node]),
                            body_.name);
    }
    if (planner_.loop_failure_ && body_.nodes[node].op.ends_with("Exit")) {
      std::rethrow_exception(planner_.loop_failure_);
    }
    states_[node] = State::kOpen;
    visits.emplace_back(node, 0);
  }

  void add_step(std::size_t number) {
    const graph::NodeDef& node = body_.nodes[number];
    const Op& op = op_named(node);
    Plan::Step step{
        .name = node.name,
        .op = node.op,
        .kernel = {},
        .inputs = {},
        .node = keeps_node(node) ? std::make_shared<const graph::NodeDef>(node) : nullptr,
        .controls = {},
        .release = {}};
    for (const auto& input : node.inputs) {
      const auto ref = graph::parse_input(input);
      if (!ref.control) {
        step.inputs.push_back(source_of(ref));
      } else if (const auto before = by_name_.find(ref.node); before != by_name_.end()) {
        step.controls.push_back(place_of_[before->second]);
      }
    }
    plan_.has_dead_ = plan_.has_dead_ || may_kill(node.op);
    step.kernel = planner_.make_kernel(node, op);
    op_of_[number] = &op;
    plan_.steps_.push_back(std::move(step));
    place_of_[number] = plan_.steps_.size();
  }

  const Op& op_named(const graph::NodeDef& node) const {
    const Op* op = planner_.environment_.ops.find(node.op);
    if (op != nullptr) return *op;
    throw Unimplemented(
        "{}: the operation {} is not supported; docs/formats/supported_operations.md lists those "
        "that are",
        where_is(node), node.op);
  }

  bool keeps_node(const graph::NodeDef& node) const {
    return may_be_fused(node.op) || may_be_merged(node.op) || may_be_in_arena(node.op) ||
           planner_.environment_.captures;
  }

  Plan::Source source_of(const graph::InputRef& ref) const {
    if (const auto* argument = argument_of(ref)) return {0, *argument};
    const auto node = by_name_.at(ref.node);
    return {place_of_[node], flat_output(body_.nodes[node], *op_of_[node], ref)};
  }

  Planner& planner_;
  const Body& body_;
  std::unordered_map<std::string_view, std::size_t> by_name_{};
  // Arguments by what inputs call them: "x" is the same as "x:0".
  std::map<std::pair<std::string_view, int>, std::size_t> arguments_{};
  std::vector<State> states_;
  std::vector<graph::InputRef> fetched_{};
  // The nodes that are needed.
  std::vector<std::size_t> order_{};
  // By node: its place in the plan, and its operation.
  std::vector<std::size_t> place_of_;
  std::vector<const Op*> op_of_;
  Plan plan_{};
};

Plan Planner::compile(const Body& body) { return Compilation(*this, body).run(); }

}  // namespace muster::executor
