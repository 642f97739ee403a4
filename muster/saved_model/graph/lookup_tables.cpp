#include <algorithm>
#include <numeric>
#include <optional>
#include <unordered_map>

#include "muster/base/error.h"
#include "muster/base/file_inside.h"
#include "muster/saved_model/graph/lookup_tables_internal.h"

namespace muster::graph {
namespace {

/// Looks for the constants that fill tables.
class TableReader {
 public:
  TableReader(const MetaGraph& meta, const Path& assets_dir)
      : meta_(meta), assets_dir_(assets_dir) {
    for (const NodeDef& node : meta.graph.nodes) nodes_.emplace(node.name, &node);
  }

  std::optional<LookupTable> from_constants(const NodeDef& init) const {
    const TensorValue* keys = constant(init, 1);
    const TensorValue* values = constant(init, 2);
    if (keys == nullptr || values == nullptr) return std::nullopt;
    return LookupTable{.keys = *keys, .values = *values};
  }

  // A word a line, each with the number of its line.
  std::optional<LookupTable> from_file(const NodeDef& init) const {
    const bool lines = attr_or<std::int64_t>(init, "key_index", 0) == -2 &&
                       attr_or<std::int64_t>(init, "value_index", 0) == -1;
    if (!lines || assets_dir_.empty() || init.inputs.size() < 2) return std::nullopt;
    const std::string_view node = parse_input(init.inputs[1]).node;
    for (const AssetFile& asset : asset_files(meta_)) {
      if (parse_input(asset.tensor.name).node != node) continue;
      return of_lines(read_file_inside(assets_dir_, asset.filename),
                      attr_or<std::int64_t>(init, "vocab_size", -1));
    }
    return std::nullopt;
  }

  const NodeDef* table(const NodeDef& init) const {
    const auto found =
        init.inputs.empty() ? nodes_.end() : nodes_.find(parse_input(init.inputs[0]).node);
    return found == nodes_.end() ? nullptr : found->second;
  }

 private:
  const TensorValue* constant(const NodeDef& node, std::size_t input) const {
    if (input >= node.inputs.size()) return nullptr;
    const auto found = nodes_.find(parse_input(node.inputs[input]).node);
    if (found == nodes_.end() || found->second->op != "Const") return nullptr;
    return &attr<TensorValue>(*found->second, "value");
  }

  static LookupTable of_lines(std::string_view text, std::int64_t most) {
    std::vector<std::string> words;
    while (!text.empty() && (most < 0 || static_cast<std::int64_t>(words.size()) < most)) {
      const std::size_t end = std::min(text.find('\n'), text.size());
      words.emplace_back(text.substr(0, end));
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    std::vector<std::int64_t> numbers(words.size());
    std::iota(numbers.begin(), numbers.end(), std::int64_t{0});
    const auto count = static_cast<std::int64_t>(words.size());
    return {.keys = TensorValue::of_strings({count}, std::move(words)),
            .values = TensorValue::vector(numbers)};
  }

  const MetaGraph& meta_;
  const Path& assets_dir_;
  std::unordered_map<std::string_view, const NodeDef*> nodes_;
};

}  // namespace

std::map<std::string, LookupTable, std::less<>> lookup_tables(const MetaGraph& meta,
                                                              const Path& assets_dir) {
  const TableReader reader(meta, assets_dir);
  std::map<std::string, LookupTable, std::less<>> tables;
  for (const NodeDef& node : meta.graph.nodes) {
    std::optional<LookupTable> found;
    if (node.op == "InitializeTableV2") found = reader.from_constants(node);
    if (node.op == "InitializeTableFromTextFileV2") found = reader.from_file(node);
    const NodeDef* table = found ? reader.table(node) : nullptr;
    if (table == nullptr) continue;
    // Numbers in a file are not read.
    const bool fits = attr_or(*table, "key_dtype", DataType::kInvalid) == found->keys.dtype &&
                      attr_or(*table, "value_dtype", DataType::kInvalid) == found->values.dtype &&
                      found->values.dtype == DataType::kInt64;
    if (fits) tables.emplace(table->name, std::move(*found));
  }
  return tables;
}

namespace {

// Where in the table each word is, and what stands there; the default where it is nowhere.
void add_comparison(const NodeDef& find, const LookupTable& table, std::vector<NodeDef>& nodes) {
  const auto at = [&](const char* name) { return find.name + "/" + name; };
  const auto add = [&](std::string name, std::string op, std::vector<std::string> inputs,
                       Attrs attrs) {
    nodes.push_back({.name = std::move(name),
                     .op = std::move(op),
                     .inputs = std::move(inputs),
                     .attrs = std::move(attrs)});
  };
  const DataType key = table.keys.dtype;
  nodes.push_back(constant_node(at("words"), table.keys));
  nodes.push_back(constant_node(at("values"), table.values));
  nodes.push_back(constant_node(at("last"), TensorValue::scalar(std::int32_t{-1})));
  nodes.push_back(constant_node(at("first"), TensorValue::scalar(std::int32_t{0})));
  add(at("each"), "ExpandDims", {find.inputs.at(1), at("last")},
      {{"T", key}, {"Tdim", DataType::kInt32}});
  add(at("same"), "Equal", {at("each"), at("words")}, {{"T", key}});
  add(at("found"), "Any", {at("same"), at("last")},
      {{"Tidx", DataType::kInt32}, {"keep_dims", false}});
  add(at("numbers"), "Cast", {at("same")},
      {{"SrcT", DataType::kBool}, {"DstT", DataType::kInt32}, {"Truncate", false}});
  add(at("place"), "ArgMax", {at("numbers"), at("last")},
      {{"T", DataType::kInt32}, {"Tidx", DataType::kInt32}, {"output_type", DataType::kInt64}});
  add(at("value"), "GatherV2", {at("values"), at("place"), at("first")},
      {{"Tparams", table.values.dtype},
       {"Tindices", DataType::kInt64},
       {"Taxis", DataType::kInt32},
       {"batch_dims", 0}});
  add(find.name, "SelectV2", {at("found"), at("value"), find.inputs.at(2)},
      {{"T", table.values.dtype}});
}

}  // namespace

void compare_words(GraphDef& graph, const std::map<std::string, LookupTable, std::less<>>& tables) {
  std::vector<NodeDef> nodes;
  for (NodeDef& node : graph.nodes) {
    if (node.op == "HashTableV2" && tables.contains(node.name)) continue;
    const auto table = node.op == "LookupTableFindV2"
                           ? tables.find(parse_input(node.inputs.at(0)).node)
                           : tables.end();
    if (table == tables.end()) {
      nodes.push_back(std::move(node));
    } else {
      add_comparison(node, table->second, nodes);
    }
  }
  graph.nodes = std::move(nodes);
}

}  // namespace muster::graph
