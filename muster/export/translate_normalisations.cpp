#include <torch/types.h>

#include <array>
#include <limits>

#include "muster/export/translation_internal.h"

namespace muster::exporting {
namespace {

using graph::DataType;

/// gamma, beta, mean and variance of a batch norm.
struct Statistics {
  std::string gamma;
  std::string beta;
  std::string mean;
  std::string variance;
};

Statistics statistics(Call& call) {
  const std::int64_t channels = call.value(0).sizes[1].constant;
  const auto constant = [&](float value) {
    return call.to.constant(graph_value(torch::full({channels}, value, torch::kFloat)));
  };
  return {.gamma = call.is_none(1) ? constant(1) : call.tensor(1),
          .beta = call.is_none(2) ? constant(0) : call.tensor(2),
          .mean = call.tensor(3),
          .variance = call.tensor(4)};
}

void image_batch_norm(Call& call, const Statistics& with, float epsilon) {
  call.give(
      call.to.add("FusedBatchNormV3", "FusedBatchNormV3",
                  {call.tensor(0, kChannelsLast), with.gamma, with.beta, with.mean, with.variance},
                  {{"T", call.type()},
                   {"U", DataType::kFloat},
                   {"epsilon", epsilon},
                   {"data_format", "NHWC"},
                   {"is_training", false}}),
      kChannelsLast);
}

// Whatever the rank, with the channels last.
void plain_batch_norm(Call& call, const Statistics& with, float epsilon) {
  const Order order = with_axis_last(call.rank(0), 1);
  const graph::Attrs attrs{{"T", call.type()}};
  const auto add = [&](const char* op, const std::string& a, const std::string& b) {
    return call.to.add(std::string("batchnorm/") + op, op, {a, b}, attrs);
  };
  const auto small = call.to.constant(graph::TensorValue::scalar(epsilon));
  const auto deviation =
      call.to.add("batchnorm/Rsqrt", "Rsqrt", {add("AddV2", with.variance, small)}, attrs);
  const auto scale = add("Mul", deviation, with.gamma);
  const auto offset = add("Sub", with.beta, add("Mul", with.mean, scale));
  call.give(add("AddV2", add("Mul", call.tensor(0, order), scale), offset), order);
}

// batch_norm(input, weight, bias, mean, variance, training, momentum, epsilon, cudnn)
void batch_norm(Call& call) {
  call.require(!call.truth(5) && !call.is_none(3) && !call.is_none(4),
               "batch norm uses the batch's own statistics in prediction");
  const auto epsilon = static_cast<float>(call.number(7));
  if (call.rank(0) == 4) return image_batch_norm(call, statistics(call), epsilon);
  plain_batch_norm(call, statistics(call), epsilon);
}

// Mean 0 and variance 1 over these axes.
std::string normalised(Call& call, const std::string& input, const std::vector<std::int64_t>& axes,
                       double epsilon) {
  const auto mean = call.reduced("Mean", input, axes);
  const auto variance = call.reduced("Mean", call.node("SquaredDifference", {input, mean}), axes);
  const auto deviation = call.node("Rsqrt", {call.node("AddV2", {variance, call.scalar(epsilon)})});
  return call.node("Mul", {call.node("Sub", {input, mean}), deviation});
}

// layer_norm(input, shape, weight, bias, epsilon, cudnn)
void layer_norm(Call& call) {
  const std::size_t rank = call.rank(0);
  std::vector<std::int64_t> axes;
  for (std::size_t axis = rank - call.integers(1).size(); axis < rank; ++axis) {
    axes.push_back(static_cast<std::int64_t>(axis));
  }
  auto output = normalised(call, call.tensor(0), axes, call.number(4));
  if (!call.is_none(2)) output = call.node("Mul", {output, call.tensor(2)});
  if (!call.is_none(3)) output = call.node("AddV2", {output, call.tensor(3)});
  call.give(output);
}

// rms_norm(input, shape, weight, epsilon), of libtorch 2.4 and later
void rms_norm(Call& call) {
  const std::size_t rank = call.rank(0);
  std::vector<std::int64_t> axes;
  for (std::size_t axis = rank - call.integers(1).size(); axis < rank; ++axis) {
    axes.push_back(static_cast<std::int64_t>(axis));
  }
  const double epsilon = call.is_none(3) ? std::numeric_limits<float>::epsilon() : call.number(3);
  const auto input = call.tensor(0);
  const auto mean = call.reduced("Mean", call.node("Square", {input}), axes);
  const auto deviation = call.node("Rsqrt", {call.node("AddV2", {mean, call.scalar(epsilon)})});
  auto output = call.node("Mul", {input, deviation});
  if (!call.is_none(2)) output = call.node("Mul", {output, call.tensor(2)});
  call.give(output);
}

// Channels in groups, each with everything after it; weight and bias are a number a channel.
void normalise_groups(Call& call, std::int64_t groups, std::size_t weight, std::size_t bias,
                      double epsilon) {
  const auto& sizes = call.value(0).sizes;
  std::int64_t together = 1;
  for (std::size_t i = 1; i < sizes.size(); ++i) {
    call.require(!sizes[i].follows_batch(), "the size of its images follows the batch");
    together *= sizes[i].constant;
  }
  const auto parts =
      call.reshaped(call.tensor(0), {sizes[0], Size{groups}, Size{together / groups}});
  auto output = call.reshaped(normalised(call, parts, {2}, epsilon), sizes);
  std::vector<Size> by_channel(sizes.size() - 1, Size{1});
  by_channel[0] = sizes[1];
  if (!call.is_none(weight)) {
    output = call.node("Mul", {output, call.reshaped(call.tensor(weight), by_channel)});
  }
  if (!call.is_none(bias)) {
    output = call.node("AddV2", {output, call.reshaped(call.tensor(bias), by_channel)});
  }
  call.give(output);
}

// group_norm(input, groups, weight, bias, epsilon, cudnn)
void group_norm(Call& call) { normalise_groups(call, call.integer(1), 2, 3, call.number(4)); }

// instance_norm(input, weight, bias, mean, variance, use_input_statistics, momentum, epsilon,
// cudnn)
void instance_norm(Call& call) {
  call.require(call.truth(5), "moving statistics are not translated");
  normalise_groups(call, call.value(0).sizes[1].constant, 1, 2, call.number(7));
}

constexpr std::array kNormalisationsTranslations{
    OpTranslation{"aten::batch_norm", "FusedBatchNormV3, or Rsqrt, Mul, Sub, AddV2", batch_norm},
    OpTranslation{"aten::group_norm", "Reshape, Mean, SquaredDifference, Rsqrt, Sub, Mul, AddV2",
                  group_norm},
    OpTranslation{"aten::instance_norm", "Reshape, Mean, SquaredDifference, Rsqrt, Sub, Mul, AddV2",
                  instance_norm},
    OpTranslation{"aten::layer_norm", "Mean, SquaredDifference, Rsqrt, Sub, Mul, AddV2",
                  layer_norm},
    OpTranslation{"aten::rms_norm", "Square, Mean, Rsqrt, Mul, AddV2", rms_norm},
};

}  // namespace

std::span<const OpTranslation> normalisation_translations() { return kNormalisationsTranslations; }

}  // namespace muster::exporting
