#include "muster/cli/used_ops.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <map>
#include <string_view>
#include <utility>
#include <variant>

namespace muster::cli {
namespace {

using graph::FunctionDef;
using graph::NodeDef;

/// Walks a graph and, once each, the functions that its nodes name: by their operation, as
/// TensorFlow 1 calls them, or by an attribute, as calls, loops and branches do.
class OpCollector {
 public:
  explicit OpCollector(const graph::GraphDef& graph) {
    for (const FunctionDef& function : graph.functions) {
      functions_.emplace(function.signature.name, &function);
    }
    add(graph.nodes);
    while (!to_visit_.empty()) {
      const FunctionDef* const function = to_visit_.back();
      to_visit_.pop_back();
      add(function->nodes);
    }
  }

  std::set<std::string> ops{};

 private:
  void add(const std::vector<NodeDef>& nodes) {
    for (const NodeDef& node : nodes) {
      if (!visit(node.op)) ops.insert(node.op);
      for (const auto& [name, attr] : node.attrs) {
        if (const auto* call = std::get_if<graph::FunctionRef>(&attr.value)) visit(call->name);
      }
    }
  }

  // Whether there is such a function.
  bool visit(std::string_view name) {
    const auto found = functions_.find(name);
    if (found == functions_.end()) return false;
    if (found->second != nullptr) to_visit_.push_back(std::exchange(found->second, nullptr));
    return true;
  }

  /// Null once it is visited.
  std::map<std::string_view, const FunctionDef*, std::less<>> functions_{};
  std::vector<const FunctionDef*> to_visit_{};
};

template <typename Words>
std::string quoted(const Words& words) {
  std::vector<std::string> all;
  for (const std::string& word : words) all.push_back("'" + word + "'");
  return fmt::format("{}", fmt::join(all, ", "));
}

}  // namespace

std::set<std::string> used_ops(const graph::GraphDef& graph) { return OpCollector(graph).ops; }

std::string python_set(const std::set<std::string>& words) {
  return words.empty() ? "set()" : "{" + quoted(words) + "}";
}

std::string python_list(const std::vector<std::string>& words) { return "[" + quoted(words) + "]"; }

}  // namespace muster::cli
