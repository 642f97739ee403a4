#include "muster/saved_model/executor/arena_plan_internal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <limits>

#include "muster/saved_model/executor/one_node_internal.h"

namespace muster::executor::arena {
namespace {

using graph::DataType;
using graph::TensorValue;
using ::testing::HasSubstr;

TEST(Arena, GivesMemoryUntilItIsFullAndAgainAfterReset) {
  Arena arena;
  constexpr std::size_t kPiece = 48 << 10;
  std::size_t taken = 0;
  while (arena.take(kPiece) != nullptr) taken += kPiece;
  EXPECT_LE(taken, Arena::kMostBytes);
  EXPECT_GE(taken, Arena::kMostBytes / 2);
  arena.reset();
  auto* const all = static_cast<char*>(arena.take(taken));
  ASSERT_NE(all, nullptr);
  std::fill_n(all, taken, 'x');
  EXPECT_EQ(arena.take(Arena::kMostBytes + 1), nullptr);
}

TEST(Arena, GivesPiecesThatLieApart) {
  Arena arena;
  auto* const first = static_cast<char*>(arena.take(3));
  auto* const second = static_cast<char*>(arena.take(1));
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(second) % 16, 0U);
  EXPECT_GE(second, first + 3);
}

TEST(ArenaValue, RefusesShapesThatNoArenaHolds) {
  ArenaValue value;
  using Shape = std::vector<std::int64_t>;
  EXPECT_TRUE(value.set_shape(Shape{2, 3}));
  EXPECT_EQ(value.count, 6);
  EXPECT_FALSE(value.set_shape(Shape{1, 1, 1, 1, 1}));
  EXPECT_FALSE(value.set_shape(Shape{-1}));
  EXPECT_FALSE(value.set_shape(Shape{1 << 20, 1 << 20}));
  EXPECT_FALSE(value.set_shape(Shape{std::int64_t{1} << 62, 4}));
}

graph::NodeDef node(std::string name, std::string op, std::vector<std::string> inputs,
                    graph::Attrs attrs = {}) {
  return {.name = std::move(name),
          .op = std::move(op),
          .inputs = std::move(inputs),
          .attrs = std::move(attrs)};
}

/// A graph whose inputs are its placeholders, with the signature "f".
struct SmallGraph {
  void add_input(const std::string& name, DataType type) {
    meta.graph.nodes.push_back(graph::placeholder_node(name, type, graph::Shape::any()));
    meta.signatures["f"].inputs[name] = {
        .name = name + ":0", .dtype = type, .shape = graph::Shape::any()};
  }
  void add_output(const std::string& name, const std::string& tensor) {
    meta.signatures["f"].outputs[name] = {
        .name = tensor, .dtype = {}, .shape = graph::Shape::any()};
  }
  void add(graph::NodeDef one) { meta.graph.nodes.push_back(std::move(one)); }

