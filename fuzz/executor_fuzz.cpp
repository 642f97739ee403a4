// Graphs made of any bytes, loaded and run: SavedModels as they are, and single operations and
// chains of them with inputs and attributes that the bytes choose.
#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <google/protobuf/stubs/logging.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <string_view>

#include "fuzz/fuzz.h"
#include "muster/base/error.h"
#include "muster/saved_model/executor/executable_model.h"
#include "muster/saved_model/graph/saved_model.h"

namespace {

using namespace muster::graph;
using muster::executor::ExecutableModel;
using muster::executor::LoadOptions;
using muster::executor::StringTensor;
using muster::executor::Value;
using muster::executor::Values;

constexpr GraphLimits kGraphLimits{.nodes = 1'000,
                                   .functions = 100,
                                   .name_bytes = 1'000,
                                   .tensor_bytes = 1 << 20,
                                   .repeated_bytes = 1 << 20};

// Small, so that mutants meet them.
LoadOptions load_options() {
  return {.tags = {},
          .signatures = {},
          .limits = {.live_bytes = 1 << 20,
                     .total_bytes = 1 << 24,
                     .operations = 1'000,
                     .calls = 100,
                     .call_depth = 10}};
}

/// Choices, one byte after the other; zeros behind the end.
class Choices {
 public:
  explicit Choices(std::string_view bytes) : bytes_(bytes) {}

  std::uint8_t byte() {
    if (bytes_.empty()) return 0;
    const char first = bytes_.front();
    bytes_.remove_prefix(1);
    return static_cast<std::uint8_t>(first);
  }
  std::size_t below(std::size_t count) { return byte() % count; }
  template <typename T, std::size_t N>
  const T& of(const T (&all)[N]) {
    return all[below(N)];
  }
  std::string text(std::size_t size) {
    const std::string taken(bytes_.substr(0, size));
    bytes_.remove_prefix(taken.size());
    return taken;
  }

