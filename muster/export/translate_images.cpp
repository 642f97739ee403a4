#include <torch/types.h>

#include <array>
#include <limits>
#include <tuple>

#include "muster/export/translation_internal.h"

namespace muster::exporting {
namespace {

using graph::AttrValue;
using graph::DataType;
using Pair = std::pair<std::int64_t, std::int64_t>;

// TensorFlow's kernel axes: [height, width, in, out] of libtorch's [out, in, height, width].
const Order kKernelOrder{2, 3, 1, 0};

AttrValue over_image(Pair both) {
  return AttrValue::list(std::vector<std::int64_t>{1, both.first, both.second, 1});
}

std::string padded(Call& call, const std::string& input, Pair padding, double value) {
  const auto high = static_cast<std::int32_t>(padding.first);
  const auto wide = static_cast<std::int32_t>(padding.second);
  const std::vector<std::int32_t> both{0, 0, high, high, wide, wide, 0, 0};
  const auto paddings = call.to.constant(
      graph::TensorValue::of<std::int32_t>({4, 2}, std::span<const std::int32_t>(both)));
  const graph::Attrs attrs{{"T", call.type()}, {"Tpaddings", DataType::kInt32}};
  if (value == 0) return call.to.add("Pad", "Pad", {input, paddings}, attrs);
  const auto number = call.to.constant(graph_value(torch::scalar_tensor(value, torch::kFloat)));
  return call.to.add("PadV2", "PadV2", {input, paddings, number}, attrs);
}

// convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups)
void convolution(Call& call) {
  call.require(call.rank(0) == 4, "only convolutions over images are translated");
  call.require(!call.truth(6), "transposed convolutions are not translated");
  call.require(call.integer(8) == 1, "grouped convolutions are not translated");
  const Pair stride = call.pair(3);
  const Pair padding = call.pair(4);
  const Pair dilation = call.pair(5);
  const auto& kernel = call.value(1).sizes;
  auto input = call.tensor(0, kChannelsLast);
  // SAME pads as libtorch does where the stride is 1 and the kernel's reach is even.
  const bool same = stride == Pair{1, 1} && padding != Pair{0, 0} &&
                    padding.first * 2 == dilation.first * (kernel[2].constant - 1) &&
                    padding.second * 2 == dilation.second * (kernel[3].constant - 1);
  if (!same && padding != Pair{0, 0}) input = padded(call, input, padding, 0);
  auto output = call.to.add("Conv2D", "Conv2D", {input, call.tensor(1, kKernelOrder)},
                            {{"T", call.type()},
                             {"strides", over_image(stride)},
                             {"dilations", over_image(dilation)},
                             {"padding", same ? "SAME" : "VALID"},
                             {"explicit_paddings", AttrValue::list(std::vector<std::int64_t>{})},
                             {"use_cudnn_on_gpu", true},
                             {"data_format", "NHWC"}});
  if (!call.is_none(2)) {
    output = call.to.add("BiasAdd", "BiasAdd", {output, call.tensor(2)},
                         {{"T", call.type()}, {"data_format", "NHWC"}});
  }
  call.give(output, kChannelsLast);
}

std::string pooled(Call& call, const char* op, const std::string& input) {
  const Pair kernel = call.pair(1);
  const Pair stride = call.integers(2).empty() ? kernel : call.pair(2);
  return call.to.add(op, op, {input},
                     {{"T", call.type()},
                      {"ksize", over_image(kernel)},
                      {"strides", over_image(stride)},
                      {"padding", "VALID"},
                      {"data_format", "NHWC"}});
}

// max_pool2d(input, kernel, stride, padding, dilation, ceil_mode)
void max_pool(Call& call) {
  call.require(call.rank(0) == 4, "only pooling of a batch of images is translated");
  call.require(call.pair(4) == Pair{1, 1}, "dilated pooling is not translated");
  call.require(!call.truth(5), "ceil_mode is not translated");
  auto input = call.tensor(0, kChannelsLast);
  if (call.pair(3) != Pair{0, 0}) {
    input = padded(call, input, call.pair(3), std::numeric_limits<float>::lowest());
  }
  call.give(pooled(call, "MaxPool", input), kChannelsLast);
}

// avg_pool2d(input, kernel, stride, padding, ceil_mode, count_include_pad, divisor_override)
void avg_pool(Call& call) {
  call.require(call.rank(0) == 4, "only pooling of a batch of images is translated");
  call.require(!call.truth(4), "ceil_mode is not translated");
  call.require(call.is_none(6), "divisor_override is not translated");
  auto input = call.tensor(0, kChannelsLast);
  if (call.pair(3) != Pair{0, 0}) {
    call.require(call.truth(5), "padding that does not count is not translated");
    input = padded(call, input, call.pair(3), 0);
  }
  call.give(pooled(call, "AvgPool", input), kChannelsLast);
}

void adaptive_avg_pool(Call& call) {
  call.require(call.rank(0) == 4 && call.pair(1) == Pair{1, 1},
               "only the mean of the whole image is translated");
  call.give(call.to.add("Mean", "Mean", {call.tensor(0, kChannelsLast), call.to.ints({1, 2})},
                        {{"T", call.type()}, {"Tidx", DataType::kInt32}, {"keep_dims", true}}),
            kChannelsLast);
}

/// gamma, beta, mean and variance of a batch norm.
struct Normalisation {
  std::string gamma;
  std::string beta;
  std::string mean;
  std::string variance;
};

Normalisation normalisation(Call& call) {
  const std::int64_t channels = call.value(0).sizes[1].constant;
  const auto constant = [&](float value) {
    return call.to.constant(graph_value(torch::full({channels}, value, torch::kFloat)));
  };
  return {.gamma = call.is_none(1) ? constant(1) : call.tensor(1),
          .beta = call.is_none(2) ? constant(0) : call.tensor(2),
          .mean = call.tensor(3),
          .variance = call.tensor(4)};
}

void image_batch_norm(Call& call, const Normalisation& with, float epsilon) {
  call.give(
      call.to.add("FusedBatchNormV3", "FusedBatchNormV3",
                  {call.tensor(0, kChannelsLast), with.gamma, with.beta, with.mean, with.variance},
                  {{"T", call.type()},
                   {"U", DataType::kFloat},
                   {"epsilon", epsilon},
                   {"exponential_avg_factor", 1.0F},
                   {"data_format", "NHWC"},
                   {"is_training", false}}),
      kChannelsLast);
}

void row_batch_norm(Call& call, const Normalisation& with, float epsilon) {
  const graph::Attrs attrs{{"T", call.type()}};
  const auto add = [&](const char* op, const std::string& a, const std::string& b) {
    return call.to.add(std::string("batchnorm/") + op, op, {a, b}, attrs);
  };
  const auto small = call.to.constant(graph::TensorValue::scalar(epsilon));
  const auto deviation =
      call.to.add("batchnorm/Rsqrt", "Rsqrt", {add("AddV2", with.variance, small)}, attrs);
  const auto scale = add("Mul", deviation, with.gamma);
  const auto offset = add("Sub", with.beta, add("Mul", with.mean, scale));
  call.give(add("AddV2", add("Mul", call.tensor(0), scale), offset));
}

// batch_norm(input, weight, bias, mean, variance, training, momentum, epsilon, cudnn)
void batch_norm(Call& call) {
  call.require(!call.truth(5), "batch norm uses the batch's own statistics in prediction");
  const auto epsilon = static_cast<float>(call.number(7));
  call.require(call.rank(0) == 4 || call.rank(0) == 2, "only rows and images are translated");
  if (call.rank(0) == 4) return image_batch_norm(call, normalisation(call), epsilon);
  row_batch_norm(call, normalisation(call), epsilon);
}

constexpr std::array kTranslations{
    OpTranslation{"aten::_convolution", "Pad, Conv2D, BiasAdd", convolution},
    OpTranslation{"aten::adaptive_avg_pool2d", "Mean", adaptive_avg_pool},
    OpTranslation{"aten::avg_pool2d", "Pad, AvgPool", avg_pool},
    OpTranslation{"aten::batch_norm", "FusedBatchNormV3, or Rsqrt, Mul, Sub, AddV2", batch_norm},
    OpTranslation{"aten::convolution", "Pad, Conv2D, BiasAdd", convolution},
    OpTranslation{"aten::max_pool2d", "PadV2, MaxPool", max_pool},
};

}  // namespace

std::span<const OpTranslation> image_translations() { return kTranslations; }

}  // namespace muster::exporting
