#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <limits>

#include "muster/base/error.h"
#include "muster/base/fingerprint.h"
#include "muster/saved_model/executor/executable_model.h"
#include "muster/saved_model/executor/one_node_internal.h"
#include "muster/testing/temp_dir.h"

namespace muster::executor {
namespace {

using graph::AttrValue;
using graph::DataType;
using ::testing::ElementsAre;

using Ints = std::vector<std::int64_t>;

at::Tensor floats(std::vector<float> values, Ints shape) {
  return at::tensor(values, at::kFloat).reshape(shape);
}
at::Tensor longs(Ints values) { return at::tensor(values, at::kLong); }
at::Tensor ints(Ints values) { return at::tensor(values, at::kLong).to(at::kInt); }
at::Tensor number(std::int64_t value) { return at::scalar_tensor(value, at::kInt); }
StringTensor words(std::vector<std::string> values) { return StringTensor(std::move(values)); }
AttrValue list(Ints values) { return AttrValue::list(std::move(values)); }

std::vector<Value> run_all(const std::string& op, const std::vector<Value>& inputs,
                           graph::Attrs attrs, int outputs) {
  return run_one_node(op, inputs, std::move(attrs), outputs);
}

at::Tensor run(const std::string& op, const std::vector<Value>& inputs, graph::Attrs attrs = {}) {
  return std::get<at::Tensor>(run_all(op, inputs, std::move(attrs), 1)[0]);
}

std::vector<std::string> run_strings(const std::string& op, const std::vector<Value>& inputs,
                                     graph::Attrs attrs = {}) {
  return std::get<StringTensor>(run_all(op, inputs, std::move(attrs), 1)[0]).values();
}

void expect_equal(const at::Tensor& found, const at::Tensor& wanted) {
  EXPECT_EQ(found.scalar_type(), wanted.scalar_type());
  ASSERT_EQ(found.sizes(), wanted.sizes());
  EXPECT_TRUE(at::allclose(found.to(at::kDouble), wanted.to(at::kDouble), 1e-5, 1e-6))
      << found << " and not " << wanted;
}

TEST(MathOps, ComputeAsLibtorchDoes) {
  const at::Tensor a = floats({1, -2, 3.5F, 4}, {2, 2});
  const at::Tensor b = floats({2, 5}, {2});
  expect_equal(run("AddV2", {a, b}), a + b);
  expect_equal(run("Sub", {a, b}), a - b);
  expect_equal(run("RealDiv", {a, b}), a / b);
  expect_equal(run("SquaredDifference", {a, b}), (a - b) * (a - b));
  expect_equal(run("Greater", {a, b}), a > b);
  expect_equal(run("MatMul", {a, a}, {{"transpose_b", true}}), a.matmul(a.t()));
  expect_equal(run("Relu6", {a * 2}), floats({2, 0, 6, 6}, {2, 2}));
  expect_equal(run("Softmax", {a}), at::softmax(a, 1));
  expect_equal(run("Cast", {a}, {{"DstT", DataType::kInt32}}), ints({1, -2, 3, 4}).reshape({2, 2}));
}

TEST(MathOps, DivideWholeNumbersAsTensorFlowDoes) {
  expect_equal(run("Div", {ints({-7, 7}), ints({2, 2})}), ints({-3, 3}));
  expect_equal(run("FloorDiv", {ints({-7, 7}), ints({2, 2})}), ints({-4, 3}));
  expect_equal(run("FloorMod", {ints({-7, 7}), ints({2, 2})}), ints({1, 1}));
  EXPECT_THROW(run("FloorDiv", {ints({1}), ints({0})}), InvalidArgument);
}

TEST(MathOps, CompareStrings) {
  // One row stays a row.
  EXPECT_EQ(run("NotEqual", {StringTensor({"a"}, {1, 1}), StringTensor({""}, {})}).dim(), 2);
  expect_equal(
      run("Equal", {StringTensor({"a", "b"}, {2, 1}), words({"b", "c", "a"})}),
      at::tensor(std::vector<std::int64_t>{0, 0, 1, 1, 0, 0}).to(at::kBool).reshape({2, 3}));
  EXPECT_THROW(run("Equal", {words({"a", "b"}), words({"a", "b", "c"})}), InvalidArgument);
  expect_equal(run("Equal", {words({"a", "b"}), StringTensor({"b"}, {})}),
               at::tensor(std::vector<std::int64_t>{0, 1}).to(at::kBool));
}

TEST(ReductionOps, ReduceTheAxesThatAreNamed) {
  const at::Tensor in = at::arange(24, at::kFloat).reshape({2, 3, 4});
  expect_equal(run("Mean", {in, ints({0, -1})}), in.mean(at::IntArrayRef({0, 2})));
  expect_equal(run("Sum", {in, ints({1})}, {{"keep_dims", true}}), in.sum(1, true));
  expect_equal(run("Max", {in, ints({2})}), in.amax(2));
  expect_equal(run("Prod", {in + 1, ints({0, 2})}), (in + 1).prod(2).prod(0));
  expect_equal(run("All", {in > 0, ints({2})}), (in > 0).all(2));
  expect_equal(run("Sum", {in, ints({})}), in);
  expect_equal(run("ArgMax", {in, number(1)}), at::full({2, 4}, 2, at::kLong));
}

TEST(ReductionOps, TopKTakesTheFirstOfEquals) {
  const auto out = run_all("TopKV2", {floats({1, 5, 5, 0}, {4}), number(2)}, {}, 2);
  expect_equal(std::get<at::Tensor>(out[0]), floats({5, 5}, {2}));
  expect_equal(std::get<at::Tensor>(out[1]), ints({1, 2}));
}

TEST(ArrayOps, MoveStringsLikeNumbers) {
  EXPECT_THAT(run_strings("GatherV2", {words({"a", "b", "c"}), ints({2, 0}), number(0)}),
              ElementsAre("c", "a"));
  EXPECT_THAT(run_strings("ConcatV2", {words({"a"}), words({"b", "c"}), number(0)}),
              ElementsAre("a", "b", "c"));
  EXPECT_THAT(run_strings("Tile", {words({"a", "b"}), ints({2})}), ElementsAre("a", "b", "a", "b"));
  const at::Tensor first = at::tensor(std::vector<std::int64_t>{1, 0}).to(at::kBool);
  EXPECT_THAT(run_strings("Select", {first, words({"a", "b"}), words({"c", "d"})}),
              ElementsAre("a", "d"));
}

TEST(ArrayOps, ChangeShapesOfStringsWithoutCopies) {
  const StringTensor in({"a", "b", "c", "d", "e", "f"}, {2, 3});
  const auto check = [&](const char* op, const at::Tensor& with, const Ints& shape) {
    const auto out = std::get<StringTensor>(run_all(op, {in, with}, {}, 1)[0]);
    EXPECT_EQ(out.shape(), shape);
    EXPECT_EQ(&out.values(), &in.values());
  };
  check("Reshape", ints({3, -1}), {3, 2});
  check("Reshape", ints({6}), {6});
  check("ExpandDims", number(0), {1, 2, 3});
  check("ExpandDims", number(-1), {2, 3, 1});
  EXPECT_THROW(run_all("Reshape", {in, ints({4, -1})}, {}, 1), InvalidArgument);
  EXPECT_THROW(run_all("Reshape", {in, ints({-2, -3})}, {}, 1), InvalidArgument);
  EXPECT_THROW(run_all("ExpandDims", {in, number(3)}, {}, 1), InvalidArgument);
}

TEST(ArrayOps, WhereFindsWhatIsNotZeroInAnyShape) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const at::Tensor& in :
       {floats({0, nan, -1, 0, 0, 5}, {1, 3, 2}), floats({-0.0F, 1}, {2}), at::zeros({2, 0}),
        floats({1}, {}), floats({0}, {}), at::arange(8192).reshape({2, 4096}).remainder(3)}) {
    for (const auto type : {at::kFloat, at::kLong, at::kBool, at::kDouble}) {
      if (type == at::kLong && in.isnan().any().item<bool>()) continue;
      const at::Tensor typed = in.to(type);
      expect_equal(run("Where", {typed}), at::nonzero(typed));
      expect_equal(run("Where", {typed.transpose(0, -1)}), at::nonzero(typed.transpose(0, -1)));
    }
  }
}

