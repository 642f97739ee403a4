#include <gmock/gmock.h>
#include <torch/nn/functional.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/rnn.h>
#include <torch/nn/modules/transformerlayer.h>
#include <torch/nn/utils/rnn.h>
#include <torch/types.h>

#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/export/trace.h"
#include "muster/export/translate.h"
#include "muster/export/translation_internal.h"
#include "muster/nn/kernels/torch_compat.h"
#include "muster/nn/model/model.h"
#include "muster/saved_model/executor/executable_model.h"
#include "muster/saved_model/graph/check.h"
#include "muster/saved_model/graph/default_attrs.h"
#include "muster/saved_model/graph/op_registry.h"
#include "muster/testing/data_dir.h"
#include "muster/testing/temp_dir.h"

// Every operation that is translated, as a tiny model through trace, translation, the check against
// TensorFlow's registry and the executor: the answers are libtorch's.
namespace muster::exporting {
namespace {

namespace F = torch::nn::functional;
namespace nn = torch::nn;
namespace rnn = torch::nn::utils::rnn;
using at::Tensor;
using torch::indexing::Slice;
using Ints = at::IntArrayRef;
using Tensors = std::vector<Tensor>;

constexpr std::int64_t kRows = 6;

/// Variables of many shapes.
struct Weights : torch::nn::Module {
  Weights() {
    const auto add = [&](const char* name, Tensor value) {
      return register_parameter(name, std::move(value), /*requires_grad=*/false);
    };
    kernel = add("kernel", torch::randn({6, 4, 3, 3}));
    wide = add("wide", torch::randn({6, 4, 2, 3}));
    grouped = add("grouped", torch::randn({6, 2, 3, 3}));
    depthwise = add("depthwise", torch::randn({8, 1, 3, 3}));
    transposed = add("transposed", torch::randn({4, 5, 3, 2}));
    short_kernel = add("short_kernel", torch::randn({6, 4, 3}));
    short_transposed = add("short_transposed", torch::randn({4, 5, 3}));
    transposed_groups = add("transposed_groups", torch::randn({4, 3, 3, 2}));
    volume = add("volume", torch::randn({6, 2, 2, 3, 3}));
    volume_groups = add("volume_groups", torch::randn({6, 1, 2, 3, 1}));
    four = add("four", torch::randn({4}));
    mean = add("mean", torch::randn({4}));
    variance = add("variance", torch::rand({4}) + 0.5);
    five = add("five", torch::randn({5}));
    six = add("six", torch::randn({6}));
    eight = add("eight", torch::randn({8}));
    one = add("one", torch::rand({1}));
    table = add("table", torch::randn({7, 5}));
    matrix = add("matrix", torch::randn({5, 3}));
    three = add("three", torch::randn({3}));
    lstm = register_module(
        "lstm",
        nn::LSTM(nn::LSTMOptions(5, 4).num_layers(2).bidirectional(true).batch_first(true)));
    small_lstm =
        register_module("small_lstm", nn::LSTM(nn::LSTMOptions(5, 4).bias(false).proj_size(3)));
    gru = register_module(
        "gru", nn::GRU(nn::GRUOptions(5, 4).num_layers(2).bidirectional(true).batch_first(true)));
    small_gru = register_module("small_gru", nn::GRU(nn::GRUOptions(5, 4).bias(false)));
    rnn = register_module("rnn", nn::RNN(nn::RNNOptions(5, 4).batch_first(true)));
    relu_rnn = register_module(
        "relu_rnn",
        nn::RNN(nn::RNNOptions(5, 4).num_layers(2).batch_first(true).nonlinearity(torch::kReLU)));
    lstm_cell = register_module("lstm_cell", nn::LSTMCell(5, 4));
    gru_cell = register_module("gru_cell", nn::GRUCell(5, 4));
    rnn_cell = register_module("rnn_cell", nn::RNNCell(5, 4));
    relu_cell = register_module(
        "relu_cell", nn::RNNCell(nn::RNNCellOptions(5, 4).bias(false).nonlinearity(torch::kReLU)));
    heads = register_module("heads", nn::MultiheadAttention(nn::MultiheadAttentionOptions(4, 2)));
    encoder = register_module(
        "encoder",
        nn::TransformerEncoderLayer(nn::TransformerEncoderLayerOptions(4, 2).dim_feedforward(8)));
    eval();
  }
  nn::LSTM lstm{nullptr}, small_lstm{nullptr};
  nn::GRU gru{nullptr}, small_gru{nullptr};
  nn::RNN rnn{nullptr}, relu_rnn{nullptr};
  nn::LSTMCell lstm_cell{nullptr};
  nn::GRUCell gru_cell{nullptr};
  nn::RNNCell rnn_cell{nullptr}, relu_cell{nullptr};
  nn::MultiheadAttention heads{nullptr};
  nn::TransformerEncoderLayer encoder{nullptr};
  Tensor kernel, wide, grouped, depthwise, transposed, short_kernel, short_transposed,
      transposed_groups, volume, volume_groups, four, mean, variance, five, six, eight, one, table,
      matrix, three;
};

/// Inputs of a test case: features by name and weights.
struct Given {
  const Features& features;
  Weights& w;
  Tensor row = features.tensor("row");            // [rows, 5]
  Tensor other = features.tensor("other");        // [rows, 5], positive
  Tensor cube = features.tensor("cube");          // [rows, 3, 5]
  Tensor image = features.tensor("image");        // [rows, 4, 9, 7]
  Tensor sequence = features.tensor("sequence");  // [rows, 4, 9]
  Tensor volume = features.tensor("volume");      // [rows, 2, 4, 5, 6]
  Tensor ids = features.tensor("ids");            // [rows, 3], below 5
  Tensor whole = features.tensor("whole");        // [rows, 5], int32
};

struct Case {
  const char* name;
  std::function<Tensors(const Given&)> compute;
};

#define CASE(operation, ...)                                                  \
  Case {                                                                      \
    operation, [](const Given& x) -> Tensors { return Tensors{__VA_ARGS__}; } \
  }

std::vector<Case> convolutions() {
  return {
      CASE("_convolution", torch::conv2d(x.image, x.w.kernel, x.w.six, 1, 1)),
      CASE("_convolution", torch::conv2d(x.image, x.w.kernel, {}, 2, 1)),
      CASE("_convolution", torch::conv2d(x.image, x.w.wide, x.w.six, {2, 1}, Ints({0, 2}), {1, 2})),
      CASE("_convolution", torch::conv2d(x.image, x.w.grouped, x.w.six, 1, 1, 1, 2)),
      CASE("_convolution", torch::conv2d(x.image, x.w.depthwise, x.w.eight, 2, 1, 1, 4)),
      CASE("_convolution", torch::conv2d(x.image, x.w.depthwise, {}, 1, 2, 2, 4)),
      CASE("_convolution", torch::conv1d(x.sequence, x.w.short_kernel, x.w.six, 2, 1)),
      CASE("_convolution", torch::conv1d(x.sequence, x.w.short_kernel, {}, 1, 2, 2)),
      CASE("_convolution", torch::conv_transpose2d(x.image, x.w.transposed, x.w.five, 2)),
      CASE("_convolution",
           torch::conv_transpose2d(x.image, x.w.transposed, {}, {2, 3}, {1, 0}, {1, 2})),
      CASE("_convolution",
           torch::conv_transpose1d(x.sequence, x.w.short_transposed, x.w.five, 2, 1)),
      CASE("_convolution",
           torch::conv_transpose2d(x.image, x.w.transposed_groups, x.w.six, 2, 1, 1, 2)),
      CASE("_convolution",
           torch::conv_transpose2d(x.image, x.w.transposed, x.w.five, {2, 3}, 1, 1, 1, {2, 3})),
      CASE("_convolution",
           torch::conv_transpose2d(x.image, x.w.transposed_groups, {}, 1, 0, 0, 4, {3, 1})),
      CASE("_convolution",
           torch::conv_transpose1d(x.sequence, x.w.short_transposed, x.w.five, 2, 1, 0, 1, 2)),
      CASE("_convolution", torch::conv3d(x.volume, x.w.volume, x.w.six)),
      CASE("_convolution", torch::conv3d(x.volume, x.w.volume, x.w.six, {1, 2, 2}, {1, 0, 1})),
      CASE("_convolution", torch::conv3d(x.volume, x.w.volume, {}, 1, 1, {2, 1, 2})),
      CASE("_convolution",
           torch::conv3d(x.volume, x.w.volume_groups, x.w.six, 1, Ints({0, 0, 0}), 1, 2)),
      CASE("_convolution_mode",
           torch::relu(torch::conv3d(x.volume, x.w.volume.slice(2, 0, 1), x.w.six, 1, "same"))),
      CASE("_convolution_mode", torch::conv2d(x.image, x.w.wide, x.w.six, 1, "same")),
      CASE("_convolution_mode", torch::conv2d(x.image, x.w.kernel, {}, 2, "valid")),
  };
}

std::vector<Case> pools() {
  return {
      CASE("max_pool2d", torch::max_pool2d(x.image, 2)),
      CASE("max_pool2d", torch::max_pool2d(x.image, {3, 2}, {2, 1}, 1)),
      CASE("max_pool2d", torch::max_pool2d(x.image, 2, 2, 0, 1, true)),
      CASE("max_pool1d", torch::max_pool1d(x.sequence, 3, 2, 1)),
      CASE("max_pool1d", torch::max_pool1d(x.sequence, 2, 2, 0, 1, true)),
      CASE("avg_pool2d", torch::avg_pool2d(x.image, 2)),
      CASE("avg_pool2d", torch::avg_pool2d(x.image, 3, 2, 1)),
      CASE("avg_pool2d", torch::avg_pool2d(x.image, 3, 2, 1, false, false)),
      CASE("avg_pool2d", torch::avg_pool2d(x.image, 2, 2, 0, true)),
      CASE("avg_pool2d", torch::avg_pool2d(x.image, 3, 2, 1, true, true)),
      CASE("avg_pool2d", torch::avg_pool2d(x.image, 2, 2, 1, false, true, 3)),
      CASE("avg_pool1d", torch::avg_pool1d(x.sequence, 3, 2, 1, false, false)),
      CASE("adaptive_avg_pool2d", torch::adaptive_avg_pool2d(x.image, {1, 1})),
      CASE("adaptive_avg_pool2d", torch::adaptive_avg_pool2d(x.image, {3, 7})),
      CASE("adaptive_avg_pool2d", torch::adaptive_avg_pool2d(x.image, {4, 3})),
      CASE("adaptive_avg_pool1d", torch::adaptive_avg_pool1d(x.sequence, 1)),
      CASE("adaptive_avg_pool1d", torch::adaptive_avg_pool1d(x.sequence, 3)),
      CASE("adaptive_max_pool2d", std::get<0>(torch::adaptive_max_pool2d(x.image, {3, 1}))),
      CASE("upsample_nearest2d", torch::upsample_nearest2d(x.image, {18, 21})),
      CASE("upsample_nearest2d", torch::upsample_nearest2d(x.image, {13, 4})),
      CASE("upsample_nearest2d",
           F::interpolate(x.image, F::InterpolateFuncOptions()
                                       .scale_factor(std::vector<double>{2, 3})
                                       .mode(torch::kNearest))),
      CASE("upsample_bilinear2d", torch::upsample_bilinear2d(x.image, {18, 10}, false)),
      CASE("upsample_bilinear2d", torch::upsample_bilinear2d(x.image, {5, 14}, true)),
  };
}

std::vector<Case> normalisations() {
  const auto batch = [](const Tensor& in, const Given& x, bool scale) {
    return torch::batch_norm(in, scale ? x.w.four : Tensor(), scale ? x.w.mean : Tensor(), x.w.mean,
                             x.w.variance, false, 0.1, 1e-3, false);
  };
  return {
      {"batch_norm", [=](const Given& x) { return Tensors{batch(x.image, x, true)}; }},
      {"batch_norm", [=](const Given& x) { return Tensors{batch(x.image, x, false)}; }},
      {"batch_norm", [=](const Given& x) { return Tensors{batch(x.sequence, x, true)}; }},
      {"batch_norm", [=](const Given& x) { return Tensors{batch(x.row.slice(1, 0, 4), x, true)}; }},
      CASE("layer_norm", torch::layer_norm(x.cube, {5}, x.w.five, x.w.five)),
      CASE("layer_norm", torch::layer_norm(x.cube, {3, 5}, {}, {}, 1e-2)),
      CASE("layer_norm", torch::layer_norm(torch::conv2d(x.image, x.w.kernel), {7, 5})),
      CASE("group_norm", torch::group_norm(x.image, 2, x.w.four, x.w.mean)),
      CASE("group_norm", torch::group_norm(x.sequence, 4)),
      CASE("instance_norm",
           torch::instance_norm(x.image, x.w.four, x.w.mean, {}, {}, true, 0.1, 1e-5, false)),
  };
}

std::vector<Case> activations() {
  return {
      CASE("celu", torch::celu(x.row, 0.7)),
      CASE("elu", torch::elu(x.row)),
      CASE("elu", torch::elu(x.row, 0.5, 1.5, 2.0)),
      CASE("gelu", torch::gelu(x.row)),
      CASE("gelu", torch::gelu(torch::max_pool2d(x.image, 2), "tanh")),
      CASE("glu", torch::glu(x.image, 1)),
      CASE("hardsigmoid", torch::hardsigmoid(x.row * 3)),
      CASE("hardswish", torch::hardswish(x.row * 3)),
      CASE("hardtanh", torch::hardtanh(x.row, -0.5, 0.75)),
      CASE("leaky_relu", torch::leaky_relu(x.row, 0.3)),
      CASE("log_sigmoid", torch::log_sigmoid(x.row)),
      CASE("mish", torch::mish(x.row)),
      CASE("prelu", torch::prelu(x.row, x.w.one)),
      CASE("prelu", torch::prelu(x.image, x.w.four)),
      CASE("relu", torch::relu(x.row)),
      CASE("relu6", torch::relu6(x.row * 5)),
      CASE("selu", torch::selu(x.row)),
      CASE("sigmoid", torch::sigmoid(x.row)),
      CASE("silu", torch::silu(x.row)),
      CASE("softmax", torch::softmax(x.cube, 1)),
      CASE("softmax", torch::softmax(x.whole, -1, torch::kFloat)),
      CASE("log_softmax", torch::log_softmax(x.cube, 2)),
      CASE("softplus", torch::softplus(x.row)),
      CASE("softplus", torch::softplus(x.row, 2.0)),
      CASE("tanh", torch::tanh(x.row)),
      CASE("threshold", torch::threshold(x.row, 0.2, -3)),
      CASE("dropout", torch::dropout(x.row, 0.5, false)),
      CASE("feature_dropout", torch::feature_dropout(x.image, 0.5, false)),
  };
}

std::vector<Case> arithmetic() {
  return {
      CASE("abs", x.row.abs(), x.whole.abs()),
      CASE("add", x.row + x.other, x.row + 2, x.whole + 1.5, x.image + x.w.four.view({4, 1, 1})),
      CASE("add", torch::add(x.row, x.other, 0.5), torch::add(x.row, x.whole)),
      CASE("sub", x.row - x.w.five, 1 - x.row, torch::sub(x.row, x.other, 2)),
      CASE("rsub", torch::rsub(x.row, x.other), torch::rsub(x.row, 3)),
      CASE("mul", x.row * x.other, x.row * 2, x.cube * x.row.unsqueeze(1)),
      CASE("div", x.row / x.other, x.whole / 2),
      CASE("div", torch::div(x.row, x.other, "floor"), torch::div(x.whole, 2, "trunc")),
      CASE("floor_divide", torch::floor_divide(x.whole, 2)),
      CASE("remainder", torch::remainder(x.row, 0.4), torch::remainder(x.whole, 3)),
      CASE("addcmul", torch::addcmul(x.row, x.other, x.w.five, 0.5)),
      CASE("addcdiv", torch::addcdiv(x.row, x.w.five, x.other)),
      CASE("lerp", torch::lerp(x.row, x.other, 0.25), torch::lerp(x.row, x.other, x.w.five)),
      CASE("pow", torch::pow(x.other, 2), torch::pow(x.other, x.row), torch::pow(2, x.row)),
      CASE("maximum", torch::maximum(x.row, x.other)),
      CASE("minimum", torch::minimum(x.row, x.w.five)),
      CASE("clamp", x.row.clamp(-0.3, 0.4), x.whole.clamp(-1, 2)),
      CASE("clamp", torch::clamp(x.image, x.w.four.view({4, 1, 1}), Tensor())),
      CASE("clamp_min", torch::clamp_min(x.row, 0.1)),
      CASE("clamp_max", torch::clamp_max(x.row, 0.1)),
      CASE("ceil", torch::ceil(x.row * 4)),
      CASE("floor", torch::floor(x.row * 4)),
      CASE("round", torch::round(x.row * 4)),
      CASE("sign", torch::sign(x.row)),
      CASE("neg", -x.row),
      CASE("cos", torch::cos(x.row)),
      CASE("sin", torch::sin(x.row)),
      CASE("erf", torch::erf(x.row)),
      CASE("exp", torch::exp(x.row)),
      CASE("expm1", torch::expm1(x.row)),
      CASE("log", torch::log(x.other)),
      CASE("log10", torch::log10(x.other)),
      CASE("log1p", torch::log1p(x.other)),
      CASE("log2", torch::log2(x.other)),
      CASE("reciprocal", torch::reciprocal(x.other)),
      CASE("rsqrt", torch::rsqrt(x.other)),
      CASE("sqrt", torch::sqrt(x.other)),
      CASE("square", torch::square(x.row)),
  };
}

std::vector<Case> choices() {
  return {
      CASE("eq", x.whole == 1, x.whole.eq(x.whole.flip(1)), x.row == x.other),
      CASE("ne", x.whole != 1, x.row.ne(x.other)),
      CASE("lt", x.row < 0.2, x.row < x.w.five),
      CASE("le", x.whole <= 1, x.whole.le(0.5)),
      CASE("gt", x.row > x.other, x.whole > 0),
      CASE("ge", x.row >= 0),
      CASE("logical_and", torch::logical_and(x.row > 0, x.other > 0.5)),
      CASE("logical_or", torch::logical_or(x.row > 0, x.other > 0.5)),
      CASE("logical_not", torch::logical_not(x.row > 0)),
      CASE("bitwise_and", torch::bitwise_and(x.row > 0, x.other > 0.5)),
      CASE("bitwise_or", torch::bitwise_or(x.row > 0, x.other > 0.5)),
      CASE("bitwise_not", torch::bitwise_not(x.row > 0)),
      CASE("__and__", torch::__and__(x.row > 0, x.other > 0.5)),
      CASE("__or__", torch::__or__(x.row > 0, x.other > 0.5)),
      CASE("isnan", torch::isnan(torch::log(x.row))),
      CASE("isinf", torch::isinf(x.row / torch::relu(x.row))),
      CASE("isfinite", torch::isfinite(torch::log(x.row))),
      CASE("where", torch::where(x.row > 0, x.row, x.other), torch::where(x.row > 0, x.row, 0.5)),
      CASE("masked_fill", x.row.masked_fill(x.other > 0.5, -2)),
      CASE("tril", torch::tril(x.cube), torch::tril(x.cube, 1)),
      CASE("triu", torch::triu(x.cube, -1)),
  };
}

Tensors pair_of(std::tuple<Tensor, Tensor> both) { return {std::get<0>(both), std::get<1>(both)}; }

std::vector<Case> reductions() {
  return {
      CASE("all", torch::all(x.row > -0.5, 1), x.row + (x.row < 9).all()),
      CASE("any", torch::any(x.row > 0.5, 1, true)),
      CASE("amax", x.cube.amax({1, 2}), torch::max_pool2d(x.image, 2).amax(1)),
      CASE("amin", x.cube.amin(-1, true)),
      CASE("argmax", x.cube.argmax(1), x.row.argmax(1, true)),
      CASE("argmin", x.cube.argmin(2)),
      CASE("argsort", torch::argsort(x.row, std::int64_t{1}, false),
           torch::argsort(x.cube, std::int64_t{1}, true)),
      CASE("cumsum", torch::cumsum(x.cube, 1), torch::cumsum(x.whole, 1)),
      CASE("cumsum", torch::cumsum(torch::max_pool2d(x.image, 2), 1)),
      CASE("linalg_vector_norm", torch::linalg_vector_norm(x.cube, 2, torch::IntArrayRef({1, 2}))),
      CASE("logsumexp", torch::logsumexp(x.cube, {1}), torch::logsumexp(x.cube, {1, 2}, true)),
      {"max", [](const Given& x) { return pair_of(torch::max(x.cube, 1)); }},
      {"max", [](const Given& x) { return pair_of(torch::max(x.cube, 2, true)); }},
      CASE("max", x.row + torch::max(x.row), torch::max(x.row, x.other)),
      {"min", [](const Given& x) { return pair_of(torch::min(x.cube, 1)); }},
      CASE("min", x.row - torch::min(x.row), torch::min(x.row, x.other)),
      CASE("mean", x.cube.mean(1), x.cube.mean({1, 2}, true), x.row - x.row.mean()),
      CASE("mean", torch::max_pool2d(x.image, 2).mean({2, 3})),
      CASE("norm", torch::norm(x.cube, 2, 1), torch::norm(x.cube, 1, {1, 2}, true)),
      CASE("norm", F::normalize(x.row, F::NormalizeFuncOptions().dim(1))),
      CASE("prod", x.cube.prod(1), x.cube.prod(2, true)),
      {"sort", [](const Given& x) { return pair_of(torch::sort(x.row, 1)); }},
      {"sort", [](const Given& x) { return pair_of(torch::sort(x.cube, 1, true)); }},
      CASE("std", torch::std(x.cube, {1, 2}, true, false)),
      CASE("sum", x.cube.sum(1), x.cube.sum({0}) + x.cube, x.whole.sum(1), (x.row > 0).sum(1)),
      {"topk", [](const Given& x) { return pair_of(torch::topk(x.cube, 2, 1)); }},
      {"topk", [](const Given& x) { return pair_of(torch::topk(x.row, 3, 1, false)); }},
      CASE("var", torch::var(x.cube, {1}, false, true), torch::var(x.cube, {2}, true, false)),
      CASE("var", x.row + torch::var(x.row, {0}, false, true)),
  };
}

std::vector<Case> shapes() {
  return {
      CASE("arange", x.row + torch::arange(5), x.row * torch::arange(1, 10, 2)),
      CASE("arange", x.row.select(1, 0) + torch::arange(0, 3 * x.row.size(0), 3)),
      CASE("cat", torch::cat({x.row, x.other, x.whole}, 1), torch::cat({x.cube, x.cube}, 2)),
      {"chunk", [](const Given& x) { return torch::chunk(x.row, 2, 1); }},
      {"chunk", [](const Given& x) { return torch::chunk(torch::max_pool2d(x.image, 2), 2, 1); }},
      CASE("constant_pad_nd", torch::constant_pad_nd(x.cube, {1, 0, 0, 2}, 0.5)),
      CASE("constant_pad_nd", torch::constant_pad_nd(x.image, {0, 0, 0, 0, 2, 2})),
      CASE("_pad_enum", F::pad(x.row, F::PadFuncOptions({1, 2}))),
      CASE("pad", torch::pad(x.cube, {1, 2, 0, 1}, "constant", 0.5)),
      CASE("expand", x.row.unsqueeze(1).expand({-1, 3, -1})),
      CASE("expand_as", x.row.unsqueeze(1).expand_as(x.cube)),
      CASE("flatten", x.image.flatten(1), x.image.flatten(1, 2)),
      CASE("flip", x.cube.flip({1, 2}), torch::max_pool2d(x.image, 2).flip(-1)),
      CASE("full", torch::full({x.row.size(0), 2}, 0.5) + x.row.slice(1, 0, 2)),
      CASE("full_like", torch::full_like(x.row, 3) + x.row),
      CASE("new_full", x.row.new_full({x.row.size(0), 5}, 4) + x.row),
      CASE("new_ones", x.row.new_ones({x.row.size(0), 5}) + x.row),
      CASE("new_zeros", x.row.new_zeros({x.row.size(0), 5}) + x.row),
      CASE("ones", torch::ones({x.row.size(0), 5}) + x.row),
      CASE("zeros", torch::zeros({x.row.size(0), 5}) + x.row),
      CASE("ones_like", torch::ones_like(x.row) + x.row),
      CASE("zeros_like", torch::zeros_like(x.row) + x.row),
      CASE("movedim", x.image.movedim(1, 3), x.image.movedim({1, 2}, {2, 1})),
      CASE("narrow", x.row.narrow(1, 1, 3)),
      CASE("permute", x.image.permute({0, 2, 3, 1}),
           torch::max_pool2d(x.image, 2).permute({0, 3, 1, 2})),
      CASE("transpose", x.cube.transpose(1, -1)),
      CASE("mT", x.cube.mT()),
      CASE("t", x.row.matmul(x.w.table.t())),
      CASE("repeat", x.row.repeat({1, 2}), x.row.unsqueeze(1).repeat({1, 3, 1})),
      CASE("reshape", x.cube.reshape({-1, 15}), x.cube.reshape({x.row.size(0), 5, 3})),
      CASE("reshape_as", x.image.flatten(2).reshape_as(x.image)),
      CASE("view_as", x.image.flatten(2).view_as(x.image)),
      CASE("view", x.cube.view({-1, 15})),
      CASE("unflatten", x.row.repeat({1, 2}).unflatten(1, {2, 5})),
      CASE("select", x.cube.select(1, 0), x.cube.select(2, -1),
           torch::max_pool2d(x.image, 2).select(1, 2)),
      CASE("slice", x.row.slice(1, 1, 4), x.row.slice(1, 0, 5, 2), x.cube.slice(2, -2)),
      CASE("slice", x.image.index({Slice(), Slice(1, 3), Slice(), Slice(0, -1)}),
           torch::max_pool2d(x.image, 2).slice(1, 2)),
      {"split", [](const Given& x) { return torch::split(x.row, 2, 1); }},
      {"split_with_sizes",
       [](const Given& x) {
         return torch::split_with_sizes(x.row, {1, 3, 1}, 1);
       }},
      {"unbind", [](const Given& x) { return torch::unbind(x.cube, 1); }},
      {"unbind", [](const Given& x) { return torch::unbind(torch::max_pool2d(x.image, 4), 1); }},
      CASE("squeeze", x.row.unsqueeze(1).squeeze(1)),
      CASE("unsqueeze", x.row.unsqueeze(-1)),
      CASE("stack", torch::stack({x.row, x.other}, 1), torch::stack({x.row, x.other}, -1)),
      CASE("alias", torch::alias(x.row)),
      CASE("clone", x.row.clone()),
      CASE("contiguous", x.cube.transpose(1, 2).contiguous()),
      CASE("detach", x.row.detach()),
      CASE("to", x.whole.to(torch::kFloat), x.row.to(torch::kLong), x.row.to(torch::kDouble)),
      CASE("type_as", x.whole.type_as(x.row)),
  };
}

std::vector<Case> products() {
  return {
      CASE("linear", torch::linear(x.row, x.w.table),
           torch::linear(x.cube, x.w.matrix.t(), x.w.three)),
      CASE("addmm", torch::addmm(x.w.three, x.row, x.w.matrix)),
      CASE("addmm", torch::addmm(x.w.three, x.row, x.w.matrix, 0.5, 2)),
      CASE("mm", torch::mm(x.row, x.w.matrix)),
      CASE("mv", torch::mv(x.row, x.w.five)),
      CASE("bmm", torch::bmm(x.cube, x.cube.transpose(1, 2))),
      CASE("baddbmm",
           torch::baddbmm(x.cube.slice(2, 0, 3), x.cube, x.cube.transpose(1, 2), 0.5, 0.1)),
      CASE("matmul", torch::matmul(x.cube, x.w.matrix), torch::matmul(x.row, x.w.five)),
      CASE("matmul", torch::matmul(x.w.three, x.cube),
           torch::matmul(x.cube, x.cube.transpose(1, 2))),
      CASE("einsum", torch::einsum("bij,bkj->bik", {x.cube, x.cube})),
      CASE("einsum", torch::einsum("b i, i j", {x.row, x.w.matrix})),
      CASE("einsum", torch::einsum("...j->...", {x.cube})),
      CASE("embedding", torch::embedding(x.w.table, x.ids)),
      CASE("embedding_bag",
           F::embedding_bag(x.ids, x.w.table, F::EmbeddingBagFuncOptions().mode(torch::kSum))),
      CASE("embedding_bag",
           F::embedding_bag(x.ids, x.w.table, F::EmbeddingBagFuncOptions().mode(torch::kMean))),
      CASE("embedding_bag", F::embedding_bag(x.ids, x.w.table,
                                             F::EmbeddingBagFuncOptions()
                                                 .mode(torch::kSum)
                                                 .per_sample_weights(x.other.slice(1, 0, 3)))),
      CASE("gather", torch::gather(x.row, 1, x.ids)),
      CASE("gather", torch::gather(x.cube, 1, x.cube.argmax(1, true))),
      CASE("index", x.w.table.index({x.ids})),
      CASE("index_select", x.row.index_select(1, torch::tensor({4, 0, 1}))),
      CASE("index_select", torch::max_pool2d(x.image, 2).index_select(1, torch::tensor({3, 1}))),
      CASE("one_hot", torch::one_hot(x.ids, 6)),
  };
}

// Predictions have rows first.
Tensors rows_first(std::tuple<Tensor, Tensor> both) {
  return {std::get<0>(both), std::get<1>(both).transpose(0, 1)};
}

Tensors rows_first(const std::tuple<Tensor, std::tuple<Tensor, Tensor>>& lstm) {
  const auto& [output, states] = lstm;
  return {output, std::get<0>(states).transpose(0, 1), std::get<1>(states).transpose(0, 1)};
}

Tensors turned(Tensors results) {
  results[0] = results[0].transpose(0, 1);
  return results;
}

// States of layers and directions that differ from row to row.
Tensor states_of(const Given& x, std::int64_t count, std::int64_t width) {
  return x.row.slice(1, 0, width).unsqueeze(0) * torch::arange(1, count + 1).view({-1, 1, 1});
}

rnn::PackedSequence packed(const Given& x, std::int64_t longest = 3) {
  return rnn::pack_padded_sequence(x.cube, x.ids.select(1, 0).clamp(1, longest),
                                   /*batch_first=*/true, /*enforce_sorted=*/false);
}

Tensors padded(const rnn::PackedSequence& sequences, double value = 0) {
  const auto [output, lengths] = rnn::pad_packed_sequence(sequences, true, value, 3);
  return {output, lengths};
}

std::vector<Case> recurrent_layers() {
  return {
      {"lstm", [](const Given& x) { return rows_first(x.w.lstm->forward(x.cube)); }},
      {"lstm",
       [](const Given& x) {
         return rows_first(
             x.w.lstm->forward(x.cube, std::tuple(states_of(x, 4, 4), states_of(x, 4, 4).sin())));
       }},
      // Steps first, no biases, and the hidden state of a size of its own.
      {"lstm",
       [](const Given& x) {
         return turned(rows_first(x.w.small_lstm->forward(x.cube.transpose(0, 1))));
       }},
      {"gru", [](const Given& x) { return rows_first(x.w.gru->forward(x.cube)); }},
      {"gru",
       [](const Given& x) {
         return turned(
             rows_first(x.w.small_gru->forward(x.cube.permute({1, 0, 2}), states_of(x, 1, 4))));
       }},
      {"rnn_tanh", [](const Given& x) { return rows_first(x.w.rnn->forward(x.cube)); }},
      {"rnn_relu", [](const Given& x) { return rows_first(x.w.relu_rnn->forward(x.cube)); }},
      {"lstm_cell", [](const Given& x) { return pair_of(x.w.lstm_cell->forward(x.row)); }},
      CASE("gru_cell", x.w.gru_cell->forward(x.row, x.row.slice(1, 1))),
      CASE("rnn_tanh_cell", x.w.rnn_cell->forward(x.row)),
      CASE("rnn_relu_cell", x.w.relu_cell->forward(x.row)),
      {"lstm",
       [](const Given& x) {
         const auto [output, states] = x.w.lstm->forward_with_packed_input(packed(x));
         auto results = padded(output);
         results.insert(results.end(),
                        {std::get<0>(states).transpose(0, 1), std::get<1>(states).transpose(0, 1)});
         return results;
       }},
      {"gru",
       [](const Given& x) {
         const auto [output, state] = x.w.gru->forward_with_packed_input(packed(x));
         auto results = padded(output, -2);
         results.push_back(state.transpose(0, 1));
         return results;
       }},
      {"_pad_packed_sequence", [](const Given& x) { return padded(packed(x)); }},
  };
}

// Attention has another function in libtorch 2.
Tensor attention_of(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& mask,
                    bool causal) {
  const auto given = mask.defined() ? at::optional<Tensor>(mask) : at::nullopt;
#if MUSTER_TORCH_AT_LEAST(2, 0)
  return at::scaled_dot_product_attention(query, key, value, given, 0, causal);
#else
  return std::get<0>(at::_scaled_dot_product_attention(query, key, value, given, 0, false, causal));
#endif
}

std::vector<Case> attentions() {
  const auto heads = [](const Given& x) { return x.image.transpose(2, 3); };  // [rows, 4, 7, 9]
  return {
    {"attention",
     [=](const Given& x) {
       const auto q = heads(x);
       const auto mask = torch::ones({7, 7}, torch::kBool).triu(-2);
       return Tensors{attention_of(q, q.sin(), q.cos(), {}, false),
                      attention_of(q.slice(2, 0, 3), q.sin(), q.cos(), {}, false),
                      attention_of(q, q.sin(), q.cos(), {}, true),
                      attention_of(q, q.sin(), q.cos(), mask, false),
                      attention_of(q, q.sin(), q.cos(), q.matmul(q.transpose(2, 3)), false)};
     }},
        {"attention",
         [](const Given& x) { return Tensors{attention_of(x.cube, x.cube, x.cube, {}, false)}; }},
        {"several heads",
         [](const Given& x) {
           const auto steps = x.sequence.permute({2, 0, 1});  // [9, rows, 4]
           const auto [output, weights] = x.w.heads->forward(steps, steps.sin(), steps.cos());
           return Tensors{output.transpose(0, 1), weights};
         }},
        CASE("encoder layer", x.w.encoder->forward(x.sequence.permute({2, 0, 1})).transpose(0, 1)),
#if MUSTER_TORCH_AT_LEAST(2, 4)
        CASE("rms_norm", at::rms_norm(x.cube, {5}, x.w.five, 1e-4), at::rms_norm(x.cube, {3, 5})),
#endif
  };
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const auto& family :
       {convolutions(), pools(), normalisations(), activations(), arithmetic(), choices(),
        reductions(), shapes(), products(), recurrent_layers(), attentions()}) {
    all.insert(all.end(), family.begin(), family.end());
  }
  return all;
}

/// Predicts what a case computes.
class CaseModel : public Model {
 public:
  CaseModel(std::shared_ptr<Weights> weights, std::function<Tensors(const Given&)> compute)
      : weights_(register_module("weights", std::move(weights))), compute_(std::move(compute)) {}

