#include "muster/saved_model/executor/whole_arithmetic_internal.h"

#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "muster/base/error.h"
#include "muster/saved_model/executor/executable_model.h"
#include "muster/saved_model/executor/one_node_internal.h"
#include "muster/testing/message_of.h"

namespace muster::executor {
namespace {

using graph::DataType;
using muster::testing::message_of;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

constexpr at::ScalarType kWholeTypes[] = {at::kInt, at::kLong, at::kShort, at::kChar, at::kByte};

at::Tensor long_values(const std::vector<std::int64_t>& values) {
  return at::tensor(values, at::kLong);
}

at::Tensor run_first(const std::string& op, const std::vector<Value>& inputs,
                     graph::Attrs attrs = {}) {
  return std::get<at::Tensor>(run_one_node(op, inputs, std::move(attrs), 1)[0]);
}

// The same with constants, which are computed when the model is loaded.
at::Tensor run_folded(const std::string& op, const std::vector<at::Tensor>& inputs) {
  graph::MetaGraph meta;
  graph::NodeDef node{.name = "y", .op = op};
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    node.inputs.push_back(fmt::format("in{}", i));
    meta.graph.nodes.push_back(
        graph::constant_node(node.inputs.back(), to_tensor_value(inputs[i])));
  }
  meta.graph.nodes.push_back(node);
  meta.signatures["f"].outputs["y"] = {.name = "y:0", .shape = graph::Shape::any()};
  return std::get<at::Tensor>(ExecutableModel::from(meta, {}).run("f", {}).at("y"));
}

std::vector<std::int64_t> numbers_of(const at::Tensor& tensor) {
  const at::Tensor wide = tensor.to(at::kLong).contiguous();
  return {wide.data_ptr<std::int64_t>(), wide.data_ptr<std::int64_t>() + wide.numel()};
}

// Without zero.
at::Tensor extreme_values(at::ScalarType type) {
  const bool is_signed = at::isSignedType(type);
  const int bits = static_cast<int>(8 * c10::elementSize(type)) - (is_signed ? 1 : 0);
  const auto most = static_cast<std::int64_t>((std::uint64_t{1} << bits) - 1);
  if (!is_signed) return long_values({1, 2, 3, most / 2, most - 1, most}).to(type);
  return long_values({-most - 1, -most, -7, -2, -1, 1, 2, 7, most - 1, most}).to(type);
}

// In numbers that nothing overflows, and then wrapped to the type.
std::int64_t wanted_value(const std::string& op, std::int64_t a, std::int64_t b,
                          at::ScalarType type) {
  const auto wide_a = static_cast<__int128>(a);
  const auto wide_b = static_cast<__int128>(b);
  const __int128 quotient = wide_a / wide_b;
  const __int128 rest = wide_a % wide_b;
  const bool rounds = rest != 0 && (rest < 0) != (wide_b < 0);
  __int128 result = 0;
  if (op == "Div" || op == "TruncateDiv") result = quotient;
  if (op == "FloorDiv") result = quotient - (rounds ? 1 : 0);
  if (op == "FloorMod") result = rest + (rounds ? wide_b : 0);
  if (op == "Mod" || op == "TruncateMod") result = rest;
  return at::scalar_tensor(static_cast<std::int64_t>(result), at::kLong).to(type).item().toLong();
}

TEST(WholeArithmetic, DividesAllExtremesOfAllTypes) {
  for (const auto type : kWholeTypes) {
    const at::Tensor left = extreme_values(type).reshape({-1, 1});
    const at::Tensor right = extreme_values(type).reshape({1, -1});
    for (const std::string op :
         {"Div", "TruncateDiv", "FloorDiv", "FloorMod", "Mod", "TruncateMod"}) {
      std::vector<std::int64_t> all;
      for (const auto a : numbers_of(left)) {
        for (const auto b : numbers_of(right)) all.push_back(wanted_value(op, a, b, type));
      }
      EXPECT_THAT(numbers_of(run_first(op, {left, right})), ElementsAreArray(all)) << op << type;
      EXPECT_THAT(numbers_of(run_folded(op, {left, right})), ElementsAreArray(all)) << op << type;
    }
  }
}

TEST(WholeArithmetic, ZeroDividesNothing) {
  for (const auto type : kWholeTypes) {
    for (const char* op : {"Div", "TruncateDiv", "FloorDiv", "FloorMod", "Mod", "TruncateMod"}) {
      EXPECT_THAT(message_of([&] {
                    run_first(op, {extreme_values(type), at::zeros({1}, type)});
                  }),
                  HasSubstr("integer division by zero"));
      EXPECT_THROW(run_folded(op, {extreme_values(type), at::zeros({1}, type)}), InvalidArgument);
    }
  }
  EXPECT_TRUE(std::isinf(run_first("Div", {at::ones({1}), at::zeros({1})}).item<float>()));
}

TEST(WholeArithmetic, PowersWrapAndAreNeverNegative) {
  const auto power = [](std::vector<std::int64_t> base, std::vector<std::int64_t> exponent) {
    return numbers_of(run_first("Pow", {long_values(base), long_values(exponent)}));
  };
  EXPECT_THAT(power({3, -2, 0, 10, -1, 7}, {4, 3, 0, 18, INT64_MAX, 1}),
              ElementsAreArray({81L, -8L, 1L, 1'000'000'000'000'000'000L, -1L, 7L}));
  EXPECT_THAT(power({2, 2, INT64_MIN}, {63, 64, 2}), ElementsAreArray({INT64_MIN, 0L, 0L}));
  EXPECT_THROW(power({2}, {-1}), InvalidArgument);
}

TEST(WholeArithmetic, NumbersThatDoNotFitAreCastToTheSmallest) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const at::Tensor doubles =
      at::tensor(std::vector<double>{kNan, kInf, -kInf, 1e30, -1e30, -1.9, 2147483647.5,
                                     -2147483648.0, 300.5, -129.0},
                 at::kDouble);
  // Some numbers, and as many that libtorch has a loop of its own for.
  for (const std::int64_t times : {1, 100}) {
    const at::Tensor in = doubles.repeat({times});
    const auto cast = [&](DataType type) {
      auto all = numbers_of(run_first("Cast", {in}, {{"DstT", type}}));
      all.resize(10);
      return all;
    };
    constexpr std::int64_t kLeast = INT32_MIN;
    EXPECT_THAT(
        cast(DataType::kInt32),
        ElementsAreArray({kLeast, kLeast, kLeast, kLeast, kLeast, std::int64_t{-1},
                          std::int64_t{INT32_MAX}, kLeast, std::int64_t{300}, std::int64_t{-129}}));
    EXPECT_THAT(cast(DataType::kInt64),
                ElementsAreArray({INT64_MIN, INT64_MIN, INT64_MIN, INT64_MIN, INT64_MIN, -1L,
                                  2147483647L, -2147483648L, 300L, -129L}));
    EXPECT_THAT(cast(DataType::kUint8), ElementsAreArray({0, 0, 0, 0, 0, 255, 255, 0, 44, 127}));
    EXPECT_THAT(cast(DataType::kInt8), ElementsAreArray({0, 0, 0, 0, 0, -1, -1, 0, 44, 127}));
  }
  const at::Tensor floats = doubles.to(at::kFloat);
  EXPECT_THAT(numbers_of(run_first("Cast", {floats}, {{"DstT", DataType::kInt32}})).at(6),
              INT32_MIN);
}