TEST(ArrayOps, ChangeShapes) {
  const at::Tensor in = at::arange(6, at::kFloat).reshape({2, 3});
  expect_equal(run("Reshape", {in, ints({3, -1})}), in.reshape({3, 2}));
  expect_equal(run("ExpandDims", {in, number(-1)}), in.unsqueeze(2));
  expect_equal(run("Squeeze", {in.unsqueeze(1)}, {{"squeeze_dims", list({1})}}), in);
  expect_equal(run("Shape", {in}), ints({2, 3}));
  expect_equal(run("Pack", {in, in}, {{"axis", 1}}), at::stack({in, in}, 1));
  expect_equal(run("Transpose", {in, ints({1, 0})}), in.t());
  expect_equal(run("Fill", {ints({2, 2}), at::scalar_tensor(7.0F)}), at::full({2, 2}, 7.0F));
  expect_equal(run("PadV2", {in, ints({1, 0, 0, 2}).reshape({2, 2}), at::scalar_tensor(9.0F)}),
               at::constant_pad_nd(in, {0, 2, 1, 0}, 9));
  EXPECT_THROW(run("Reshape", {in, ints({4, 4})}), InvalidArgument);
}

TEST(ArrayOps, CountAndSort) {
  expect_equal(
      run("OneHot", {ints({1, -1}), number(3), at::scalar_tensor(1.0F), at::scalar_tensor(0.0F)}),
      floats({0, 1, 0, 0, 0, 0}, {2, 3}));
  expect_equal(run("Bucketize", {floats({17, 18, 64, 99}, {4})},
                   {{"boundaries", AttrValue::list(std::vector<float>{18, 65})}}),
               ints({0, 1, 1, 2}));
  const auto unique = run_all("Unique", {longs({5, 3, 5})}, {}, 2);
  expect_equal(std::get<at::Tensor>(unique[0]), longs({5, 3}));
  expect_equal(std::get<at::Tensor>(unique[1]), ints({0, 1, 0}));
  expect_equal(run("Where", {floats({0, 2, 3, 0}, {2, 2})}), longs({0, 1, 1, 0}).reshape({2, 2}));
}