  graph::MetaGraph meta{};
};

/// Words that are not empty, their hashes, an embedding of them and sums of rows: what a
/// categorical column exports.
SmallGraph embedding_graph() {
  SmallGraph graph;
  graph.add_input("words", DataType::kString);
  graph.add_input("rows", DataType::kInt32);
  graph.add(graph::constant_node("empty", TensorValue::string_scalar("")));
  graph.add(graph::constant_node("last", TensorValue::scalar(std::int32_t{-1})));
  graph.add(node("column", "ExpandDims", {"words", "last"}));
  graph.add(node("there", "NotEqual", {"column", "empty"}, {{"T", DataType::kString}}));
  graph.add(node("indices", "Where", {"there"}, {{"T", DataType::kBool}}));
  graph.add(node("present", "GatherNd", {"column", "indices"},
                 {{"Tparams", DataType::kString}, {"Tindices", DataType::kInt64}}));
  graph.add(node("hash", "StringToHashBucketFast", {"present"}, {{"num_buckets", 7}}));
  const auto ints = [&](const char* name, std::vector<std::int32_t> values) {
    graph.add(graph::constant_node(name, TensorValue::vector(values)));
  };
  ints("begin", {0, 0});
  ints("end", {0, 1});
  ints("step", {1, 1});
  graph.add(node("row", "StridedSlice", {"indices", "begin", "end", "step"},
                 {{"begin_mask", 1}, {"end_mask", 1}, {"shrink_axis_mask", 2}}));
  std::vector<float> weights;
  for (int i = 0; i < 21; ++i) weights.push_back(0.1F * static_cast<float>(i * i));
  graph.add(graph::constant_node("weights",
                                 TensorValue::of<float>({7, 3}, std::span<const float>(weights))));
  graph.add(node("y", "SparseSegmentMeanWithNumSegments", {"weights", "hash", "row", "rows"},
                 {{"T", DataType::kFloat}}));
  graph.add_output("y", "y:0");
  return graph;
}

Values words_of(std::vector<std::string> words, std::int32_t rows) {
  return {{"rows", torch::scalar_tensor(rows, torch::kInt)},
          {"words", StringTensor(std::move(words))}};
}

TEST(ArenaPlan, GivesTheBitsOfThePlanForAnyNumberOfRows) {
  const auto graph = embedding_graph();
  ASSERT_TRUE(ExecutableModel::from(graph.meta, {}).has_arena("f"));
  for (const std::int32_t rows : {1, 2, 7, 64, 300}) {
    std::vector<std::string> words;
    for (std::int32_t i = 0; i < rows; ++i) {
      words.push_back(i % 5 == 3 ? "" : "word" + std::to_string(i * 37 % 11));
    }
    const auto out = run_both_ways(graph.meta, {}, words_of(words, rows));
    EXPECT_EQ(shape_of(out.at("y")), (std::vector<std::int64_t>{rows, 3}));
  }
}

TEST(ArenaPlan, LeavesUnusualRequestsToThePlan) {
  const auto graph = embedding_graph();
  // Nothing at all, fewer rows than words, and more rows than an arena holds.
  run_both_ways(graph.meta, {}, words_of({}, 0));
  run_both_ways(graph.meta, {}, words_of({"", ""}, 2));
  run_both_ways(graph.meta, {}, words_of({"a", "b"}, 5'000'000));
  const auto model = ExecutableModel::from(graph.meta, {});
  try {
    model.run("f", words_of({"a", "b"}, 1));
    FAIL() << "one row for two words";
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.what(), HasSubstr("node y (SparseSegmentMeanWithNumSegments)"));
  }
  // And continues after them.
  EXPECT_EQ(shape_of(model.run("f", words_of({"a"}, 1)).at("y")),
            (std::vector<std::int64_t>{1, 3}));
}

TEST(ArenaPlan, AnswersRequestsAsMessagesHaveThem) {
  const auto graph = embedding_graph();
  const auto model = ExecutableModel::from(graph.meta, {});
  const auto wanted = model.run("f", words_of({"a", "", "b"}, 3));
  TensorValues inputs{{"rows", TensorValue::scalar(std::int32_t{3})},
                      {"words", TensorValue::of_strings({3}, {"a", "", "b"})}};
  const auto given = model.run_in_arena("f", inputs);
  ASSERT_TRUE(given);
  EXPECT_EQ(given->at("y"), to_tensor_value(wanted.at("y")));
  // Another type, a shape that the values do not fill, a name that is not there: run() says so.
  auto bad = inputs;
  bad["rows"] = TensorValue::scalar(std::int64_t{3});
  EXPECT_FALSE(model.run_in_arena("f", bad));
  bad = inputs;
  bad["words"].shape = {4};
  EXPECT_FALSE(model.run_in_arena("f", bad));
  bad = inputs;
  bad["rows"].bytes = "x";
  EXPECT_FALSE(model.run_in_arena("f", bad));
  bad = inputs;
  bad.erase(bad.find("rows"));
  EXPECT_FALSE(model.run_in_arena("f", bad));
  bad["other"] = TensorValue::scalar(std::int32_t{3});
  EXPECT_FALSE(model.run_in_arena("f", bad));
  EXPECT_THROW(model.run_in_arena("g", inputs), NotFound);
}

