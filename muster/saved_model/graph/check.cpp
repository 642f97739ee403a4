#include "muster/saved_model/graph/check.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <queue>
#include <set>
#include <string>
#include <unordered_map>

#include "muster/base/error.h"

namespace muster::graph {
namespace {

using Places = std::unordered_map<std::string_view, std::size_t>;
constexpr std::size_t kArgument = static_cast<std::size_t>(-1);

constexpr std::string_view kLoopOps[] = {
    "Enter", "RefEnter", "Exit", "RefExit", "NextIteration", "LoopCond", "RefNextIteration"};

bool is_name_letter(char c) {
  const bool word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  return word || std::string_view("_./\\->").find(c) != std::string_view::npos;
}

void check_name(const NodeDef& node) {
  if (node.name.empty()) throw InvalidArgument("a node of operation '{}' has no name", node.op);
  if (!std::all_of(node.name.begin(), node.name.end(), is_name_letter)) {
    throw InvalidArgument(
        "node '{}' ({}): a name has letters, digits and any of _ . / \\ - > and nothing else",
        node.name, node.op);
  }
  if (node.op.empty()) throw InvalidArgument("node '{}' has no operation", node.name);
  if (std::find(std::begin(kLoopOps), std::end(kLoopOps), node.op) != std::end(kLoopOps)) {
    throw Unimplemented(
        "node '{}' ({}): loops in TensorFlow 1's form are not supported; write them as functions "
        "(While, or unrolled)",
        node.name, node.op);
  }
}

Places places_of(const std::vector<NodeDef>& nodes,
                 const std::vector<std::string_view>& arguments) {
  Places places;
  places.reserve(nodes.size() + arguments.size());
  for (const std::string_view argument : arguments) {
    if (!places.emplace(argument, kArgument).second) {
      throw InvalidArgument("two arguments have the name '{}'", argument);
    }
  }
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    check_name(nodes[i]);
    if (!places.emplace(nodes[i].name, i).second) {
      throw InvalidArgument("two nodes have the name '{}'", nodes[i].name);
    }
  }
  return places;
}

std::size_t place_of(const Places& places, const NodeDef& node, const InputRef& ref,
                     std::string_view input) {
  const auto found = places.find(ref.node);
  if (found == places.end()) {
    throw InvalidArgument("node '{}' ({}): there is no node for its input '{}'", node.name, node.op,
                          input);
  }
  return found->second;
}

// Kahn's algorithm; what never becomes ready is on a cycle or behind one.
struct Edges {
  std::vector<std::vector<std::size_t>> consumers;
  std::vector<std::size_t> waiting;
};

Edges edges_of(const std::vector<NodeDef>& nodes, const Places& places) {
  Edges edges{std::vector<std::vector<std::size_t>>(nodes.size()),
              std::vector<std::size_t>(nodes.size())};
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    bool control_seen = false;
    for (const std::string& input : nodes[i].inputs) {
      const InputRef ref = parse_input(input);
      if (control_seen && !ref.control) {
        throw InvalidArgument("node '{}' ({}): input '{}' comes after a control input",
                              nodes[i].name, nodes[i].op, input);
      }
      control_seen = ref.control;
      const std::size_t from = place_of(places, nodes[i], ref, input);
      if (from == kArgument) continue;
      edges.consumers[from].push_back(i);
      ++edges.waiting[i];
    }
  }
  return edges;
}

// A node that waits for itself, through others: found by going backwards among those that wait.
[[noreturn]] void throw_cycle(const std::vector<NodeDef>& nodes, const Places& places,
                              const std::vector<std::size_t>& waiting) {
  const auto first = std::find_if(waiting.begin(), waiting.end(), [](auto n) { return n > 0; });
  auto at = static_cast<std::size_t>(first - waiting.begin());
  std::vector<std::size_t> path;
  std::vector<bool> seen(nodes.size(), false);
  while (!seen[at]) {
    seen[at] = true;
    path.push_back(at);
    for (const std::string& input : nodes[at].inputs) {
      const std::size_t from = places.at(parse_input(input).node);
      if (from == kArgument || waiting[from] == 0) continue;
      at = from;
      break;
    }
  }
  path.erase(path.begin(), std::find(path.begin(), path.end(), at));
  constexpr std::size_t kShown = 8;
  std::vector<std::string_view> names;
  for (const std::size_t place : path) {
    if (names.size() < kShown) names.push_back(nodes[place].name);
  }
  std::reverse(names.begin(), names.end());
  throw InvalidArgument("a cycle of {} nodes: {}{}", path.size(), fmt::join(names, " -> "),
                        path.size() > kShown ? " ..." : "");
}

// The functions that a node calls: by its operation's name or in its attributes.
void add_calls(const Attrs& attrs, std::vector<std::string_view>& calls) {
  const auto add = [&](const FunctionRef& function) {
    if (!function.name.empty()) calls.push_back(function.name);
    add_calls(function.attrs, calls);
  };
  for (const auto& row : attrs) {
    if (const auto* function = std::get_if<FunctionRef>(&row.second.value)) add(*function);
    if (const auto* list = std::get_if<AttrList>(&row.second.value)) {
      for (const FunctionRef& function : list->functions) add(function);
    }
  }
}

Places function_places(const GraphDef& graph) {
  Places places;
  for (std::size_t i = 0; i < graph.functions.size(); ++i) {
    const std::string& name = graph.functions[i].signature.name;
    if (!places.emplace(name, i).second)
      throw InvalidArgument("two functions have the name '{}'", name);
  }
  return places;
}