  Tensor forward(const Features& features) override {
    return compute_({.features = features, .w = *weights_}).at(0);
  }
  EstimatorSpec call(const Batch& batch, Mode mode, const Head* /*head*/) override {
    EstimatorSpec spec{.mode = mode};
    const auto results = compute_({.features = batch.features, .w = *weights_});
    for (std::size_t i = 0; i < results.size(); ++i) {
      spec.predictions.add(std::to_string(i), results[i]);
    }
    return spec;
  }

 private:
  std::shared_ptr<Weights> weights_;
  std::function<Tensors(const Given&)> compute_;
};

Features example() {
  return {{"row", torch::randn({kRows, 5})},
          {"other", torch::rand({kRows, 5}) + 0.1},
          {"cube", torch::randn({kRows, 3, 5})},
          {"image", torch::randn({kRows, 4, 9, 7})},
          {"sequence", torch::randn({kRows, 4, 9})},
          {"volume", torch::randn({kRows, 2, 4, 5, 6})},
          {"ids", torch::randint(5, {kRows, 3}, torch::kLong)},
          {"whole", torch::randint(-4, 5, {kRows, 5}, torch::kInt)}};
}

// A graph that stands alone: variables become constants.
graph::MetaGraph frozen(const TranslatedModel& model) {
  graph::MetaGraph meta;
  meta.graph = model.graph;
  for (auto& node : meta.graph.nodes) {
    for (const auto& variable : model.variables) {
      if (node.name != variable.read) continue;
      const auto value =
          graph_value(to_checkpoint_layout(variable.variable.tensor, variable.variable.layout));
      node = {
          .name = node.name, .op = "Const", .attrs = {{"dtype", value.dtype}, {"value", value}}};
    }
  }
  auto& signature = meta.signatures["serving_default"];
  for (const auto& [name, tensor] : model.inputs) {
    signature.inputs[name] = {.name = tensor.name, .dtype = tensor.type, .shape = tensor.shape};
  }
  for (const auto& [name, tensor] : model.outputs) {
    signature.outputs[name] = {.name = tensor.name, .dtype = tensor.type, .shape = tensor.shape};
  }
  return meta;
}

void expect_equal(const Tensor& found, const Tensor& wanted) {
  EXPECT_EQ(found.scalar_type(), wanted.scalar_type());
  ASSERT_EQ(found.sizes(), wanted.sizes());
  EXPECT_TRUE(at::allclose(found.to(at::kDouble), wanted.to(at::kDouble), 1e-4, 1e-5,
                           /*equal_nan=*/true))
      << found << " and not " << wanted;
}

/// TensorFlow's operations, of the newest version and of the one that exports claim, where the data
/// sets are there.
const std::vector<graph::OpRegistry>& registries() {
  static const auto read = [] {
    std::vector<graph::OpRegistry> all;
    const auto data = testing::data_dir();
    if (!data) return all;
    for (const char* name : {"ops.pbtxt.xz", "ops_v1.pbtxt.xz"}) {
      all.push_back(graph::OpRegistry::read(*data / "tensorflow" / name));
    }
    return all;
  }();
  return read;
}

// Runs the case and gives the operations that were translated.
std::set<std::string> run(const Case& one, const std::shared_ptr<Weights>& weights,
                          const Features& features) {
  const auto held = std::make_shared<CaseModel>(weights, one.compute);
  held->eval();
  CaseModel& model = *held;
  const Program program = trace(model, nullptr, features);
  const TranslatedModel translated = translate(program);
  graph::check_graph(translated.graph);
  for (const auto& registry : registries()) registry.check(translated.graph);
  // As an export writes it.
  graph::MetaGraph meta = frozen(translated);
  graph::strip_default_attrs(meta.graph);
  for (const auto& registry : registries()) {
    EXPECT_THAT(registry.spelt_out_defaults(meta.graph), ::testing::IsEmpty());
  }
  const auto exported = executor::ExecutableModel::from(std::move(meta), {});
  for (const std::int64_t rows : {std::int64_t{2}, kRows}) {
    const Features part = features.slice(0, rows);
    executor::Values inputs;
    for (const auto& [name, id] : program.features) inputs.emplace(name, part.tensor(name));
    const auto answers = exported.run("serving_default", inputs);
    const auto wanted = model.call({.features = part}, Mode::kPredict, nullptr).predictions;
    for (const auto& [name, value] : wanted) {
      expect_equal(std::get<Tensor>(answers.at(name)), std::get<Tensor>(value));
    }
  }
  std::set<std::string> kinds;
  for (const auto& operation : program.operations) kinds.insert(operation.kind);
  return kinds;
}

TEST(Translations, AnswerAsLibtorchDoesAndAreAllTried) {
  torch::manual_seed(7);
  const torch::NoGradGuard no_grad;
  const auto weights = std::make_shared<Weights>();
  const Features features = example();
  std::set<std::string> tried;
  for (const Case& one : cases()) {
    SCOPED_TRACE(one.name);
    try {
      tried.merge(run(one, weights, features));
    } catch (const Error& error) {
      ADD_FAILURE() << error.what();
    }
  }
  // Tracers of other versions of libtorch, or the columns of a serving input, write these.
  const std::set<std::string> elsewhere{
      "aten::_pad_enum", "aten::_scaled_dot_product_attention", "aten::convolution",
      "aten::rms_norm",  "aten::scaled_dot_product_attention",  "muster::lookup"};
  for (const auto& [name, tensorflow] : translated_operations()) {
    EXPECT_TRUE(tried.contains(name) || elsewhere.contains(name))
        << name << " has a translation, but no case here";
  }
}

/// A row of the page of what cannot be exported, with the error that it names.
struct Refusal {
  const char* row;
  const char* error;
  std::function<Tensors(const Given&)> compute;
};

#define REFUSAL(row, error, ...)                                               \
  Refusal {                                                                    \
    row, error, [](const Given& x) -> Tensors { return Tensors{__VA_ARGS__}; } \
  }

std::vector<Refusal> refusals() {
  return {
      REFUSAL("a branch on values or on the number of rows",
              "depends on the values or the number of its rows",
              x.row.size(0) == 5 ? x.row.sin() : x.row * 2),
      REFUSAL("as many results as the values say", "aten::masked_select",
              x.row + x.row.masked_select(x.row > 0).sum()),
      REFUSAL("random numbers", "aten::rand_like", x.row + torch::rand_like(x.row)),
      REFUSAL("complex numbers, Fourier transforms", "aten::fft_rfft",
              torch::real(torch::fft_rfft(x.row))),
      REFUSAL("special functions", "aten::i0", torch::i0(x.row)),
      REFUSAL("rows that are taken apart", "it splits the rows of the batch",
              torch::cat(torch::split(x.row, x.row.size(0), 0), 0)),
      REFUSAL("recurrent layers over rows", "the number of its steps follows the batch",
              std::get<0>(x.w.lstm->forward(x.row.unsqueeze(0))).squeeze(0)),
      REFUSAL("recurrent layers of many steps", "8192 that a graph may have",
              std::get<0>(x.w.gru->forward(x.cube.repeat({1, 700, 1}))).select(1, 0)),
      REFUSAL("padding to the longest row", "give it total_length",
              std::get<0>(rnn::pad_packed_sequence(packed(x, 2), true))),
      REFUSAL("arithmetic on packed sequences", "pad them first",
              torch::relu(packed(x).data()).sum(1)),
      REFUSAL("transposed convolutions over volumes", "over volumes are not translated",
              torch::conv_transpose3d(x.volume, x.w.volume_groups.slice(0, 0, 2))),
      REFUSAL("pools over volumes", "aten::max_pool3d", torch::max_pool3d(x.volume, 2)),
      REFUSAL("dilated pools", "dilated pooling is not translated",
              torch::max_pool2d(x.image, 2, 2, 0, 2)),
      REFUSAL("padding that reflects or repeats", "reflection_pad2d",
              torch::reflection_pad2d(x.image, {1, 1, 1, 1})),
      REFUSAL("bicubic resizing", "aten::upsample_bicubic2d",
              torch::upsample_bicubic2d(x.image, {18, 14}, false)),
      REFUSAL(
          "sampling by a grid", "aten::grid_sampler",
          torch::grid_sampler(x.image, x.image.slice(1, 0, 2).permute({0, 2, 3, 1}), 0, 0, false)),
      REFUSAL("batch norm without statistics", "the batch's own statistics",
              torch::batch_norm(x.image, Tensor(), Tensor(), Tensor(), Tensor(), true, 0.1, 1e-5,
                                false)),
      REFUSAL("norms other than 1 and 2", "only norms 1 and 2 are translated",
              torch::norm(x.cube, 3, 1)),
      REFUSAL("einsum of three tensors", "takes one or two tensors",
              torch::einsum("bi,bi,bi->bi", {x.row, x.row, x.row})),
  };
}

TEST(Translations, RefuseWhatThePageLists) {
  torch::manual_seed(7);
  const torch::NoGradGuard no_grad;
  const auto weights = std::make_shared<Weights>();
  const Features features = example();
  const std::string page =
      testing::read_bytes(std::string(MUSTER_SOURCE_DIR) + "/docs/guides/export_limits.md");
  const auto refused = refusals();
  for (const Refusal& refusal : refused) {
    SCOPED_TRACE(refusal.row);
    try {
      run({refusal.row, refusal.compute}, weights, features);
      ADD_FAILURE() << "it was translated";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), ::testing::HasSubstr(refusal.error));
    }
    const auto begin = page.find(std::string("\n| ") + refusal.row + " |");
    ASSERT_NE(begin, std::string::npos) << "the page has no such row";
    EXPECT_THAT(page.substr(begin + 1, page.find('\n', begin + 1) - begin),
                ::testing::HasSubstr(std::string("`") + refusal.error + "`"));
  }
}

TEST(Translations, AreThoseOfThePage) {
  const std::string path =
      std::string(MUSTER_SOURCE_DIR) + "/docs/formats/translated_operations.md";
  if (std::getenv("MUSTER_WRITE_PAGES") != nullptr) {
    testing::write_bytes(path, translated_operations_page());
  }
  EXPECT_EQ(testing::read_bytes(path), translated_operations_page())
      << "write the page again: MUSTER_WRITE_PAGES=1 export_test";
}

}  // namespace
}  // namespace muster::exporting