 private:
  std::string_view bytes_;
};

constexpr DataType kTypes[] = {DataType::kFloat, DataType::kInt32,  DataType::kInt64,
                               DataType::kBool,  DataType::kDouble, DataType::kString,
                               DataType::kUint8, DataType::kHalf,   DataType::kInt8};

constexpr std::int64_t kNumbers[] = {
    0,   1,       2,         3,         4,         -1,        -2,        8,
    100, 1 << 20, 1LL << 31, 1LL << 40, 1LL << 62, INT64_MAX, INT64_MIN, -(1LL << 31)};

std::vector<std::int64_t> small_shape(Choices& choices) {
  constexpr std::int64_t kSizes[] = {1, 2, 3, 1, 2, 4, 0, 5};
  std::vector<std::int64_t> shape(choices.below(5));
  for (auto& size : shape) size = choices.of(kSizes);
  return shape;
}

// Elements that are small numbers mostly, so that shapes, axes and indices among them fit.
TensorValue tensor(Choices& choices) {
  TensorValue made{.dtype = choices.of(kTypes), .shape = small_shape(choices)};
  const auto count = static_cast<std::size_t>(element_count(made.shape).value_or(0));
  if (made.dtype == DataType::kString) {
    for (std::size_t i = 0; i < count; ++i) made.strings.push_back(choices.text(choices.below(8)));
    return made;
  }
  // No memory, and yet sizes to count with.
  if (count == 0 && choices.below(2) == 0) made.shape[0] = choices.below(2) == 0 ? 0 : 1LL << 62;
  if (!element_count(made.shape)) made.shape = {0};
  at::Tensor values = at::empty({static_cast<std::int64_t>(count)}, at::kLong);
  for (std::size_t i = 0; i < count; ++i) {
    values.data_ptr<std::int64_t>()[i] = choices.of(kNumbers);
  }
  const at::Tensor typed = values.to(muster::executor::scalar_type(made.dtype));
  if (*element_count(made.shape) != typed.numel()) return TensorValue::scalar(1.0F);
  made.bytes.assign(static_cast<const char*>(typed.data_ptr()), typed.nbytes());
  return made;
}

AttrValue attr_value(Choices& choices) {
  constexpr const char* kWords[] = {"SAME", "VALID",     "EXPLICIT", "NHWC",
                                    "NCHW", "ij,jk->ik", "i,j->ij",  "...i,i->...",
                                    "",     "SYMMETRIC", "REFLECT"};
  switch (choices.below(8)) {
    case 0:
      return choices.of(kNumbers);
    case 1:
      return choices.below(2) == 0;
    case 2:
      return 0.5F;
    case 3:
      return std::string(choices.of(kWords));
    case 4:
      return choices.of(kTypes);
    case 5: {
      std::vector<std::int64_t> list(choices.below(9));
      for (auto& number : list) number = choices.of(kNumbers);
      return AttrValue::list(list);
    }
    case 6: {
      std::vector<DataType> list(choices.below(4));
      for (auto& type : list) type = choices.of(kTypes);
      return AttrValue::list(list);
    }
    default:
      return FunctionRef{choices.below(2) == 0 ? "same" : "again"};
  }
}

// Attributes that operations need, so that most of them can be made whatever the bytes say.
Attrs usual_attrs(std::size_t inputs) {
  using Ints = std::vector<std::int64_t>;
  const auto count = static_cast<std::int64_t>(inputs);
  AttrList branches;
  branches.functions = {FunctionRef{"same"}, FunctionRef{"again"}};
  return {{"T", DataType::kFloat},
          {"dtype", DataType::kFloat},
          {"DstT", DataType::kFloat},
          {"key_dtype", DataType::kString},
          {"value_dtype", DataType::kInt64},
          {"element_dtype", DataType::kFloat},
          {"out_type", DataType::kInt64},
          {"N", count / 3},
          {"num", 2},
          {"num_split", 2},
          {"num_partitions", 2},
          {"num_buckets", 10},
          {"hash_key", 1},
          {"hashed_output", true},
          {"equation", "ij,jk->ik"},
          {"mode", "REFLECT"},
          {"padding", "SAME"},
          {"strides", AttrValue::list(Ints{1, 1, 1, 1})},
          {"ksize", AttrValue::list(Ints{1, 2, 2, 1})},
          {"is_training", false},
          {"align_corners", true},
          {"boundaries", AttrValue::list(std::vector<float>{0, 1})},
          {"OUT_TYPE", AttrValue::list({DataType::kInt64, DataType::kString})},
          {"f", FunctionRef{"same"}},
          {"then_branch", FunctionRef{"same"}},
          {"else_branch", FunctionRef{"again"}},
          {"cond", FunctionRef{"same"}},
          {"body", FunctionRef{"again"}},
          {"branches", AttrValue{branches}},
          {"pattern", "[a-c]*"},
          {"rewrite", "<\\0>"},
          {"frame_name", "frame"}};
}

constexpr const char* kAttrNames[] = {"T",
                                      "dtype",
                                      "DstT",
                                      "out_type",
                                      "axis",
                                      "N",
                                      "num",
                                      "num_split",
                                      "batch_dims",
                                      "keep_dims",
                                      "padding",
                                      "strides",
                                      "dilations",
                                      "ksize",
                                      "explicit_paddings",
                                      "equation",
                                      "data_format",
                                      "squeeze_dims",
                                      "begin_mask",
                                      "ellipsis_mask",
                                      "new_axis_mask",
                                      "shrink_axis_mask",
                                      "width",
                                      "precision",
                                      "num_buckets",
                                      "transpose_a",
                                      "adj_y",
                                      "maxsplit",
                                      "num_partitions",
                                      "num_elements",
                                      "OUT_TYPE",
                                      "sparse_types",
                                      "Tdense",
                                      "dense_shapes",
                                      "separator",
                                      "f",
                                      "cond",
                                      "body",
                                      "then_branch",
                                      "element_dtype",
                                      "value",
                                      "mode",
                                      "exclusive",
                                      "reverse",
                                      "key_dtype",
                                      "value_dtype",
                                      "half_pixel_centers",
                                      "alpha",
                                      "epsilon",
                                      "little_endian",
                                      "channels",
                                      "ratio",
                                      "pattern",
                                      "context_sparse_types",
                                      "feature_list_sparse_types"};

FunctionDef function(std::string name, const std::string& result) {
  FunctionDef made;
  made.signature = {.name = std::move(name),
                    .inputs = {{.name = "a", .type = DataType::kFloat}},
                    .outputs = {{.name = "b", .type = DataType::kFloat}}};
  made.nodes = {{.name = "n", .op = "Neg", .inputs = {"a"}}};
  made.ret = {{"b", result}};
  return made;
}

// An input: a constant, a placeholder with a value, a variable, a table or a list.
std::string input(Choices& choices, std::size_t number, MetaGraph& meta, Values& values) {
  const auto name = "in" + std::to_string(number);
  auto& nodes = meta.graph.nodes;
  switch (choices.below(16)) {
    case 0:
      nodes.push_back({.name = name, .op = "VarHandleOp", .attrs = {{"dtype", DataType::kFloat}}});
      return name;
    case 1:
      nodes.push_back(
          {.name = name,
           .op = "MutableHashTableV2",
           .attrs = {{"key_dtype", choices.of(kTypes)}, {"value_dtype", choices.of(kTypes)}}});
      return name;
    case 2:
      nodes.push_back(constant_node(name + "shape", TensorValue::vector<std::int32_t>({2, 2})));
      nodes.push_back(constant_node(name + "size", TensorValue::scalar<std::int32_t>(3)));
      nodes.push_back({.name = name,
                       .op = "TensorListReserve",
                       .inputs = {name + "shape", name + "size"},
                       .attrs = {{"element_dtype", DataType::kFloat}}});
      return name;
    case 3:
    case 4:
    case 5:
      nodes.push_back(constant_node(name, tensor(choices)));
      return name;
    default: {
      const TensorValue value = tensor(choices);
      nodes.push_back(placeholder_node(name, value.dtype, Shape::any()));
      meta.signatures["f"].inputs[name] = {
          .name = name + ":0", .dtype = value.dtype, .shape = Shape::any()};
      values.emplace(name, muster::executor::to_value(value));
      return name;
    }
  }
}

const std::vector<std::string>& operations() {
  static const auto all = muster::executor::supported_operations();
  return all;
}

// An operation that the bytes choose, with attributes; its inputs are made by `make_input`.
template <typename MakeInput>
NodeDef draw_node(Choices& choices, std::string name, std::size_t most_inputs,
                  MakeInput make_input) {
  const std::size_t which = choices.byte() + 256U * choices.byte();
  NodeDef node{.name = std::move(name), .op = operations()[which % operations().size()]};
  const std::size_t inputs = choices.below(most_inputs + 1);
  for (std::size_t i = 0; i < inputs; ++i) node.inputs.push_back(make_input());
  node.attrs = usual_attrs(inputs);
  for (auto more = choices.below(4); more > 0; --more) {
    const char* attr = choices.of(kAttrNames);
    node.attrs.insert_or_assign(attr, attr_value(choices));
  }
  return node;
}

void add_output(MetaGraph& meta, const std::string& name) {
  auto& outputs = meta.signatures["f"].outputs;
  outputs["y" + std::to_string(outputs.size())] = {.name = name, .shape = Shape::any()};
}

MetaGraph empty_graph() {
  MetaGraph meta;
  meta.graph.functions = {function("same", "a"), function("again", "n:y:0")};
  return meta;
}

void run_operation(std::string_view bytes) {
  Choices choices(bytes);
  MetaGraph meta = empty_graph();
  Values values;
  std::size_t inputs = 0;
  meta.graph.nodes.push_back(
      draw_node(choices, "y", 6, [&] { return input(choices, inputs++, meta, values); }));
  const std::size_t outputs = choices.below(4);
  for (std::size_t i = 0; i <= outputs; ++i) add_output(meta, "y:" + std::to_string(i));
  ExecutableModel::from(meta, {}, load_options()).run("f", values);
}

// Operations whose inputs are the outputs of those before them, or inputs as above.
void run_graph(std::string_view bytes) {
  Choices choices(bytes);
  MetaGraph meta = empty_graph();
  Values values;
  std::size_t inputs = 0;
  const std::size_t count = 2 + choices.below(7);
  for (std::size_t number = 0; number < count; ++number) {
    const auto make_input = [&] {
      const std::size_t from = choices.below(3);
      if (number == 0 || from == 0) return input(choices, inputs++, meta, values);
      const std::string before = "n" + std::to_string(choices.below(number));
      return from == 1 ? before : before + ":" + std::to_string(choices.below(3));
    };
    const std::string name = "n" + std::to_string(number);
    meta.graph.nodes.push_back(draw_node(choices, name, 4, make_input));
    // A model is run from what is asked for: an operation that fails hides nothing of the others.
    if (number + 1 == count || choices.below(2) == 0) add_output(meta, name + ":0");
  }
  ExecutableModel::from(meta, {}, load_options()).run("f", values);
}

constexpr DataType kExtremeTypes[] = {DataType::kInt32,  DataType::kInt64, DataType::kFloat,
                                      DataType::kDouble, DataType::kInt8,  DataType::kUint8,
                                      DataType::kInt16,  DataType::kHalf};

// The smallest and largest numbers of a type and those beside them; what is no number, too large,
// or on the edge of a type of whole numbers. `skip` leaves one out, which refuses all others.
at::Tensor extremes(DataType type, std::size_t skip) {
  const auto scalar = muster::executor::scalar_type(type);
  std::vector<at::Tensor> values;
  const auto add = [&](auto value) {
    if (values.size() != skip)
      values.push_back(at::scalar_tensor(value, scalar));
    else
      skip = static_cast<std::size_t>(-1);
  };
  if (at::isFloatingType(scalar)) {
    for (const double value :
         {0.0, -0.0, -1.0, 1.5, 2147483648.0, -2147483904.0, 9223372036854775808.0, 1e30, -1e30,
          1e-45, double(INFINITY), double(-INFINITY), double(NAN)}) {
      add(scalar == at::kHalf ? std::clamp(value, -60000.0, 60000.0) : value);
    }
  } else {
    const std::int64_t bits = static_cast<std::int64_t>(8 * c10::elementSize(scalar));
    const bool is_signed = at::isSignedType(scalar);
    const std::int64_t most =
        is_signed ? static_cast<std::int64_t>((std::uint64_t{1} << (bits - 1)) - 1) : 255;
    const std::int64_t least = is_signed ? -most - 1 : 0;
    for (const std::int64_t value :
         {std::int64_t{0}, least, is_signed ? std::int64_t{-1} : most, least + 1, std::int64_t{1},
          std::int64_t{2}, std::int64_t{31}, most - 1, most}) {
      add(value);
    }
  }
  return at::stack(values);
}

// One operation on extreme values, each input with each value of the others: the first is a column,
// the second a row. They come as inputs, or as constants, which are folded when the model is
// loaded.
void run_extremes(std::string_view bytes) {
  Choices choices(bytes);
  MetaGraph meta = empty_graph();
  Values values;
  const std::size_t which = choices.byte() + 256U * choices.byte();
  NodeDef node{.name = "y", .op = operations()[which % operations().size()]};
  const std::size_t inputs = 1 + choices.below(4);
  const DataType type = choices.of(kExtremeTypes);
  const bool folds = choices.below(2) == 1;
  const std::size_t skip = choices.byte();
  for (std::size_t i = 0; i < inputs; ++i) {
    const auto name = "in" + std::to_string(i);
    const std::size_t arrangement = choices.byte();
    at::Tensor value = extremes(type, skip);
    const std::int64_t count = value.numel();
    if (arrangement == i) {
      value = value.reshape(i == 0 ? at::IntArrayRef({count, 1}) : at::IntArrayRef({1, count}));
    } else if (arrangement > i) {
      value = value[static_cast<std::int64_t>(arrangement) % count];
    }
    const TensorValue tensor = muster::executor::to_tensor_value(value);
    node.inputs.push_back(name);
    if (folds) {
      meta.graph.nodes.push_back(constant_node(name, tensor));
      continue;
    }
    meta.graph.nodes.push_back(placeholder_node(name, type, Shape::any()));
    meta.signatures["f"].inputs[name] = {.name = name + ":0", .dtype = type, .shape = Shape::any()};
    values.emplace(name, value);
  }
  node.attrs = usual_attrs(inputs);
  for (const char* name : {"T", "dtype", "SrcT", "Tidx"}) node.attrs.insert_or_assign(name, type);
  for (const char* name : {"DstT", "out_type", "output_type"}) {
    node.attrs.insert_or_assign(name, choices.of(kExtremeTypes));
  }
  for (auto more = choices.below(3); more > 0; --more) {
    const char* attr = choices.of(kAttrNames);
    node.attrs.insert_or_assign(attr, attr_value(choices));
  }
  meta.graph.nodes.push_back(node);
  add_output(meta, "y:0");
  ExecutableModel::from(meta, {}, load_options()).run("f", values);
}

// Ones where sizes are not known; strings are empty.
Value value_for(const TensorInfo& info) {
  std::vector<std::int64_t> shape = info.shape.dims;
  for (auto& size : shape) size = size < 0 ? 2 : std::min<std::int64_t>(size, 8);
  if (shape.size() > 6) shape.resize(6);
  const auto count = static_cast<std::size_t>(element_count(shape).value_or(0));
  if (without_ref(info.dtype) == DataType::kString) {
    return StringTensor(std::vector<std::string>(count), shape);
  }
  return at::ones(shape, muster::executor::scalar_type(info.dtype));
}

void run_model(const MetaGraph& meta) {
  const auto model = ExecutableModel::from(meta, {}, load_options());
  for (const auto& [name, signature] : model.signatures()) {
    Values values;
    for (const auto& [key, info] : signature.inputs) values.emplace(key, value_for(info));
    try {
      model.run(name, values);
    } catch (const muster::Error&) {
    }
  }
}

void run_models(std::string_view bytes) {
  const SavedModel model = decode_saved_model(bytes, kGraphLimits);
  for (const MetaGraph& meta : model.meta_graphs) {
    try {
      run_model(meta);
    } catch (const muster::Error&) {
    }
  }
}

MetaGraph meta_of(std::vector<NodeDef> nodes, std::vector<FunctionDef> functions = {}) {
  MetaGraph meta{.tags = {"serve"}};
  meta.graph.nodes = std::move(nodes);
  meta.graph.nodes.push_back(placeholder_node("x", DataType::kFloat, {-1, 2}));
  meta.graph.functions = std::move(functions);
  auto& signature = meta.signatures["serving_default"];
  signature.inputs["x"] = {.name = "x:0", .dtype = DataType::kFloat, .shape = {-1, 2}};
  signature.outputs["y"] = {.name = "y:0", .dtype = DataType::kFloat, .shape = Shape::any()};
  return meta;
}

// The loop of TensorFlow 1 that halves x while its sum is above a number.
MetaGraph framed_loop() {
  const Attrs frame{{"frame_name", "frame"}};
  return meta_of({{.name = "enter", .op = "Enter", .inputs = {"x"}, .attrs = frame},
                  {.name = "bound", .op = "Enter", .inputs = {"low"}, .attrs = frame},
                  constant_node("low", TensorValue::scalar(0.1F)),
                  constant_node("axes", TensorValue::vector<std::int32_t>({0, 1})),
                  constant_node("part", TensorValue::scalar(0.5F)),
                  {.name = "merge", .op = "Merge", .inputs = {"enter", "next"}},
                  {.name = "sum", .op = "Sum", .inputs = {"merge", "axes"}},
                  {.name = "more", .op = "Less", .inputs = {"bound", "sum"}},
                  {.name = "cond", .op = "LoopCond", .inputs = {"more"}},
                  {.name = "switch", .op = "Switch", .inputs = {"merge", "cond"}},
                  {.name = "half", .op = "Mul", .inputs = {"switch:1", "part"}},
                  {.name = "next", .op = "NextIteration", .inputs = {"half"}},
                  {.name = "y", .op = "Exit", .inputs = {"switch"}}});
}

// Layers that are fused when they are loaded: with a Pad, a batch norm, a shortcut, a bias.
MetaGraph small_network() {
  const auto floats = [](const char* name, const std::vector<std::int64_t>& shape) {
    std::vector<float> values(static_cast<std::size_t>(*element_count(shape)), 0.5F);
    return constant_node(name, TensorValue::of<float>(shape, values));
  };
  const auto ints = [](const char* name, const std::vector<std::int64_t>& shape,
                       const std::vector<std::int32_t>& values) {
    return constant_node(name, TensorValue::of<std::int32_t>(shape, values));
  };
  const Attrs window{{"padding", "VALID"},
                     {"data_format", "NHWC"},
                     {"strides", AttrValue::list(std::vector<std::int64_t>{1, 1, 1, 1})}};
  return meta_of({ints("images", {4}, {-1, 1, 2, 1}),
                  {.name = "image", .op = "Reshape", .inputs = {"x", "images"}},
                  ints("pads", {4, 2}, {0, 0, 1, 1, 1, 1, 0, 0}),
                  {.name = "pad", .op = "Pad", .inputs = {"image", "pads"}},
                  floats("w", {3, 3, 1, 3}),
                  {.name = "c", .op = "Conv2D", .inputs = {"pad", "w"}, .attrs = window},
                  floats("p", {3}),
                  {.name = "n",
                   .op = "FusedBatchNormV3",
                   .inputs = {"c", "p", "p", "p", "p"},
                   .attrs = {{"is_training", false}, {"epsilon", 0.1F}}},
                  {.name = "r", .op = "Relu", .inputs = {"n"}},
                  floats("v", {1, 1, 3, 3}),
                  {.name = "d", .op = "Conv2D", .inputs = {"r", "v"}, .attrs = window},
                  {.name = "sum", .op = "AddV2", .inputs = {"d", "r"}},
                  {.name = "s", .op = "Relu", .inputs = {"sum"}},
                  ints("rows", {2}, {-1, 6}),
                  {.name = "flat", .op = "Reshape", .inputs = {"s", "rows"}},
                  floats("dense", {6, 2}),
                  {.name = "m", .op = "MatMul", .inputs = {"flat", "dense"}},
                  floats("b", {2}),
                  {.name = "y", .op = "BiasAdd", .inputs = {"m", "b"}}});
}

// A layer, a network, a loop, a conditional, a table and a cross.
std::vector<MetaGraph> small_models() {
  const auto ints = [](const char* name, std::vector<std::int32_t> values) {
    return constant_node(name, TensorValue::vector<std::int32_t>(values));
  };
  return {
      small_network(),
      meta_of(
          {constant_node("w", TensorValue::of<float>({2, 2}, std::array{1.0F, 2.0F, 3.0F, 4.0F})),
           {.name = "product", .op = "MatMul", .inputs = {"x", "w"}},
           ints("shape", {-1, 1}),
           {.name = "flat", .op = "Reshape", .inputs = {"product", "shape"}},
           ints("times", {1, 3}),
           {.name = "y", .op = "Tile", .inputs = {"flat", "times"}}}),
      meta_of({{.name = "y",
                .op = "While",
                .inputs = {"x"},
                .attrs = {{"cond", FunctionRef{"same"}}, {"body", FunctionRef{"again"}}}}},
              {function("same", "a"), function("again", "n:y:0")}),
      meta_of({constant_node("p", TensorValue::scalar(true)),
               {.name = "s", .op = "Switch", .inputs = {"x", "p"}},
               {.name = "a", .op = "Square", .inputs = {"s"}},
               {.name = "b", .op = "Neg", .inputs = {"s:1"}},
               {.name = "y", .op = "Merge", .inputs = {"a", "b"}}}),
      meta_of({{.name = "t",
                .op = "HashTableV2",
                .attrs = {{"key_dtype", DataType::kString}, {"value_dtype", DataType::kFloat}}},
               constant_node("keys", TensorValue::of_strings({2}, {"1.000000", "b"})),
               constant_node("values", TensorValue::vector<float>({1, 2})),
               constant_node("none", TensorValue::scalar(0.0F)),
               {.name = "fill", .op = "InitializeTableV2", .inputs = {"t", "keys", "values"}},
               {.name = "text", .op = "AsString", .inputs = {"x"}},
               {.name = "y", .op = "LookupTableFindV2", .inputs = {"t", "text", "none", "^fill"}}}),
      meta_of(
          {{.name = "ids", .op = "Cast", .inputs = {"x"}, .attrs = {{"DstT", DataType::kInt64}}},
           {.name = "cross",
            .op = "SparseCross",
            .inputs = {"ids", "ids"},
            .attrs = {{"N", 0}, {"hashed_output", true}, {"num_buckets", 9}, {"hash_key", 1}}},
           {.name = "back", .op = "SparseReshape", .inputs = {"cross", "cross:2", "shape"}},
           constant_node("shape", TensorValue::vector<std::int64_t>({-1, 1})),
           {.name = "y",
            .op = "Cast",
            .inputs = {"back:1"},
            .attrs = {{"DstT", DataType::kFloat}}}})};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const google::protobuf::LogSilencer quiet;  // It logs every text that is not UTF-8.
  static const bool alone = [] {
    at::set_num_threads(1);
    operations();
    return true;
  }();
  if (!alone || size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    if (data[0] == 'M') {
      run_models(bytes);
    } else if (data[0] == 'G') {
      run_graph(bytes);
    } else if (data[0] == 'X') {
      run_extremes(bytes);
    } else {
      run_operation(bytes);
    }
  } catch (const muster::Error&) {
  }
  return 0;
}

namespace {

// The bytes that choose operation number `i`, and how many inputs it has.
std::string chosen(std::size_t i, char inputs) {
  const std::size_t which = i % operations().size();
  return {static_cast<char>(which % 256), static_cast<char>(which / 256), inputs};
}

// A matrix of two by two of small numbers, of the type of this number.
std::string matrix(int type) { return {15, static_cast<char>(type), 2, 1, 1, 0, 1, 1, 0}; }

// Three operations, each of a matrix or of those before.
std::string chain(std::size_t i) {
  const std::string fresh{0}, first{1, 0}, second{1, 1}, no_more_attrs{0}, is_output{0};
  return "G\x01" + chosen(i, 1) + fresh + matrix(0) + no_more_attrs + is_output +
         chosen(7 * i + 3, 2) + first + fresh + matrix(0) + no_more_attrs + is_output +
         chosen(13 * i + 5, 2) + second + first;
}

// Every operation on pairs of extreme numbers: of 32 and 64 bits without zero, by which nothing is
// divided, and of floats that are cast to either.
std::string extreme_pairs(std::size_t i, char type, char cast_to, bool folds) {
  const std::string column{0}, row{1}, single{5};
  const std::string skip = type < 2 ? std::string{0} : std::string("\xff", 1);
  return "X" + chosen(i, static_cast<char>(i % 3 == 2 ? 2 : 1)) + type + static_cast<char>(folds) +
         skip + column + row + single + cast_to + cast_to + cast_to;
}

}  // namespace

// Every operation with a few inputs that the bytes after it choose, on extreme numbers, chains of
// operations, and whole models as often as that a mutant in nine is of one.
std::vector<std::string> muster::fuzz::seeds() {
  std::vector<std::string> seeds;
  seeds.push_back("M" + encode_saved_model({.meta_graphs = {framed_loop()}}));
  for (std::size_t i = 0; i < operations().size(); ++i) {
    for (const char inputs : {1, 2, 3, 4, 5}) {
      std::string seed = "O" + chosen(i, inputs);
      for (int k = 0; k < inputs; ++k) seed += matrix(k % 3);
      seeds.push_back(seed);
    }
    seeds.push_back(chain(i));
    seeds.push_back(extreme_pairs(i, 0, 1, i % 2 == 0));
    seeds.push_back(extreme_pairs(i, 1, 0, i % 2 == 1));
    seeds.push_back(extreme_pairs(i, 2, static_cast<char>(i % 2), i % 4 < 2));
    const auto models = small_models();
    seeds.push_back("M" + encode_saved_model({.meta_graphs = {models[i % models.size()]}}));
  }
  return seeds;
}

// The limits of a run, and the objects of a graph.
muster::fuzz::MemoryBound muster::fuzz::memory_bound() {
  return {.base_bytes = std::size_t{64} << 20, .bytes_per_input_byte = 4096};
}
