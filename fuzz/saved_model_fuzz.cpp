// saved_model.pb as any bytes: read, checked, and written again.
#include <google/protobuf/stubs/logging.h>

#include <cstdlib>
#include <string_view>

#include "fuzz/fuzz.h"
#include "muster/base/error.h"
#include "muster/saved_model/graph/check.h"
#include "muster/saved_model/graph/op_registry.h"
#include "muster/saved_model/graph/saved_model.h"

namespace {

using namespace muster::graph;

// Small, so that mutants meet them.
constexpr GraphLimits kLimits{.nodes = 1'000,
                              .functions = 100,
                              .name_bytes = 1'000,
                              .tensor_bytes = 1 << 20,
                              .repeated_bytes = 1 << 20};

const OpRegistry& registry() {
  static const OpRegistry ops = OpRegistry::parse_text(R"(
    op { name: "Const" output_arg { name: "output" type_attr: "dtype" }
         attr { name: "value" type: "tensor" } attr { name: "dtype" type: "type" } }
    op { name: "AddN" input_arg { name: "inputs" type_attr: "T" number_attr: "N" }
         output_arg { name: "sum" type_attr: "T" }
         attr { name: "N" type: "int" has_minimum: true minimum: 1 }
         attr { name: "T" type: "type" allowed_values { list { type: DT_FLOAT } } } })");
  return ops;
}

void use(const MetaGraph& meta) {
  try {
    asset_files(meta);
    init_op(meta);
    check_graph(meta.graph);
    registry().check(meta.graph);
  } catch (const muster::Error&) {
  }
}

NodeDef add(std::string name, std::vector<std::string> inputs) {
  return {.name = std::move(name),
          .op = "AddN",
          .inputs = std::move(inputs),
          .attrs = {{"N", 2}, {"T", DataType::kFloat}}};
}

MetaGraph small_meta() {
  const TensorInfo info{.name = "sum:0", .dtype = DataType::kFloat, .shape = {-1, 2}};
  return {.tags = {"serve"},
          .signatures = {{"serving_default",
                          {.inputs = {{"x", info}},
                           .outputs = {{"y", info}},
                           .method_name = std::string(kPredictMethod)}}},
          .graph = {.nodes = {constant_node("c", TensorValue::vector<float>({1, 2, 3})),
                              add("sum", {"c", "c:0", "^c"})},
                    .versions = {.producer = 22}}};
}

MetaGraph full_meta() {
  MetaGraph meta = small_meta();
  meta.assets = {{.tensor = {.name = "c:0"}, .filename = "words.txt"}};
  meta.saver = Saver{.filename_tensor = "c:0", .restore_op = "sum"};
  meta.collections["saved_model_assets"] = {Collection::Anys{{"\x12\x04\x12\x02xy"}}};
  meta.collections["main_op"] = {Collection::Nodes{{"sum"}}};
  meta.collections["numbers"] = {std::vector<std::int64_t>{1, -1}};
  meta.graph.nodes.push_back(
      constant_node("many", TensorValue::vector<std::int64_t>(std::vector<std::int64_t>(50, 3))));
  meta.graph.nodes.push_back(constant_node("words", TensorValue::of_strings({2}, {"a", "b"})));
  meta.graph.nodes.push_back(
      {.name = "call", .op = "f", .inputs = {"c"}, .attrs = {{"g", FunctionRef{"f", {{"k", 1}}}}}});
  meta.graph.functions = {{.signature = {.name = "f",
                                         .inputs = {{.name = "x", .type = DataType::kFloat}},
                                         .outputs = {{.name = "y", .type = DataType::kFloat}}},
                           .nodes = {add("n", {"x", "x"})},
                           .ret = {{"y", "n:sum:0"}}}};
  return meta;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const google::protobuf::LogSilencer quiet;  // It logs every text that is not UTF-8.
  registry();
  try {
    const SavedModel model =
        decode_saved_model({reinterpret_cast<const char*>(data), size}, kLimits);
    for (const MetaGraph& meta : model.meta_graphs) use(meta);
    // A model that was read is written and read again without a change.
    if (decode_saved_model(encode_saved_model(model)) != model) std::abort();
  } catch (const muster::Error&) {
  }
  return 0;
}

std::vector<std::string> muster::fuzz::seeds() {
  registry();
  return {encode_saved_model({.meta_graphs = {small_meta()}}),
          encode_saved_model({.meta_graphs = {full_meta()}}),
          encode_saved_model({.meta_graphs = {small_meta(), full_meta()}})};
}

// A node or argument of a few bytes becomes an object of some hundred.
muster::fuzz::MemoryBound muster::fuzz::memory_bound() {
  return {.base_bytes = std::size_t{8} << 20, .bytes_per_input_byte = 512};
}