TEST(SliceOps, FollowTheMasks) {
  const at::Tensor in = at::arange(12, at::kFloat).reshape({3, 4});
  const auto strided = [&](Ints begin, Ints end, Ints strides, graph::Attrs attrs = {}) {
    return run("StridedSlice", {in, ints(begin), ints(end), ints(strides)}, std::move(attrs));
  };
  expect_equal(strided({0, 1}, {2, 3}, {1, 1}), in.slice(0, 0, 2).slice(1, 1, 3));
  expect_equal(strided({-1}, {0}, {1}, {{"shrink_axis_mask", 1}}), in[2]);
  expect_equal(strided({0, 0}, {0, 2}, {1, 1}, {{"ellipsis_mask", 1}}), in.slice(1, 0, 2));
  expect_equal(strided({0}, {0}, {1}, {{"new_axis_mask", 1}}), in.unsqueeze(0));
  expect_equal(strided({0}, {0}, {-1}, {{"begin_mask", 1}, {"end_mask", 1}}), in.flip(0));
  expect_equal(run("Slice", {in, ints({1, 0}), ints({-1, 2})}), in.slice(0, 1).slice(1, 0, 2));
  EXPECT_THROW(run("Slice", {in, ints({1, 0}), ints({3, 2})}), InvalidArgument);
}

TEST(SliceOps, GatherAndScatter) {
  const at::Tensor in = at::arange(6, at::kFloat).reshape({3, 2});
  expect_equal(run("GatherV2", {in, ints({1, 1}), number(1)}), in.index_select(1, longs({1, 1})));
  expect_equal(run("GatherNd", {in, ints({2, 1, 0, 0}).reshape({2, 2})}), floats({5, 0}, {2}));
  expect_equal(run("ScatterNd", {ints({1, 1}).reshape({2, 1}), floats({1, 2}, {2}), ints({3})}),
               floats({0, 3, 0}, {3}));
  EXPECT_THROW(run("GatherV2", {in, ints({3}), number(0)}), InvalidArgument);
}