TEST(WholeArithmetic, RangesHaveTheirNumberOfElementsWhereverTheyLie) {
  const auto range = [](std::int64_t start, std::int64_t limit, std::int64_t step) {
    const auto scalar = [](std::int64_t value) { return at::scalar_tensor(value, at::kLong); };
    return numbers_of(run_first("Range", {scalar(start), scalar(limit), scalar(step)}));
  };
  constexpr std::int64_t kFar = std::int64_t{1} << 62;
  EXPECT_THAT(range(kFar, kFar + 3, 1), ElementsAreArray({kFar, kFar + 1, kFar + 2}));
  EXPECT_THAT(range(10, 0, INT64_MIN), ElementsAreArray({10L}));
  EXPECT_THAT(range(INT64_MIN, INT64_MAX, INT64_MAX),
              ElementsAreArray({INT64_MIN, -1L, INT64_MAX - 1}));
  EXPECT_THAT(range(3, -3, -2), ElementsAreArray({3L, 1L, -1L}));
  EXPECT_TRUE(range(INT64_MAX, INT64_MIN, 1).empty());
  EXPECT_THROW(range(INT64_MIN, INT64_MAX, 1), ResourceExhausted);
  EXPECT_THROW(range(0, 1, 0), InvalidArgument);
}

TEST(WholeArithmetic, NoSizeOrIndexIsTakenForWhatItIsNot) {
  const auto scalar = [](std::int64_t value) { return at::scalar_tensor(value, at::kLong); };
  // More classes than memory holds, of no element.
  EXPECT_THROW(run_first("OneHot", {at::empty({0}, at::kInt), scalar(std::int64_t{1} << 40),
                                    at::scalar_tensor(1.0F), at::scalar_tensor(0.0F)}),
               ResourceExhausted);
  EXPECT_THROW(run_first("OneHot", {at::full({1}, NAN), scalar(2), at::scalar_tensor(1.0F),
                                    at::scalar_tensor(0.0F)}),
               InvalidArgument);
  EXPECT_THROW(run_first("GatherV2", {at::ones({2}), at::full({1}, NAN), scalar(0)}),
               InvalidArgument);
  // One element of a step that reaches beyond memory.
  EXPECT_THAT(numbers_of(run_first("StridedSlice", {long_values({5, 6, 7}), long_values({1}),
                                                    long_values({3}), long_values({INT64_MAX})})),
              ElementsAreArray({6L}));
  // Sizes whose strides do not fit, though there is no element.
  const Value none = at::empty({0, 2}, at::kFloat);
  EXPECT_THROW(
      run_first("Reshape", {none, long_values({0, std::int64_t{1} << 40, std::int64_t{1} << 40})}),
      InvalidArgument);
}

