#include "muster/saved_model/graph/known_words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/testing/temp_dir.h"

namespace muster::graph {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

NodeDef words_node(std::string name, std::string op, std::vector<std::string> inputs) {
  return {.name = std::move(name), .op = std::move(op), .inputs = std::move(inputs)};
}

NodeDef table_node(std::string name) {
  NodeDef node = words_node(std::move(name), "HashTableV2", {});
  node.attrs = {{"key_dtype", DataType::kString}, {"value_dtype", DataType::kInt64}};
  return node;
}

void add_table(GraphDef& graph, const std::string& name, std::vector<std::string> words) {
  const auto count = static_cast<std::int64_t>(words.size());
  graph.nodes.push_back(table_node(name));
  graph.nodes.push_back(
      constant_node(name + "_keys", TensorValue::of_strings({count}, std::move(words))));
  graph.nodes.push_back(constant_node(
      name + "_ids", TensorValue::vector(std::vector<std::int64_t>(std::size_t(count)))));
  graph.nodes.push_back(
      words_node(name + "_init", "InitializeTableV2", {name, name + "_keys", name + "_ids"}));
  graph.nodes.push_back(
      constant_node(name + "_missing", TensorValue::scalar<std::int64_t>(std::int64_t{-1})));
}

SignatureDef signature_of(const std::vector<std::string>& inputs) {
  SignatureDef signature;
  for (const std::string& name : inputs) {
    signature.inputs[name] = {.name = name + ":0", .dtype = DataType::kString, .shape = {-1}};
  }
  return signature;
}

TEST(KnownWords, AreThoseOfTheTablesThatAnInputIsLookedUpIn) {
  MetaGraph meta;
  for (const char* name : {"work", "row", "plain"}) {
    meta.graph.nodes.push_back(placeholder_node(name, DataType::kString, {-1}));
  }
  add_table(meta.graph, "first", {"b", "a"});
  add_table(meta.graph, "second", {"a", "c"});
  add_table(meta.graph, "third", {"x"});
  meta.graph.nodes.push_back(words_node("reshaped", "Reshape", {"work", "first_ids"}));
  meta.graph.nodes.push_back(
      words_node("one", "LookupTableFindV2", {"first", "reshaped", "first_missing"}));
  meta.graph.nodes.push_back(
      words_node("two", "LookupTableFindV2", {"second", "work", "second_missing"}));
  // The words of a field are not those of the whole row, and those of two inputs are of neither.
  meta.graph.nodes.push_back(words_node("fields", "DecodeCSV", {"row"}));
  meta.graph.nodes.push_back(
      words_node("three", "LookupTableFindV2", {"third", "fields:1", "third_missing"}));
  meta.graph.nodes.push_back(words_node("both", "StringJoin", {"work", "plain"}));
  meta.graph.nodes.push_back(
      words_node("four", "LookupTableFindV2", {"third", "both", "third_missing"}));
  const SignatureDef signature = signature_of({"work", "row", "plain"});
  EXPECT_THAT(known_words(meta, signature, {}),
              ElementsAre(Pair("work", ElementsAre("b", "a", "c"))));
  EXPECT_THAT(known_words(meta, signature, {}, 1), ElementsAre(Pair("work", ElementsAre("b"))));
}

TEST(KnownWords, AreReadFromAFileOfTheModel) {
  const testing::TempDir folder;
  testing::write_bytes(folder / "words.txt", "red\ngreen\nblue\n");
  MetaGraph meta;
  meta.graph.nodes = {placeholder_node("color", DataType::kString, {-1}),
                      table_node("table"),
                      constant_node("path", TensorValue::string_scalar("words.txt")),
                      {.name = "init",
                       .op = "InitializeTableFromTextFileV2",
                       .inputs = {"table", "path"},
                       .attrs = {{"key_index", std::int64_t{-2}},
                                 {"value_index", std::int64_t{-1}},
                                 {"vocab_size", std::int64_t{2}}}},
                      constant_node("missing", TensorValue::scalar<std::int64_t>(std::int64_t{-1})),
                      words_node("id", "LookupTableFindV2", {"table", "color", "missing"})};
  meta.assets = {{.tensor = {.name = "path:0"}, .filename = "words.txt"}};
  EXPECT_THAT(known_words(meta, signature_of({"color"}), folder.path()),
              ElementsAre(Pair("color", ElementsAre("red", "green"))));
}

}  // namespace
}  // namespace muster::graph
