#include "muster/nn/model/resnet.h"

#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/types.h>

#include <array>
#include <utility>

#include "muster/base/error.h"
#include "muster/nn/model/dense.h"
#include "muster/nn/model/random_scope.h"
#include "muster/nn/model/residual_network_node_internal.h"
#include "muster/nn/model/residual_node_internal.h"
#include "muster/nn/model/seeded_module.h"

namespace muster {
namespace {

namespace nn = torch::nn;

constexpr std::int64_t kColours = 3;

struct Stage {
  std::int64_t filters;
  std::int64_t stride;
};
constexpr std::array<Stage, 3> kStages{{{16, 1}, {32, 2}, {64, 2}}};

// Names as TensorFlow makes them unique: "stage", "stage_1", "stage_2".
std::string numbered(const std::string& name, std::size_t number) {
  return number == 0 ? name : fmt::format("{}_{}", name, number);
}

std::size_t units_of(const ResNetOptions& options) {
  const auto layers = options.num_layers;
  if (layers < 8 || (layers - 2) % 6 != 0) {
    throw InvalidArgument("num_layers must be 6n + 2, such as 8, 20, 32, 44 or 56: {}", layers);
  }
  return static_cast<std::size_t>((layers - 2) / 6);
}

void check(const ResNetOptions& options) {
  units_of(options);
  if (options.num_classes <= 0) {
    throw InvalidArgument("ResNetOptions: num_classes must be given, and positive: {}",
                          options.num_classes);
  }
  if (!(options.batch_norm_decay >= 0 && options.batch_norm_decay < 1)) {
    throw InvalidArgument("batch_norm_decay must be in [0, 1): {}", options.batch_norm_decay);
  }
  if (!(options.batch_norm_epsilon > 0)) {
    throw InvalidArgument("batch_norm_epsilon must be positive: {}", options.batch_norm_epsilon);
  }
}

/// 3x3 without a bias, one pixel of zeros around the image whatever the stride.
class Convolution : public nn::Conv2dImpl, public SeededModule {
 public:
  Convolution(std::int64_t in, std::int64_t out, std::int64_t stride)
      : nn::Conv2dImpl(nn::Conv2dOptions(in, out, 3).stride(stride).padding(1).bias(false)) {}

  void seed_from(std::uint64_t seed, const std::string& name) override {
    const torch::NoGradGuard no_grad;
    glorot_uniform(KernelLayout::kOutIn)(weight, derive_key(seed, name + ".kernel"));
  }
};

std::shared_ptr<nn::BatchNorm2dImpl> normalisation(std::int64_t channels,
                                                   const ResNetOptions& options) {
  // TensorFlow's decay is the share that stays, libtorch's momentum the share that is new.
  return std::make_shared<nn::BatchNorm2dImpl>(nn::BatchNormOptions(channels)
                                                   .eps(options.batch_norm_epsilon)
                                                   .momentum(1.0 - options.batch_norm_decay));
}

using Norm = std::shared_ptr<nn::BatchNorm2dImpl>;

/// Layer as our kernels take it in training.
kernels::NormalisedConvolution layer_of(const Convolution& convolution, const Norm& norm) {
  return {.weight = convolution.weight,
          .gamma = norm->weight,
          .beta = norm->bias,
          .running_mean = norm->running_mean,
          .running_variance = norm->running_var,
          .momentum = norm->options.momentum().value(),
          .epsilon = norm->options.eps()};
}

/// Convolution, batch norm, ReLU, convolution, batch norm, plus the input, ReLU.
class Unit : public nn::Module {
 public:
  Unit(std::int64_t in, std::int64_t out, std::int64_t stride, const ResNetOptions& options)
      : stride_(stride), more_channels_(out - in), fused_(options.fused) {
    first_ = register_module("conv2d", std::make_shared<Convolution>(in, out, stride));
    first_norm_ = register_module("batch_normalization", normalisation(out, options));
    second_ = register_module("conv2d_1", std::make_shared<Convolution>(out, out, 1));
    second_norm_ = register_module("batch_normalization_1", normalisation(out, options));
  }

  torch::Tensor forward(const torch::Tensor& input) {
    if (fused_ && is_training()) {
      const auto first = layer_of(*first_, first_norm_);
      const auto second = layer_of(*second_, second_norm_);
      if (internal::residual_node_takes(input, stride_, {first, second})) {
        first_norm_->num_batches_tracked += 1;
        second_norm_->num_batches_tracked += 1;
        return internal::residual_unit_node(input, first, second, stride_);
      }
    }
    auto y = first_norm_->forward(first_->forward(input)).relu_();
    y = second_norm_->forward(second_->forward(y));
    return y.add_(shortcut(input)).relu_();
  }

  void add_to(kernels::ResidualNetwork& network) const {
    network.layers.push_back(layer_of(*first_, first_norm_));
    network.layers.push_back(layer_of(*second_, second_norm_));
    network.batches.push_back(first_norm_->num_batches_tracked);
    network.batches.push_back(second_norm_->num_batches_tracked);
  }

 private:
  torch::Tensor shortcut(const torch::Tensor& input) const {
    if (more_channels_ == 0) return input;
    // An odd size is rounded up, and what is outside does not count: TensorFlow's SAME.
    const auto pooled = torch::avg_pool2d(input, stride_, stride_, 0, /*ceil_mode=*/true,
                                          /*count_include_pad=*/false);
    const auto before = more_channels_ / 2;
    return torch::constant_pad_nd(pooled, {0, 0, 0, 0, before, more_channels_ - before});
  }