TEST(ArenaPlan, KeepsTheLimitsOfARequest) {
  const auto graph = embedding_graph();
  // Enough for the constants, which are computed when the model is loaded, but not for the steps.
  for (const RunLimits& limits :
       {RunLimits{.operations = 6}, RunLimits{.live_bytes = 8}, RunLimits{.total_bytes = 8}}) {
    const auto model = ExecutableModel::from(graph.meta, {}, {.limits = limits});
    EXPECT_TRUE(model.has_arena("f"));
    EXPECT_THROW(model.run("f", words_of({"a"}, 1)), ResourceExhausted);
    EXPECT_FALSE(model.run_in_arena("f", {{"rows", TensorValue::scalar(std::int32_t{1})},
                                          {"words", TensorValue::of_strings({1}, {"a"})}}));
  }
}

TEST(ArenaPlan, IsNotMadeForOperationsThatArenasDoNotHave) {
  SmallGraph graph;
  graph.add_input("x", DataType::kFloat);
  graph.add(node("y", "Floor", {"x"}));
  graph.add_output("y", "y:0");
  const auto model = ExecutableModel::from(graph.meta, {});
  EXPECT_FALSE(model.has_arena("f"));
  EXPECT_FALSE(model.run_in_arena("f", {{"x", TensorValue::scalar(1.5F)}}));
}

Value floats(std::vector<float> values, std::vector<std::int64_t> shape) {
  return torch::tensor(values, torch::kFloat).reshape(shape);
}
Value longs(std::vector<std::int64_t> values, std::vector<std::int64_t> shape) {
  return torch::tensor(values, torch::kLong).reshape(shape);
}
Value strings(std::vector<std::string> values, std::vector<std::int64_t> shape) {
  return StringTensor(std::move(values), std::move(shape));
}

// Each compares both ways, errors too; those of the operations themselves are in ops_test.cpp.
TEST(ArenaKernels, CompareAndConvertWhatIsNoNumber) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  const Value odd = floats({nan, infinity, -infinity, -0.0F, 0.0F, 1e30F, -7.5F, 39}, {8});
  const Value zero = floats({0}, {});
  for (const auto* op : {"Equal", "NotEqual", "Less", "LessEqual", "Greater", "GreaterEqual", "Add",
                         "Sub", "Mul", "Sigmoid", "Relu"}) {
    const bool unary = std::string_view(op) == "Sigmoid" || std::string_view(op) == "Relu";
    run_one_node(op, unary ? std::vector<Value>{odd} : std::vector<Value>{odd, zero},
                 {{"T", DataType::kFloat}}, 1);
  }
  for (const auto type : {DataType::kInt32, DataType::kInt64, DataType::kBool, DataType::kDouble}) {
    run_one_node("Cast", {odd}, {{"DstT", type}}, 1);
    run_one_node("Cast", {floats({1.9F, -1.9F, 0}, {3, 1})}, {{"DstT", type}}, 1);
  }
  run_one_node("Bucketize", {odd},
               {{"T", DataType::kFloat},
                {"boundaries", graph::AttrValue::list(std::vector<float>{0, 18, 40})}},
               1);
  run_one_node("Where", {odd}, {{"T", DataType::kFloat}}, 1);
}

// Vectors of numbers and what is left of them are rounded differently.
TEST(ArenaKernels, RoundAsLibtorchDoesAtAnyLength) {
  for (const std::int64_t columns : {1, 2, 3, 7, 8, 9, 16, 31, 32, 33, 70}) {
    std::vector<float> values;
    for (std::int64_t i = 0; i < 2 * columns; ++i) {
      values.push_back(0.37F * static_cast<float>((i * 7919) % 41) - 7);
    }
    for (const auto* op : {"Exp", "Log", "Relu", "Sigmoid", "Softmax", "Tanh"}) {
      run_one_node(op, {floats(values, {2, columns})}, {{"T", DataType::kFloat}}, 1);
    }
  }
}

TEST(ArenaKernels, AddWholeNumbersThatWrapAround) {
  const auto most = std::numeric_limits<std::int64_t>::max();
  const auto out =
      run_one_node("AddV2", {longs({most, 1}, {2}), longs({2}, {1})}, {{"T", DataType::kInt64}}, 1);
  EXPECT_TRUE(same_bits(out[0], longs({std::numeric_limits<std::int64_t>::min() + 1, 3}, {2})));
}