TEST(SliceOps, GatherSingleElements) {
  const at::Tensor in = at::arange(24).reshape({2, 3, 4});
  const at::Tensor places = longs({1, 2, 3, 0, 0, 0, 1, 0, 2}).reshape({3, 3});
  for (const auto type : {at::kFloat, at::kLong, at::kBool, at::kByte, at::kShort, at::kDouble}) {
    const at::Tensor typed = in.to(type);
    const at::Tensor wanted = longs({23, 0, 14}).to(type);
    expect_equal(run("GatherNd", {typed, places}), wanted);
    expect_equal(run("GatherNd", {typed, places.to(at::kInt)}), wanted);
    expect_equal(run("GatherNd", {typed, places.reshape({3, 1, 3})}), wanted.reshape({3, 1}));
    // Those of another order in memory, and rows instead of elements.
    expect_equal(run("GatherNd", {typed.transpose(0, 2), longs({3, 2, 1}).reshape({1, 3})}),
                 wanted.slice(0, 0, 1));
    expect_equal(run("GatherNd", {typed, places.slice(1, 0, 2)}),
                 at::stack({typed[1][2], typed[0][0], typed[1][0]}));
  }
  const StringTensor strings({"a", "b", "c", "d"}, {2, 2});
  EXPECT_THAT(run_strings("GatherNd", {strings, longs({1, 0, 0, 1}).reshape({2, 2})}),
              ElementsAre("c", "b"));
  expect_equal(run("GatherNd", {in, at::zeros({0, 3}, at::kLong)}), at::zeros({0}, at::kLong));
  for (const Ints& outside : {Ints{2, 0, 0}, Ints{0, 0, -1}, Ints{0, 3, 0}}) {
    EXPECT_THROW(run("GatherNd", {in, longs(outside).reshape({1, 3})}), InvalidArgument);
  }
  EXPECT_THROW(run_strings("GatherNd", {strings, longs({0, 2}).reshape({1, 2})}), InvalidArgument);
}

TEST(NnOps, PadAsTensorFlowDoes) {
  const at::Tensor in = at::rand({2, 5, 6, 3});
  const at::Tensor filter = at::rand({3, 3, 3, 4});
  // Five rows in steps of two: one row is added on each side. Six columns: one, on the right.
  const at::Tensor wanted = at::conv2d(at::constant_pad_nd(in.permute({0, 3, 1, 2}), {0, 1, 1, 1}),
                                       filter.permute({3, 2, 0, 1}), {}, at::IntArrayRef({2, 2}));
  const graph::Attrs last{{"strides", list({1, 2, 2, 1})}, {"padding", "SAME"}};
  expect_equal(run("Conv2D", {in, filter}, last), wanted.permute({0, 2, 3, 1}));
  const graph::Attrs first{
      {"strides", list({1, 1, 2, 2})}, {"padding", "SAME"}, {"data_format", "NCHW"}};
  expect_equal(run("Conv2D", {in.permute({0, 3, 1, 2}), filter}, first), wanted);
}

TEST(NnOps, ConvolveVolumesPaddedAsTensorFlowDoes) {
  const at::Tensor in = at::rand({2, 4, 5, 6, 3});
  const at::Tensor filter = at::rand({3, 2, 3, 3, 4});
  const auto channels_first = in.permute({0, 4, 1, 2, 3});
  const auto kernel = filter.permute({4, 3, 0, 1, 2});
  // Four in steps of two and a reach of three: one is added behind. Five and a reach of two: one,
  // behind. Six: one on each side.
  const auto around = at::constant_pad_nd(channels_first, {1, 1, 0, 1, 0, 1});
  const graph::Attrs same{{"strides", list({1, 2, 1, 1, 1})}, {"padding", "SAME"}};
  expect_equal(run("Conv3D", {in, filter}, same),
               at::conv3d(around, kernel, {}, at::IntArrayRef({2, 1, 1})).permute({0, 2, 3, 4, 1}));
  const graph::Attrs valid{{"strides", list({1, 1, 1, 1, 1})}, {"padding", "VALID"}};
  expect_equal(run("Conv3D", {in, filter}, valid),
               at::conv3d(channels_first, kernel).permute({0, 2, 3, 4, 1}));
  EXPECT_THROW(run("Conv3D", {in, at::rand({5, 2, 3, 3, 4})}, valid), InvalidArgument);
  EXPECT_THROW(run("Conv3D", {in, at::rand({3, 2, 3, 2, 4})}, valid), InvalidArgument);
  EXPECT_THROW(run("Conv3D", {in.select(0, 0), filter}, valid), InvalidArgument);
}

