#include "muster/export/graph_tables_internal.h"

#include <algorithm>
#include <charconv>
#include <numeric>

#include "muster/base/error.h"

namespace muster::exporting {

using graph::DataType;
using graph::TensorValue;

std::string GraphTables::table_of(const internal::VocabularyColumn& column, GraphBuilder& builder) {
  for (const auto& [held, node] : tables_) {
    if (held == &column) return node;
  }
  const bool words = column.type() == CategoryType::kString;
  const auto key_type = words ? DataType::kString : DataType::kInt64;
  const auto value_type = DataType::kInt64;
  const auto table = builder.add("hash_table", "HashTableV2", {},
                                 {{"container", ""},
                                  {"shared_name", ""},
                                  {"use_node_name_sharing", true},
                                  {"key_dtype", key_type},
                                  {"value_dtype", value_type}});
  if (!column.file().empty()) {
    initializers_.push_back(builder.add("table_init", "InitializeTableFromTextFileV2",
                                        {table, asset_of(column, builder)},
                                        {{"key_index", -2},
                                         {"value_index", -1},
                                         {"vocab_size", column.vocabulary().size()},
                                         {"delimiter", "\t"}}));
  } else {
    const auto held = column.vocabulary().words();
    const auto size = column.vocabulary().size();
    std::vector<std::int64_t> ids(held.size());
    std::iota(ids.begin(), ids.end(), std::int64_t{0});
    TensorValue keys;
    if (words) {
      keys = TensorValue::of_strings({size}, std::vector<std::string>(held.begin(), held.end()));
    } else {
      std::vector<std::int64_t> numbers(held.size());
      for (std::size_t i = 0; i < held.size(); ++i) {
        std::from_chars(held[i].data(), held[i].data() + held[i].size(), numbers[i]);
      }
      keys = TensorValue::vector(numbers);
    }
    initializers_.push_back(
        builder.add("table_init", "InitializeTableV2",
                    {table, builder.constant(keys), builder.constant(TensorValue::vector(ids))},
                    {{"Tkey", key_type}, {"Tval", value_type}}));
  }
  tables_.emplace_back(&column, table);
  return table;
}

std::string GraphTables::asset_of(const internal::VocabularyColumn& column, GraphBuilder& builder) {
  // The words as they are looked up: the first lines, whatever ended them.
  std::string content;
  for (const auto word : column.vocabulary().words()) content.append(word).append("\n");
  const std::string wanted = column.file().filename().string();
  std::string name = wanted;
  for (int number = 1;; ++number) {
    const auto found =
        std::ranges::find_if(assets_, [&](const auto& a) { return a.first == name; });
    if (found == assets_.end()) break;
    if (found->second == content) {
      return asset_nodes_[static_cast<std::size_t>(found - assets_.begin())];
    }
    name = fmt::format("{}_{}", wanted, number);
  }
  // A node of its own, also where two files have the same name: each is fed with its own path.
  const auto value = TensorValue::string_scalar(name);
  const auto node =
      builder.add("asset_path", "Const", {}, {{"dtype", value.dtype}, {"value", value}});
  assets_.emplace_back(name, std::move(content));
  asset_nodes_.push_back(node);
  return node;
}

void GraphTables::finish(GraphBuilder& builder, graph::MetaGraph& meta) {
  if (initializers_.empty()) return;
  builder.enter("");
  std::vector<std::string> before;
  for (const auto& name : initializers_) before.push_back("^" + name);
  const auto all = builder.add("init_all_tables", "NoOp", std::move(before), {});
  meta.collections["table_initializer"].value = graph::Collection::Nodes{{all}};
  meta.collections["saved_model_main_op"].value = graph::Collection::Nodes{{all}};
  for (std::size_t i = 0; i < assets_.size(); ++i) {
    meta.assets.push_back(
        {.tensor = {.name = asset_nodes_[i] + ":0"}, .filename = assets_[i].first});
  }
}

}  // namespace muster::exporting