TEST(ArenaKernels, CompareWordsOfOneShapeAndOneWithAll) {
  const Value words = strings({"a", "", "b"}, {3, 1});
  for (const auto* op : {"Equal", "NotEqual"}) {
    run_one_node(op, {words, strings({""}, {})}, {{"T", DataType::kString}}, 1);
    run_one_node(op, {strings({"a"}, {1}), words}, {{"T", DataType::kString}}, 1);
    run_one_node(op, {words, strings({"a", "c", "b"}, {3, 1})}, {{"T", DataType::kString}}, 1);
    run_one_node(op, {words, strings({"a", "c"}, {2})}, {{"T", DataType::kString}}, 1);
    run_one_node(op, {strings({"a"}, {1, 1, 1}), words}, {{"T", DataType::kString}}, 1);
  }
}

TEST(ArenaKernels, SliceAnyAxisForwards) {
  const Value cube = torch::arange(24, torch::kInt).reshape({2, 3, 4});
  const auto ints = [](std::vector<std::int32_t> values) -> Value {
    return torch::tensor(values, torch::kInt);
  };
  const auto slice = [&](const Value& begin, const Value& end, const Value& step, int begin_mask,
                         int end_mask, int shrink) {
    return run_one_node(
        "StridedSlice", {cube, begin, end, step},
        {{"begin_mask", begin_mask}, {"end_mask", end_mask}, {"shrink_axis_mask", shrink}}, 1)[0];
  };
  slice(ints({0, 1, 1}), ints({2, 3, 4}), ints({1, 1, 2}), 0, 0, 0);
  slice(ints({-1}), ints({0}), ints({1}), 0, 0, 1);
  slice(ints({0, -2}), ints({9, -1}), ints({1, 1}), 1, 1, 0);
  slice(ints({1, 2}), ints({0, 0}), ints({1, 1}), 0, 0, 2);
  slice(ints({0, 2, 0}), ints({0, 0, 0}), ints({1, -1, 1}), 1, 7, 0);
  EXPECT_TRUE(same_bits(slice(ints({0, 0, 3}), ints({0, 0, 4}), ints({1, 1, 1}), 3, 3, 4),
                        torch::tensor({3, 7, 11, 15, 19, 23}, torch::kInt).reshape({2, 3})));
}

TEST(ArenaKernels, JoinAlongAnyAxis) {
  const Value a = floats({1, 2, 3, 4}, {2, 2});
  const Value b = floats({5, 6, 7, 8}, {2, 2});
  for (const int axis : {0, 1, 2, -1, -3}) {
    run_one_node("Pack", {a, b}, {{"axis", axis}, {"N", 2}, {"T", DataType::kFloat}}, 1);
  }
  const Value one = torch::scalar_tensor(1, torch::kInt);
  run_one_node("ConcatV2", {a, floats({9, 10}, {2, 1}), b, one}, {{"N", 3}}, 1);
  run_one_node("ConcatV2", {strings({"a", "b"}, {2, 1}), strings({"c", "d"}, {2, 1}), one},
               {{"N", 2}}, 1);
  EXPECT_THROW(run_one_node("ConcatV2", {a, floats({9, 10, 11}, {3, 1}), one}, {{"N", 2}}, 1),
               InvalidArgument);
}