TEST(NnOps, KeepTheChannelsOfADepthwiseConvolutionApart) {
  const at::Tensor in = at::rand({1, 4, 4, 2});
  const at::Tensor filter = at::rand({2, 2, 2, 3});
  const at::Tensor out = run("DepthwiseConv2dNative", {in, filter},
                             {{"strides", list({1, 1, 1, 1})}, {"padding", "VALID"}});
  for (std::int64_t channel = 0; channel < 2; ++channel) {
    const at::Tensor weight = filter.select(2, channel).permute({2, 0, 1}).unsqueeze(1);
    const at::Tensor wanted = at::conv2d(in.select(3, channel).unsqueeze(1), weight);
    expect_equal(out.slice(3, 3 * channel, 3 * channel + 3), wanted.permute({0, 2, 3, 1}));
  }
}

TEST(NnOps, PoolOnlyWhatIsThere) {
  const at::Tensor in = floats({-1, -2, -3}, {1, 1, 3, 1});
  const graph::Attrs attrs{
      {"ksize", list({1, 1, 2, 1})}, {"strides", list({1, 1, 2, 1})}, {"padding", "SAME"}};
  expect_equal(run("MaxPool", {in}, attrs), floats({-1, -3}, {1, 1, 2, 1}));
  expect_equal(run("AvgPool", {in}, attrs), floats({-1.5F, -3}, {1, 1, 2, 1}));
}

TEST(NnOps, NormaliseAndAddABias) {
  const at::Tensor in = at::rand({2, 2, 2, 3});
  const at::Tensor scale = at::rand({3});
  const at::Tensor offset = at::rand({3});
  const at::Tensor mean = at::rand({3});
  const at::Tensor variance = at::rand({3});
  expect_equal(run("FusedBatchNormV3", {in, scale, offset, mean, variance},
                   {{"is_training", false}, {"epsilon", 0.001F}}),
               (in - mean) / at::sqrt(variance + 0.001) * scale + offset);
  EXPECT_THROW(run("FusedBatchNormV3", {in, scale, offset, mean, variance}), Unimplemented);
  expect_equal(run("BiasAdd", {in, offset}), in + offset);
}

TEST(StringOps, TurnStringsIntoNumbersAndBack) {
  expect_equal(run("StringToNumber", {words({" 1.5", "-2"})}), floats({1.5F, -2}, {2}));
  EXPECT_THROW(run("StringToNumber", {words({"1.5x"})}), InvalidArgument);
  EXPECT_THAT(run_strings("AsString", {longs({-3, 12})}), ElementsAre("-3", "12"));
  EXPECT_THAT(run_strings("AsString", {floats({0.5F}, {1})}), ElementsAre("0.500000"));
  EXPECT_THAT(run_strings("StringStrip", {words({" a b\t", ""})}), ElementsAre("a b", ""));
  EXPECT_THAT(
      run_strings("StringJoin", {words({"a", "b"}), StringTensor({"x"}, {})}, {{"separator", "-"}}),
      ElementsAre("a-x", "b-x"));
}

TEST(StringOps, HashAsFeatureColumnsDo) {
  expect_equal(
      run("StringToHashBucketFast", {words({"Hello", "TensorFlow"})}, {{"num_buckets", 10}}),
      longs({static_cast<std::int64_t>(fingerprint64("Hello") % 10),
             static_cast<std::int64_t>(fingerprint64("TensorFlow") % 10)}));
}