TEST(WholeArithmetic, ATensorArrayDoesNotGrowBeyondAllElements) {
  graph::MetaGraph meta;
  const auto constant = [&](const char* name, graph::TensorValue value) {
    meta.graph.nodes.push_back(graph::constant_node(name, std::move(value)));
  };
  constant("size", graph::TensorValue::scalar<std::int32_t>(1));
  constant("value", graph::TensorValue::scalar(1.0F));
  meta.graph.nodes.push_back({.name = "array",
                              .op = "TensorArrayV3",
                              .inputs = {"size"},
                              .attrs = {{"dtype", DataType::kFloat}, {"dynamic_size", true}}});
  meta.graph.nodes.push_back(
      graph::placeholder_node("index", DataType::kInt64, graph::Shape::any()));
  meta.graph.nodes.push_back({.name = "write",
                              .op = "TensorArrayWriteV3",
                              .inputs = {"array", "index", "value", "array:1"}});
  meta.graph.nodes.push_back(
      {.name = "y", .op = "TensorArraySizeV3", .inputs = {"array", "write"}});
  auto& signature = meta.signatures["f"];
  signature.inputs["index"] = {
      .name = "index:0", .dtype = DataType::kInt64, .shape = graph::Shape::any()};
  signature.outputs["y"] = {.name = "y:0", .dtype = DataType::kInt32, .shape = graph::Shape::any()};
  const auto model = ExecutableModel::from(meta, {});
  const auto size_with = [&](std::int64_t index) {
    return std::get<at::Tensor>(
               model.run("f", {{"index", at::scalar_tensor(index, at::kLong)}}).at("y"))
        .item<int>();
  };
  EXPECT_EQ(size_with(4), 5);
  EXPECT_THROW(size_with(INT64_MAX), ResourceExhausted);
}

}  // namespace
}  // namespace muster::executor