TEST(ArenaKernels, CrossRowsOfSeveralValuesAndOfNone) {
  const graph::Attrs attrs{{"N", 2},
                           {"hashed_output", true},
                           {"num_buckets", 1000},
                           {"hash_key", 77},
                           {"out_type", DataType::kInt64}};
  const Value two = longs({0, 0, 0, 1, 2, 0}, {3, 2});
  const Value words = strings({"a", "b", "c"}, {3});
  const Value other = longs({0, 0, 1, 0, 2, 0, 2, 1}, {4, 2});
  const Value numbers = longs({5, -6, 7, 8}, {4});
  const Value shape = longs({3, 2}, {2});
  const auto out =
      run_one_node("SparseCross", {two, other, words, numbers, shape, shape}, attrs, 3);
  EXPECT_TRUE(same_bits(out[0], longs({0, 0, 0, 1, 2, 0, 2, 1}, {4, 2})));
  EXPECT_TRUE(same_bits(out[2], longs({3, 2}, {2})));
  // Rows that are out of order, and a place outside: the operation's own kernel has its say.
  const Value turned = longs({2, 0, 0, 0, 0, 1}, {3, 2});
  run_one_node("SparseCross", {turned, other, words, numbers, shape, shape}, attrs, 3);
  const Value outside = longs({0, 0, 0, 1, 3, 0}, {3, 2});
  EXPECT_THROW(
      run_one_node("SparseCross", {outside, other, words, numbers, shape, shape}, attrs, 3),
      InvalidArgument);
}

TEST(ArenaKernels, SumRowsInTheirOrder) {
  const Value data = floats({0.1F, 1e8F, -1e8F, 0.3F, 0.7F, -0.0F}, {3, 2});
  const Value indices = longs({2, 0, 1, 2, 0}, {5});
  const Value rows = torch::tensor({0, 0, 0, 2, 2}, torch::kInt);
  const Value count = torch::scalar_tensor(4, torch::kInt);
  for (const auto* op : {"SparseSegmentSum", "SparseSegmentMean", "SparseSegmentSqrtN"}) {
    run_one_node(op, {data, indices, rows}, {}, 1);
    run_one_node(std::string(op) + "WithNumSegments", {data, indices, rows, count}, {}, 1);
  }
  run_one_node("UnsortedSegmentSum", {data, longs({1, -1, 1}, {3}), count}, {}, 1);
  const Value places = longs({3, 0, 1, 1, 3, 0}, {3, 2});
  run_one_node("ScatterNd", {places, floats({1, 2, 3}, {3}), longs({4, 2}, {2})}, {}, 1);
  EXPECT_THROW(
      run_one_node("ScatterNd", {places, floats({1, 2, 3}, {3}), longs({3, 2}, {2})}, {}, 1),
      InvalidArgument);
  run_one_node("GatherV2", {data, indices, torch::scalar_tensor(0, torch::kInt)}, {}, 1);
  EXPECT_THROW(run_one_node("GatherV2",
                            {data, longs({3}, {1}), torch::scalar_tensor(0, torch::kInt)}, {}, 1),
               InvalidArgument);
}

TEST(ArenaKernels, HandleSparseTensors) {
  const Value places = longs({0, 0, 0, 1, 2, 0}, {3, 2});
  const Value shape = longs({4, 2}, {2});
  const Value turned = longs({2, 0, 0, 0, 0, 1}, {3, 2});
  for (const Value& values : {longs({5, 6, 7}, {3}), strings({"a", "b", "c"}, {3})}) {
    const bool words = std::holds_alternative<StringTensor>(values);
    const Value otherwise = words ? strings({"x"}, {}) : longs({-1}, {});
    const auto filled =
        run_one_node("SparseFillEmptyRows", {places, values, shape, otherwise}, {}, 4);
    EXPECT_TRUE(same_bits(filled[0], longs({0, 0, 0, 1, 1, 0, 2, 0, 3, 0}, {5, 2})));
    run_one_node("SparseFillEmptyRows", {turned, values, shape, otherwise}, {}, 4);
    run_one_node("SparseToDense", {places, shape, values, otherwise}, {}, 1);
    run_one_node("SparseToDense", {turned, shape, values, otherwise}, {}, 1);
  }
  const auto reshaped = run_one_node("SparseReshape", {places, shape, longs({-1, 4}, {2})}, {}, 2);
  EXPECT_TRUE(same_bits(reshaped[0], longs({0, 0, 0, 1, 1, 0}, {3, 2})));
  run_one_node("SparseReshape", {places, shape, longs({8}, {1})}, {}, 2);
  EXPECT_THROW(run_one_node("SparseReshape", {places, shape, longs({-1, 3}, {2})}, {}, 2),
               InvalidArgument);
  EXPECT_THROW(run_one_node("SparseReshape", {places, longs({2, 2}, {2}), longs({4}, {1})}, {}, 2),
               InvalidArgument);
  std::vector<std::int64_t> many;
  for (std::int64_t i = 0; i < 300; ++i) many.push_back(i * i % 17);
  for (const auto type : {DataType::kInt32, DataType::kInt64}) {
    run_one_node("Unique", {longs({7, 3, 7, 7, -1, 3}, {6})}, {{"out_idx", type}}, 2);
    run_one_node("Unique", {longs(many, {300})}, {{"out_idx", type}}, 2);
  }
}