std::vector<std::size_t> called_by(const std::vector<NodeDef>& nodes, const Places& functions) {
  std::vector<std::size_t> called;
  for (const NodeDef& node : nodes) {
    std::vector<std::string_view> calls;
    add_calls(node.attrs, calls);
    for (const std::string_view name : calls) {
      const auto found = functions.find(name);
      if (found == functions.end()) {
        throw InvalidArgument("node '{}' ({}): there is no function '{}'", node.name, node.op,
                              name);
      }
      called.push_back(found->second);
    }
    const auto as_op = functions.find(node.op);
    if (as_op != functions.end()) called.push_back(as_op->second);
  }
  return called;
}

// Functions whose callers are all placed are placed next, as nodes are.
void check_no_recursion(const GraphDef& graph, const Places& places) {
  std::vector<std::vector<std::size_t>> called;
  std::vector<std::size_t> callers(graph.functions.size());
  for (const FunctionDef& function : graph.functions) {
    called.push_back(called_by(function.nodes, places));
    for (const std::size_t callee : called.back()) ++callers[callee];
  }
  std::vector<std::size_t> ready;
  for (std::size_t i = 0; i < callers.size(); ++i) {
    if (callers[i] == 0) ready.push_back(i);
  }
  std::size_t done = 0;
  for (; done < ready.size(); ++done) {
    for (const std::size_t callee : called[ready[done]]) {
      if (--callers[callee] == 0) ready.push_back(callee);
    }
  }
  if (done == callers.size()) return;
  const auto left = std::find_if(callers.begin(), callers.end(), [](auto n) { return n > 0; });
  throw InvalidArgument(
      "function '{}' calls itself, or is called by one that does",
      graph.functions[static_cast<std::size_t>(left - callers.begin())].signature.name);
}

void check_result(const FunctionDef& function, const std::set<std::string_view>& names,
                  std::string_view result, std::string_view value) {
  if (!names.contains(parse_input(value).node)) {
    throw InvalidArgument("function '{}': there is no node for its result '{}', '{}'",
                          function.signature.name, result, value);
  }
}

void check_results(const FunctionDef& function) {
  std::set<std::string_view> names;
  for (const ArgDef& argument : function.signature.inputs) names.insert(argument.name);
  for (const NodeDef& node : function.nodes) names.insert(node.name);
  for (const ArgDef& output : function.signature.outputs) {
    if (!function.ret.contains(output.name)) {
      throw InvalidArgument("function '{}': nothing becomes its result '{}'",
                            function.signature.name, output.name);
    }
  }
  for (const auto& [result, value] : function.ret) check_result(function, names, result, value);
  for (const auto& [result, value] : function.control_ret)
    check_result(function, names, result, value);
}

// Data inputs of a function's nodes name an argument, or a node with one of its outputs.
void check_body_inputs(const FunctionDef& function) {
  std::set<std::string_view> arguments;
  for (const ArgDef& argument : function.signature.inputs) arguments.insert(argument.name);
  for (const NodeDef& node : function.nodes) {
    for (const std::string& input : node.inputs) {
      const InputRef ref = parse_input(input);
      if (ref.control || arguments.contains(ref.node) == ref.output.empty()) continue;
      throw InvalidArgument(
          "node '{}' ({}): inside a function the input '{}' must be an argument, or name an output "
          "of a node",
          node.name, node.op, input);
    }
  }
}

void check_function(const FunctionDef& function) {
  try {
    std::vector<std::string_view> arguments;
    for (const ArgDef& argument : function.signature.inputs) arguments.push_back(argument.name);
    topological_order(function.nodes, arguments);
    check_body_inputs(function);
  } catch (Error& error) {
    error.add_context(fmt::format("function '{}'", function.signature.name));
    throw;
  }
  check_results(function);
}

}  // namespace

std::vector<std::size_t> topological_order(const std::vector<NodeDef>& nodes,
                                           const std::vector<std::string_view>& arguments) {
  const Places places = places_of(nodes, arguments);
  Edges edges = edges_of(nodes, places);
  // The first in the graph among the nodes that are ready comes next.
  std::priority_queue<std::size_t, std::vector<std::size_t>, std::greater<>> ready;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (edges.waiting[i] == 0) ready.push(i);
  }
  std::vector<std::size_t> order;
  order.reserve(nodes.size());
  while (!ready.empty()) {
    const std::size_t next = ready.top();
    ready.pop();
    order.push_back(next);
    for (const std::size_t consumer : edges.consumers[next]) {
      if (--edges.waiting[consumer] == 0) ready.push(consumer);
    }
  }
  if (order.size() != nodes.size()) throw_cycle(nodes, places, edges.waiting);
  return order;
}

void check_graph(const GraphDef& graph) {
  topological_order(graph.nodes);
  for (const NodeDef& node : graph.nodes) {
    for (const std::string& input : node.inputs) {
      if (parse_input(input).output.empty()) continue;
      throw InvalidArgument(
          "node '{}' ({}): the input '{}' names an output by name, which only nodes "
          "of functions may",
          node.name, node.op, input);
    }
  }
  const Places functions = function_places(graph);
  called_by(graph.nodes, functions);
  for (const FunctionDef& function : graph.functions) check_function(function);
  check_no_recursion(graph, functions);
}

}  // namespace muster::graph
