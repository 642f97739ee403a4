#include "muster/saved_model/graph/known_words.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "muster/saved_model/graph/lookup_tables_internal.h"

namespace muster::graph {
namespace {

/// Finds the inputs of a signature that a tensor is computed from.
class WordSources {
 public:
  WordSources(const MetaGraph& meta, const SignatureDef& signature) {
    for (const NodeDef& node : meta.graph.nodes) nodes_.emplace(node.name, &node);
    for (const auto& [name, info] : signature.inputs) {
      if (!info.name.empty()) inputs_.emplace(parse_input(info.name).node, name);
    }
  }

  std::set<std::string> inputs_of(std::string_view node) const {
    std::set<std::string> found;
    std::set<std::string_view> seen;
    std::vector<std::string_view> waiting{node};
    while (!waiting.empty()) {
      const std::string_view name = waiting.back();
      waiting.pop_back();
      if (!seen.insert(name).second) continue;
      if (const auto input = inputs_.find(name); input != inputs_.end()) {
        found.insert(input->second);
        continue;
      }
      const auto at = nodes_.find(name);
      if (at == nodes_.end() || is_parser(at->second->op)) continue;
      for (const std::string& input : at->second->inputs) {
        const InputRef ref = parse_input(input);
        if (!ref.control) waiting.push_back(ref.node);
      }
    }
    return found;
  }

 private:
  // The words of a field are not those of the whole row.
  static bool is_parser(std::string_view op) {
    return op == "DecodeCSV" || op.starts_with("ParseExample") ||
           op.starts_with("ParseSingleExample") || op.starts_with("DecodeJSON");
  }

  std::unordered_map<std::string_view, const NodeDef*> nodes_;
  std::unordered_map<std::string_view, std::string> inputs_;
};

}  // namespace

std::map<std::string, std::vector<std::string>> known_words(const MetaGraph& meta,
                                                            const SignatureDef& signature,
                                                            const Path& assets_dir,
                                                            std::size_t most) {
  const WordSources sources(meta, signature);
  const auto tables = lookup_tables(meta, assets_dir);
  std::map<std::string, std::vector<std::string>> words;
  for (const NodeDef& node : meta.graph.nodes) {
    if (node.op != "LookupTableFindV2" || node.inputs.size() < 2) continue;
    const auto table = tables.find(parse_input(node.inputs[0]).node);
    if (table == tables.end()) continue;
    const std::set<std::string> inputs = sources.inputs_of(parse_input(node.inputs[1]).node);
    // A word of several inputs together is none of either.
    if (inputs.size() != 1) continue;
    std::vector<std::string>& own = words[*inputs.begin()];
    for (const std::string& word : table->second.keys.strings) {
      if (own.size() >= most) break;
      if (std::ranges::find(own, word) == own.end()) own.push_back(word);
    }
  }
  std::erase_if(words, [](const auto& entry) { return entry.second.empty(); });
  return words;
}

}  // namespace muster::graph