TEST(SparseOps, FillRowsThatAreEmpty) {
  const auto out = run_all("SparseFillEmptyRows",
                           {longs({0, 1, 2, 0}).reshape({2, 2}), words({"a", "b"}), longs({4, 2}),
                            StringTensor({"-"}, {})},
                           {}, 4);
  expect_equal(std::get<at::Tensor>(out[0]), longs({0, 1, 1, 0, 2, 0, 3, 0}).reshape({4, 2}));
  EXPECT_THAT(std::get<StringTensor>(out[1]).values(), ElementsAre("a", "-", "b", "-"));
  expect_equal(std::get<at::Tensor>(out[2]), longs({0, 1, 0, 1}).to(at::kBool));
  expect_equal(std::get<at::Tensor>(out[3]), longs({0, 2}));
}

TEST(SparseOps, SumSegments) {
  const at::Tensor data = floats({1, 2, 3, 4, 5, 6}, {3, 2});
  const std::vector<Value> inputs{data, ints({0, 2, 1}), ints({0, 0, 2})};
  expect_equal(run("SparseSegmentSum", inputs), floats({6, 8, 0, 0, 3, 4}, {3, 2}));
  expect_equal(run("SparseSegmentMean", inputs), floats({3, 4, 0, 0, 3, 4}, {3, 2}));
  EXPECT_THROW(run("SparseSegmentSum", {data, ints({3}), ints({0})}), InvalidArgument);
}

TEST(SparseOps, SumSegmentsInAnyOrder) {
  const at::Tensor data = floats({1, 2, 3, 4, 5, 6}, {3, 2});
  expect_equal(run("UnsortedSegmentSum", {data, ints({2, -1, 2}), number(4)}),
               floats({0, 0, 0, 0, 6, 8, 0, 0}, {4, 2}));
  EXPECT_THROW(run("UnsortedSegmentSum", {data, ints({0, 1, 4}), number(4)}), InvalidArgument);
  EXPECT_THROW(run("UnsortedSegmentSum", {data, ints({0, 1}), number(4)}), InvalidArgument);
  EXPECT_THROW(run("UnsortedSegmentSum", {data, ints({0, 1, 0}), number(-1)}), InvalidArgument);
}

TEST(SparseOps, ReshapeAndDensify) {
  const auto out = run_all(
      "SparseReshape", {longs({0, 1, 1, 2}).reshape({2, 2}), longs({2, 3}), longs({3, -1})}, {}, 2);
  expect_equal(std::get<at::Tensor>(out[0]), longs({0, 1, 2, 1}).reshape({2, 2}));
  expect_equal(std::get<at::Tensor>(out[1]), longs({3, 2}));
  expect_equal(run("SparseToDense", {longs({0, 1, 1, 0}).reshape({2, 2}), longs({2, 2}),
                                     floats({5, 6}, {2}), at::scalar_tensor(0.0F)}),
               floats({0, 5, 6, 0}, {2, 2}));
}

TEST(SparseOps, RefusePlacesThatTakeNoMemory) {
  // Places of no axes: any number of them is no element at all, and four sizes for each would wrap.
  const at::Tensor places = at::empty({std::int64_t{1} << 62, 0}, at::kLong);
  const at::Tensor none = at::empty({0}, at::kLong);
  EXPECT_THROW(run_all("SparseReshape", {places, none, longs({1, 1, 1, 1})}, {}, 2),
               InvalidArgument);
  EXPECT_THROW(run("SparseToDense", {places, none, floats({1}, {1}), at::scalar_tensor(0.0F)}),
               InvalidArgument);
  const std::int64_t large = std::int64_t{1} << 40;
  EXPECT_THROW(run_all("SparseReshape",
                       {longs({0, 0}).reshape({1, 2}), longs({large, large}), longs({-1})}, {}, 2),
               InvalidArgument);
}

