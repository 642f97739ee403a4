#include <algorithm>
#include <optional>
#include <string_view>
#include <unordered_map>

#include "muster/base/error.h"
#include "muster/saved_model/executor/while_loops_internal.h"

namespace muster::executor {
namespace {

using graph::NodeDef;

bool is_enter(const NodeDef& node) { return node.op == "Enter" || node.op == "RefEnter"; }
bool is_exit(const NodeDef& node) { return node.op == "Exit" || node.op == "RefExit"; }
bool is_next(const NodeDef& node) {
  return node.op == "NextIteration" || node.op == "RefNextIteration";
}
bool is_merge(const NodeDef& node) { return node.op == "Merge" || node.op == "RefMerge"; }
bool is_switch(const NodeDef& node) { return node.op == "Switch" || node.op == "RefSwitch"; }

// One variable of a loop: what it begins with, what it is, what it becomes, who decides.
struct LoopVariable {
  const NodeDef* enter = nullptr;
  const NodeDef* merge = nullptr;
  const NodeDef* next = nullptr;
  std::vector<const NodeDef*> switches{};
};

struct LoopFrame {
  std::vector<LoopVariable> variables;
  // Values that come in and stay as they are.
  std::vector<const NodeDef*> constants;
  const NodeDef* condition = nullptr;
};

class LoopFinder {
 public:
  explicit LoopFinder(const std::vector<NodeDef>& nodes) : nodes_(nodes) {
    for (const auto& node : nodes) by_name_.emplace(node.name, &node);
  }

  LoopedGraph rewrite() {
    find_variables();
    find_conditions();
    find_constants();
    LoopedGraph out{.nodes = nodes_, .parts = {}};
    for (const auto& [name, frame] : frames_) add_while(name, frame, out);
    for (auto& node : out.nodes) {
      if (is_exit(node)) node.inputs = exit_inputs(node);
    }
    return out;
  }

 private:
  // The node that gives an input, if it gives a value and is there.
  const NodeDef* source(const NodeDef& node, std::size_t input) const {
    if (input >= node.inputs.size()) return nullptr;
    const auto ref = graph::parse_input(node.inputs[input]);
    if (ref.control) return nullptr;
    const auto found = by_name_.find(ref.node);
    return found == by_name_.end() ? nullptr : found->second;
  }

  static std::string frame_name(const NodeDef& enter) {
    return graph::attr<std::string>(enter, "frame_name");
  }

  void find_variables() {
    for (const auto& node : nodes_) {
      if (!is_merge(node)) continue;
      LoopVariable variable{.merge = &node};
      for (std::size_t i = 0; i < node.inputs.size(); ++i) {
        const NodeDef* from = source(node, i);
        if (from != nullptr && is_enter(*from)) variable.enter = from;
        if (from != nullptr && is_next(*from)) variable.next = from;
      }
      if (variable.enter == nullptr) continue;
      const auto name = frame_name(*variable.enter);
      if (variable.next == nullptr) {
        throw InvalidArgument("the loop {} is not whole: node {} has no NextIteration", name,
                              node.name);
      }
      auto& variables = frames_[name].variables;
      place_of_merge_.emplace(&node, std::pair(name, variables.size()));
      variables.push_back(variable);
    }
  }

  void find_conditions() {
    for (const auto& node : nodes_) {
      if (!is_switch(node)) continue;
      const NodeDef* merge = source(node, 0);
      const NodeDef* condition = source(node, 1);
      const auto place = place_of_merge_.find(merge);
      if (place == place_of_merge_.end() || condition == nullptr || condition->op != "LoopCond") {
        continue;
      }
      const auto& [name, index] = place->second;
      LoopFrame& frame = frames_[name];
      if (frame.condition != nullptr && frame.condition != condition) {
        throw Unimplemented("two loops of the name {}", name);
      }
      frame.condition = condition;
      frame.variables[index].switches.push_back(&node);
      place_of_switch_.emplace(&node, place->second);
    }
    for (const auto& [name, frame] : frames_) {
      if (frame.condition == nullptr) {
        throw InvalidArgument("the loop {} is not whole: it has no LoopCond", name);
      }
    }
  }

  void find_constants() {
    for (const auto& node : nodes_) {
      if (!is_enter(node)) continue;
      const auto frame = frames_.find(frame_name(node));
      if (frame == frames_.end()) continue;
      const auto& variables = frame->second.variables;
      const auto same = [&](const LoopVariable& one) { return one.enter == &node; };
      if (std::ranges::none_of(variables, same)) frame->second.constants.push_back(&node);
    }
  }

  static std::string first_input(const NodeDef& node) {
    if (node.inputs.empty()) throw InvalidArgument("node {} ({}) has no input", node.name, node.op);
    return node.inputs[0];
  }

  static std::string while_name(const std::string& frame) { return frame + "/(While)"; }

  static void add_while(const std::string& name, const LoopFrame& frame, LoopedGraph& out) {
    NodeDef loop{.name = while_name(name), .op = "While", .inputs = {}, .attrs = {}};
    std::vector<std::string> controls;
    LoopPart condition;
    LoopPart body;
    const auto enter = [&](const NodeDef& node) {
      loop.inputs.push_back(first_input(node));
      for (const auto& input : node.inputs) {
        if (input.starts_with('^')) controls.push_back(input);
      }
    };
    for (std::size_t i = 0; i < frame.variables.size(); ++i) {
      const LoopVariable& variable = frame.variables[i];
      enter(*variable.enter);
      condition.arguments.emplace_back(variable.merge->name, i);
      body.arguments.emplace_back(variable.merge->name, i);
      for (const auto* way : variable.switches) body.arguments.emplace_back(way->name + ":1", i);
      body.results.push_back(first_input(*variable.next));
    }
    for (std::size_t i = 0; i < frame.constants.size(); ++i) {
      const NodeDef& constant = *frame.constants[i];
      enter(constant);
      const auto number = frame.variables.size() + i;
      condition.arguments.emplace_back(constant.name, number);
      body.arguments.emplace_back(constant.name, number);
      body.results.push_back(constant.name);
    }
    condition.results.push_back(first_input(*frame.condition));
    // All values before what only has to be done before.
    loop.inputs.insert(loop.inputs.end(), controls.begin(), controls.end());
    loop.attrs = {{"cond", graph::FunctionRef{name + " (condition)"}},
                  {"body", graph::FunctionRef{name + " (body)"}}};
    out.parts.emplace(name + " (condition)", std::move(condition));
    out.parts.emplace(name + " (body)", std::move(body));
    out.nodes.push_back(std::move(loop));
  }

  // The variable that an Exit gives, as an output of the While.
  std::vector<std::string> exit_inputs(const NodeDef& node) const {
    const auto place = place_of_switch_.find(source(node, 0));
    if (place == place_of_switch_.end()) {
      throw InvalidArgument("node {} ({}) leaves no loop", node.name, node.op);
    }
    const auto& [frame, index] = place->second;
    return {while_name(frame) + ":" + std::to_string(index)};
  }

  const std::vector<NodeDef>& nodes_;
  std::unordered_map<std::string_view, const NodeDef*> by_name_;
  std::map<std::string, LoopFrame> frames_;
  std::unordered_map<const NodeDef*, std::pair<std::string, std::size_t>> place_of_merge_;
  std::unordered_map<const NodeDef*, std::pair<std::string, std::size_t>> place_of_switch_;
};

}  // namespace

LoopedGraph with_while_nodes(const std::vector<NodeDef>& nodes) {
  return LoopFinder(nodes).rewrite();
}

}  // namespace muster::executor