TEST(ArenaKernels, RepeatAndChooseValues) {
  const Value a = floats({1, 2, 3, 4, 5, 6}, {3, 2});
  const Value b = floats({-1, -2, -3, -4, -5, -6}, {3, 2});
  const Value rows = torch::tensor({1, 0, 1}, torch::kInt).to(torch::kBool);
  const Value each =
      torch::tensor({1, 0, 1, 0, 0, 1}, torch::kInt).to(torch::kBool).reshape({3, 2});
  EXPECT_TRUE(same_bits(run_one_node("Select", {rows, a, b}, {}, 1)[0],
                        floats({1, 2, -3, -4, 5, 6}, {3, 2})));
  run_one_node("Select", {each, a, b}, {}, 1);
  run_one_node("SelectV2", {each, a, b}, {}, 1);
  EXPECT_THROW(run_one_node("SelectV2", {rows, a, b}, {}, 1), InvalidArgument);
  run_one_node("Tile", {a, longs({2, 3}, {2})}, {}, 1);
  run_one_node("Tile", {strings({"a", "b"}, {2}), longs({2}, {1})}, {}, 1);
  run_one_node("Tile", {a, longs({2, 0}, {2})}, {}, 1);
  run_one_node("Fill", {longs({2, 3}, {2}), floats({0.5F}, {})}, {}, 1);
  run_one_node("Fill", {longs({}, {0}), strings({"a"}, {})}, {}, 1);
  const Value depth = torch::scalar_tensor(4, torch::kInt);
  run_one_node("OneHot", {longs({0, 3, -1, 4}, {2, 2}), depth, floats({1}, {}), floats({0}, {})},
               {{"axis", -1}}, 1);
  run_one_node("OneHot", {longs({0, 3, -1, 4}, {2, 2}), depth, floats({1}, {}), floats({0}, {})},
               {{"axis", 0}}, 1);
  run_one_node("Prod", {longs({2, 3, 7}, {3}), torch::tensor({0}, torch::kInt)}, {}, 1);
  run_one_node("Prod", {longs({}, {0}), torch::tensor({0}, torch::kInt)}, {}, 1);
  run_one_node("AddN", {a, b, a}, {}, 1);
  run_one_node("AddN", {a, floats({0.1F}, {1, 1})}, {}, 1);
  run_one_node("Slice", {a, longs({1, 0}, {2}), longs({-1, 1}, {2})}, {}, 1);
  EXPECT_THROW(run_one_node("Slice", {a, longs({1, 0}, {2}), longs({3, 1}, {2})}, {}, 1),
               InvalidArgument);
  const Value thin = floats({1, 2}, {1, 2, 1});
  run_one_node("Squeeze", {thin}, {}, 1);
  run_one_node("Squeeze", {thin},
               {{"squeeze_dims", graph::AttrValue::list(std::vector<std::int64_t>{-1})}}, 1);
  EXPECT_THROW(
      run_one_node("Squeeze", {thin},
                   {{"squeeze_dims", graph::AttrValue::list(std::vector<std::int64_t>{1})}}, 1),
      InvalidArgument);
}

TEST(ArenaKernels, WriteNumbersAsText) {
  run_one_node("AsString", {longs({0, -5, std::numeric_limits<std::int64_t>::min()}, {3})},
               {{"T", DataType::kInt64}}, 1);
  run_one_node("AsString", {longs({7}, {})}, {{"T", DataType::kInt64}, {"width", 5}}, 1);
  run_one_node("AsString", {floats({7.5F}, {1})}, {{"T", DataType::kFloat}}, 1);
}

}  // namespace
}  // namespace muster::executor::arena