TEST(SparseOps, CrossAnyNumberOfColumns) {
  const auto crossed = [](const at::Tensor& first, const at::Tensor& last, std::size_t count) {
    std::vector<Value> columns(count, first);
    columns.back() = last;
    return std::get<at::Tensor>(run_all(
        "SparseCross", columns,
        {{"N", 0}, {"hashed_output", true}, {"num_buckets", 1 << 30}, {"hash_key", 1}}, 3)[1]);
  };
  const at::Tensor seven = longs({7}).reshape({1, 1});
  std::uint64_t hash = 1;
  for (int i = 0; i < 64'999; ++i) hash = concatenate_fingerprints(hash, 7);
  const auto with = [&](std::uint64_t value) {
    return static_cast<std::int64_t>(concatenate_fingerprints(hash, value) % (1 << 30));
  };
  expect_equal(crossed(seven, longs({8, 9}).reshape({1, 2}), 65'000), longs({with(8), with(9)}));
  // A column without a value leaves nothing to combine; two values each would never end.
  expect_equal(crossed(seven, at::empty({1, 0}, at::kLong), 100), longs({}));
  EXPECT_THROW(crossed(longs({1, 2}).reshape({1, 2}), seven, 100), ResourceExhausted);
}

TEST(SparseOps, CrossEveryPairOfARow) {
  const auto out = run_all(
      "SparseCross",
      {longs({0, 0, 0, 1, 1, 0}).reshape({3, 2}), words({"a", "b", "c"}), longs({2, 2}),
       longs({7, 8}).reshape({2, 1})},
      {{"N", 1}, {"hashed_output", true}, {"num_buckets", 1000}, {"hash_key", 0xDECAFCAFFE}}, 3);
  const auto wanted = [](const char* word, std::uint64_t id) {
    return static_cast<std::int64_t>(
        concatenate_fingerprints(concatenate_fingerprints(0xDECAFCAFFE, fingerprint64(word)), id) %
        1000);
  };
  expect_equal(std::get<at::Tensor>(out[0]), longs({0, 0, 0, 1, 1, 0}).reshape({3, 2}));
  expect_equal(std::get<at::Tensor>(out[1]),
               longs({wanted("a", 7), wanted("b", 7), wanted("c", 8)}));
  expect_equal(std::get<at::Tensor>(out[2]), longs({2, 2}));
}

TEST(ParsingOps, DecodeRowsOfCsv) {
  const auto out =
      run_all("DecodeCSV", {words({"1,x", ",\"a,b\""}), ints({-5}), words({""})},
              {{"OUT_TYPE", AttrValue::list({DataType::kInt32, DataType::kString})}}, 2);
  expect_equal(std::get<at::Tensor>(out[0]), ints({1, -5}));
  EXPECT_THAT(std::get<StringTensor>(out[1]).values(), ElementsAre("x", "a,b"));
}

TEST(MathOps, SumAsAnEquationSays) {
  const at::Tensor a = at::arange(6, at::kFloat).reshape({2, 3});
  expect_equal(run("Einsum", {a, a}, {{"equation", "ij,kj->ik"}}), a.matmul(a.t()));
  EXPECT_THROW(run("Einsum", {a, a}, {{"equation", "ij,jk->ik"}}), InvalidArgument);
}

TEST(ReductionOps, SumUpToEachPlace) {
  const at::Tensor in = floats({1, 2, 4}, {3});
  expect_equal(run("Cumsum", {in, number(0)}), floats({1, 3, 7}, {3}));
  expect_equal(run("Cumsum", {in, number(0)}, {{"exclusive", true}}), floats({0, 1, 3}, {3}));
  expect_equal(run("Cumsum", {in, number(0)}, {{"reverse", true}}), floats({7, 6, 4}, {3}));
}

TEST(ArrayOps, GatherInBatches) {
  const at::Tensor in = at::arange(24, at::kFloat).reshape({2, 3, 4});
  const at::Tensor places = ints({2, 0, 1, 1}).reshape({2, 2});
  const auto gathered = run("GatherV2", {in, places, number(1)}, {{"batch_dims", std::int64_t{1}}});
  expect_equal(gathered, at::stack({in[0].index_select(0, longs({2, 0})),
                                    in[1].index_select(0, longs({1, 1}))}));
  EXPECT_THROW(run("GatherV2", {in, ints({0, 1, 2}), number(1)}, {{"batch_dims", std::int64_t{1}}}),
               InvalidArgument);
  expect_equal(run("ReverseV2", {in, ints({-1})}), in.flip(2));
}

TEST(NnOps, TurnAConvolutionRound) {
  const at::Tensor in = at::arange(8, at::kFloat).reshape({1, 2, 2, 2});
  const at::Tensor filter = at::arange(54, at::kFloat).reshape({3, 3, 3, 2});
  const graph::Attrs attrs{{"strides", list({1, 2, 2, 1})}, {"padding", "SAME"}};
  const at::Tensor whole = run("Conv2DBackpropInput", {ints({1, 4, 4, 3}), filter, in}, attrs);
  // The gradient of the convolution: sum(conv(x) * in) is sum(x * whole) for any x.
  const at::Tensor x = at::arange(48, at::kFloat).reshape({1, 4, 4, 3}) / 48;
  EXPECT_NEAR((run("Conv2D", {x, filter}, attrs) * in).sum().item<double>(),
              (x * whole).sum().item<double>(), 1e-2);
  EXPECT_THROW(run("Conv2DBackpropInput", {ints({1, 9, 4, 3}), filter, in}, attrs),
               InvalidArgument);
}

TEST(NnOps, ResizeImages) {
  const at::Tensor in = floats({1, 2, 3, 4}, {1, 2, 2, 1});
  expect_equal(run("ResizeNearestNeighbor", {in, ints({2, 4})}),
               floats({1, 1, 2, 2, 3, 3, 4, 4}, {1, 2, 4, 1}));
  expect_equal(run("ResizeBilinear", {in, ints({2, 3})}, {{"align_corners", true}}),
               floats({1, 1.5F, 2, 3, 3.5F, 4}, {1, 2, 3, 1}));
  EXPECT_THROW(run("ResizeNearestNeighbor", {in, ints({1 << 20, 1 << 20})}), ResourceExhausted);
}

TEST(SupportedOperations, AreThoseOfThePage) {
  const std::string path = std::string(MUSTER_SOURCE_DIR) + "/docs/formats/supported_operations.md";
  if (std::getenv("MUSTER_WRITE_PAGES") != nullptr) {
    testing::write_bytes(path, supported_operations_page());
  }
  const std::string page = testing::read_bytes(path);
  EXPECT_EQ(page, supported_operations_page())
      << "write the page again: MUSTER_WRITE_PAGES=1 executor_test";
}

TEST(SliceOps, RefuseStartsAndSizesThatWrap) {
  const at::Tensor in = at::arange(3, at::kFloat);
  const std::int64_t low = std::numeric_limits<std::int64_t>::min();
  EXPECT_THROW(run("Slice", {in, longs({low}), longs({-1})}), InvalidArgument);
  EXPECT_THROW(run("SplitV", {in, longs({1, std::numeric_limits<std::int64_t>::max()}), number(0)}),
               InvalidArgument);
  EXPECT_THROW(run("SparseSegmentSum", {in.reshape({3, 1}), ints({0}),
                                        longs({std::numeric_limits<std::int64_t>::max()})}),
               InvalidArgument);
}

TEST(Ops, MakeNothingThatIsLargerThanTheLimit) {
  const std::int32_t large = 1 << 20;
  const auto one = floats({1}, {1, 1});
  EXPECT_THROW(run("Fill", {ints({large, large}), at::scalar_tensor(7.0F)}), ResourceExhausted);
  EXPECT_THROW(run("Tile", {one, ints({large, large})}), ResourceExhausted);
  EXPECT_THROW(run("BroadcastTo", {one, ints({large, large})}), ResourceExhausted);
  EXPECT_THROW(run("Pad", {one, ints({large, 0, large, 0}).reshape({2, 2})}), ResourceExhausted);
  EXPECT_THROW(run("Range", {number(0), number(1 << 30), number(1)}), ResourceExhausted);
  EXPECT_THROW(run("OneHot", {ints({1, 2}), number(1 << 30), at::scalar_tensor(1.0F),
                              at::scalar_tensor(0.0F)}),
               ResourceExhausted);
  EXPECT_THROW(run("Fill", {ints({-1, 2}), at::scalar_tensor(7.0F)}), InvalidArgument);
}

}  // namespace
}  // namespace muster::executor