  std::int64_t stride_;
  std::int64_t more_channels_;
  bool fused_;
  std::shared_ptr<Convolution> first_;
  std::shared_ptr<nn::BatchNorm2dImpl> first_norm_;
  std::shared_ptr<Convolution> second_;
  std::shared_ptr<nn::BatchNorm2dImpl> second_norm_;
};

/// The units of one resolution, one after the other.
class UnitStack : public nn::Module {
 public:
  void add(std::size_t number, std::shared_ptr<Unit> unit) {
    units_.push_back(register_module(numbered("residual_v1", number), std::move(unit)));
  }
  torch::Tensor forward(torch::Tensor x) {
    for (const auto& unit : units_) x = unit->forward(x);
    return x;
  }
  void add_to(kernels::ResidualNetwork& network) const {
    for (const auto& unit : units_) unit->add_to(network);
  }

 private:
  std::vector<std::shared_ptr<Unit>> units_;
};

}  // namespace

class ResNet::Network : public nn::Module {
 public:
  explicit Network(const ResNetOptions& options) : fused_(options.fused) {
    std::int64_t channels = kStages[0].filters;
    stem_ = register_module("conv2d", std::make_shared<Convolution>(kColours, channels, 1));
    norm_ = register_module("batch_normalization", normalisation(channels, options));
    for (std::size_t i = 0; i < kStages.size(); ++i) {
      stages_.push_back(register_module(numbered("stage", i), std::make_shared<UnitStack>()));
      for (std::size_t unit = 0; unit < units_of(options); ++unit) {
        const std::int64_t stride = unit == 0 ? kStages[i].stride : 1;
        stages_[i]->add(unit,
                        std::make_shared<Unit>(channels, kStages[i].filters, stride, options));
        channels = kStages[i].filters;
      }
    }
    dense_ = register_module("dense", std::make_shared<Dense>(channels, options.num_classes));
  }

  torch::Tensor forward(const torch::Tensor& images) {
    auto x = begin(images);
    for (const auto& stage : stages_) x = stage->forward(x);
    return dense_->forward(x.mean({2, 3}));
  }

  /// All parameters and statistics, in the order of the layers.
  kernels::ResidualNetwork parts() const {
    kernels::ResidualNetwork network;
    network.layers.push_back(layer_of(*stem_, norm_));
    network.batches.push_back(norm_->num_batches_tracked);
    for (const auto& stage : stages_) stage->add_to(network);
    network.kernel = dense_->kernel;
    network.bias = dense_->bias;
    return network;
  }

 private:
  torch::Tensor begin(const torch::Tensor& images) {
    if (fused_ && is_training()) {
      const auto stem = layer_of(*stem_, norm_);
      if (internal::residual_node_takes(images, /*stride=*/1, {stem})) {
        norm_->num_batches_tracked += 1;
        return internal::normalised_layer_node(images, stem);
      }
    }
    return norm_->forward(stem_->forward(images)).relu_();
  }

  bool fused_;
  std::shared_ptr<Convolution> stem_;
  std::shared_ptr<nn::BatchNorm2dImpl> norm_;
  std::vector<std::shared_ptr<UnitStack>> stages_;
  std::shared_ptr<Dense> dense_;
};

ResNet::ResNet(ResNetOptions options) : options_(std::move(options)) {
  check(options_);
  network_ = register_module("resnet", std::make_shared<Network>(options_));
  seed_modules(*this, 0);
}

ResNet::~ResNet() = default;

torch::Tensor ResNet::forward(const Features& features) {
  const at::Tensor& images = features.tensor(options_.feature);
  if (images.dim() != 4 || images.size(3) != kColours) {
    throw InvalidArgument("the feature '{}' must be images of [batch, height, width, 3], but is {}",
                          options_.feature, describe(features.at(options_.feature)));
  }
  if (options_.fused && is_training() && images.is_cuda()) {
    const auto network = network_->parts();
    if (internal::residual_network_node_takes(images, network)) {
      return internal::residual_network_node(images, network);
    }
  }
  const auto x = images.to(torch::kFloat).permute({0, 3, 1, 2}) / 128 - 1;
  const bool channels_last =
      options_.channels_last ||
      (options_.fused && is_training() && internal::residual_nodes_want_channels_last());
  // The permuted images are in memory as they came.
  return network_->forward(channels_last ? x : x.contiguous());
}

std::vector<ResNetShape> resnet_shapes(const ResNetOptions& options, std::int64_t height,
                                       std::int64_t width) {
  check(options);
  std::vector<ResNetShape> shapes;
  std::int64_t channels = kStages[0].filters;
  for (std::size_t i = 0; i < kStages.size(); ++i) {
    for (std::size_t unit = 0; unit < units_of(options); ++unit) {
      const auto name = fmt::format("{}/{}/", numbered("stage", i), numbered("residual_v1", unit));
      if (channels != kStages[i].filters) {
        height = (height + kStages[i].stride - 1) / kStages[i].stride;
        width = (width + kStages[i].stride - 1) / kStages[i].stride;
        shapes.push_back({name + "avg_pool/", {channels, height, width}});
      }
      channels = kStages[i].filters;
      shapes.push_back({name, {channels, height, width}});
    }
  }
  shapes.push_back({"global_avg_pool/", {channels}});
  shapes.push_back({"fully_connected/", {options.num_classes}});
  return shapes;
}

}  // namespace muster
