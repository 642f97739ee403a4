#pragma once

#include <torch/torch.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "muster/nn/kernels/torch_compat.h"

/// Models as a user of libtorch writes them, for benchmarks of what any model gains.
/// benchmarks/anchors/own_models.py has the same in PyTorch.
namespace muster::own_models {

struct Sizes {
  std::int64_t batch = 0, side = 0, width = 0, length = 0, words = 0, layers = 0;
};

/// A square convolution without bias that pads by half its kernel.
inline torch::nn::Conv2d convolution(int from, int to, int size, int stride = 1) {
  return torch::nn::Conv2d(
      torch::nn::Conv2dOptions(from, to, size).stride(stride).padding(size / 2).bias(false));
}

struct BlockImpl : torch::nn::Module {
  torch::nn::Conv2d c1{nullptr}, c2{nullptr}, cs{nullptr};
  torch::nn::BatchNorm2d n1{nullptr}, n2{nullptr}, ns{nullptr};
  BlockImpl(int in, int out, int stride) {
    c1 = register_module("c1", convolution(in, out, 3, stride));
    n1 = register_module("n1", torch::nn::BatchNorm2d(out));
    c2 = register_module("c2", convolution(out, out, 3));
    n2 = register_module("n2", torch::nn::BatchNorm2d(out));
    if (stride == 1 && in == out) return;
    cs = register_module("cs", convolution(in, out, 1, stride));
    ns = register_module("ns", torch::nn::BatchNorm2d(out));
  }
  at::Tensor forward(const at::Tensor& x) {
    const auto y = n2(c2(torch::relu(n1(c1(x)))));
    return torch::relu(y + (cs.is_empty() ? x : ns(cs(x))));
  }
};
TORCH_MODULE(Block);

struct ResNet18 : torch::nn::Module {
  torch::nn::Conv2d stem{nullptr};
  torch::nn::BatchNorm2d norm{nullptr};
  torch::nn::Sequential blocks;
  torch::nn::Linear fc{nullptr};
  ResNet18() {
    stem = register_module("stem", convolution(3, 64, 7, 2));
    norm = register_module("norm", torch::nn::BatchNorm2d(64));
    int in = 64;
    for (const int out : {64, 128, 256, 512}) {
      for (int i = 0; i < 2; ++i) {
        blocks->push_back(Block(in, out, i == 0 && out != 64 ? 2 : 1));
        in = out;
      }
    }
    register_module("blocks", blocks);
    fc = register_module("fc", torch::nn::Linear(512, 1000));
  }
  at::Tensor forward(const at::Tensor& image) {
    auto x = image.to(torch::MemoryFormat::ChannelsLast);
    x = torch::max_pool2d(torch::relu(norm(stem(x))), 3, 2, 1);
    return fc(blocks->forward(x).mean({2, 3}));
  }
};

inline at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
#if MUSTER_TORCH_AT_LEAST(2, 1)
  return at::scaled_dot_product_attention(q, k, v, {}, 0.0, true);
#else
  const auto weights = q.matmul(k.transpose(-2, -1)) / std::sqrt(static_cast<double>(q.size(-1)));
  return torch::softmax(weights, -1).matmul(v);
#endif
}

struct LayerImpl : torch::nn::Module {
  torch::nn::LayerNorm n1{nullptr}, n2{nullptr};
  torch::nn::Linear qkv{nullptr}, proj{nullptr}, up{nullptr}, down{nullptr};
  std::int64_t heads;
  LayerImpl(std::int64_t d, std::int64_t h) : heads(h) {
    n1 = register_module("n1", torch::nn::LayerNorm(torch::nn::LayerNormOptions({d})));
    n2 = register_module("n2", torch::nn::LayerNorm(torch::nn::LayerNormOptions({d})));
    qkv = register_module("qkv", torch::nn::Linear(d, 3 * d));
    proj = register_module("proj", torch::nn::Linear(d, d));
    up = register_module("up", torch::nn::Linear(d, 4 * d));
    down = register_module("down", torch::nn::Linear(4 * d, d));
  }
  at::Tensor forward(at::Tensor x) {
    const auto b = x.size(0), t = x.size(1), d = x.size(2);
    const auto p = qkv(n1(x)).view({b, t, 3, heads, d / heads}).permute({2, 0, 3, 1, 4});
    const auto a = attention(p[0], p[1], p[2]);
    x = x + proj(a.transpose(1, 2).reshape({b, t, d}));
    return x + down(torch::gelu(up(n2(x))));
  }
};
TORCH_MODULE(Layer);

struct Transformer : torch::nn::Module {
  torch::nn::Embedding words{nullptr}, places{nullptr};
  torch::nn::Sequential layers;
  torch::nn::Linear out{nullptr};
  explicit Transformer(const Sizes& sizes) {
    words = register_module("words", torch::nn::Embedding(sizes.words, sizes.width));
    places = register_module("places", torch::nn::Embedding(sizes.length, sizes.width));
    for (std::int64_t i = 0; i < sizes.layers; ++i) layers->push_back(Layer(sizes.width, 8));
    register_module("layers", layers);
    out = register_module("out", torch::nn::Linear(sizes.width, 1000));
  }
  at::Tensor forward(const at::Tensor& tokens) {
    return out(layers->forward(words(tokens) + places->weight).mean(1));
  }
};

/// Convolution, batch norm and ReLU, twice.
struct TwiceImpl : torch::nn::Module {
  torch::nn::Conv2d c1{nullptr}, c2{nullptr};
  torch::nn::BatchNorm2d n1{nullptr}, n2{nullptr};
  TwiceImpl(int in, int out) {
    c1 = register_module("c1", convolution(in, out, 3));
    n1 = register_module("n1", torch::nn::BatchNorm2d(out));
    c2 = register_module("c2", convolution(out, out, 3));
    n2 = register_module("n2", torch::nn::BatchNorm2d(out));
  }
  at::Tensor forward(const at::Tensor& x) { return torch::relu(n2(c2(torch::relu(n1(c1(x)))))); }
};
TORCH_MODULE(Twice);

/// Four levels from 64 channels, and two classes for every pixel.
struct UNet : torch::nn::Module {
  std::vector<Twice> down, up;
  std::vector<torch::nn::ConvTranspose2d> wider;
  torch::nn::Conv2d out{nullptr};
  UNet() {
    int in = 3;
    for (const int width : {64, 128, 256, 512}) {
      down.push_back(register_module("down" + std::to_string(width), Twice(in, width)));
      in = width;
    }
    for (const int width : {256, 128, 64}) {
      const auto options = torch::nn::ConvTranspose2dOptions(2 * width, width, 2).stride(2);
      wider.push_back(
          register_module("wider" + std::to_string(width), torch::nn::ConvTranspose2d(options)));
      up.push_back(register_module("up" + std::to_string(width), Twice(2 * width, width)));
    }
    out = register_module("out", torch::nn::Conv2d(torch::nn::Conv2dOptions(64, 2, 1)));
  }
  at::Tensor forward(const at::Tensor& image) {
    auto x = image.to(torch::MemoryFormat::ChannelsLast);
    std::vector<at::Tensor> levels;
    for (std::size_t i = 0; i < down.size(); ++i) {
      x = down[i](i == 0 ? x : torch::max_pool2d(x, 2));
      levels.push_back(x);
    }
    for (std::size_t i = 0; i < up.size(); ++i) {
      x = up[i](torch::cat({levels[levels.size() - 2 - i], wider[i](x)}, 1));
    }
    return out(x);
  }
};

struct Lstm : torch::nn::Module {
  torch::nn::Embedding words{nullptr};
  torch::nn::LSTM lstm{nullptr};
  torch::nn::Linear out{nullptr};
  explicit Lstm(const Sizes& sizes) {
    words = register_module("words", torch::nn::Embedding(sizes.words, sizes.width));
    lstm = register_module("lstm", torch::nn::LSTM(torch::nn::LSTMOptions(sizes.width, sizes.width)
                                                       .num_layers(sizes.layers)
                                                       .batch_first(true)));
    out = register_module("out", torch::nn::Linear(sizes.width, 1000));
  }
  at::Tensor forward(const at::Tensor& tokens) {
    return out(std::get<0>(lstm(words(tokens))).select(1, -1));
  }
};

/// ResNet-44 for CIFAR-10, channels innermost: the network that muster has kernels of its own for
/// (nn/model/resnet.h), as its user would write it without them.
struct CifarUnitImpl : torch::nn::Module {
  torch::nn::Conv2d c1{nullptr}, c2{nullptr};
  torch::nn::BatchNorm2d n1{nullptr}, n2{nullptr};
  std::int64_t stride, more;
  CifarUnitImpl(int in, int out, int step) : stride(step), more((out - in) / 2) {
    c1 = register_module("c1", convolution(in, out, 3, step));
    n1 = register_module("n1", torch::nn::BatchNorm2d(out));
    c2 = register_module("c2", convolution(out, out, 3));
    n2 = register_module("n2", torch::nn::BatchNorm2d(out));
  }
  at::Tensor forward(const at::Tensor& x) {
    const auto y = n2(c2(torch::relu(n1(c1(x)))));
    if (more == 0) return torch::relu(x + y);
    return torch::relu(
        torch::constant_pad_nd(torch::avg_pool2d(x, stride), {0, 0, 0, 0, more, more}) + y);
  }
};
TORCH_MODULE(CifarUnit);

struct ResNet44 : torch::nn::Module {
  torch::nn::Conv2d stem{nullptr};
  torch::nn::BatchNorm2d norm{nullptr};
  torch::nn::Sequential units;
  torch::nn::Linear dense{nullptr};
  ResNet44() {
    stem = register_module("stem", convolution(3, 16, 3));
    norm = register_module("norm", torch::nn::BatchNorm2d(16));
    int in = 16;
    for (const int out : {16, 32, 64}) {
      for (int i = 0; i < 7; ++i) {
        units->push_back(CifarUnit(in, out, i == 0 && out != 16 ? 2 : 1));
        in = out;
      }
    }
    register_module("units", units);
    dense = register_module("dense", torch::nn::Linear(64, 11));
  }
  at::Tensor forward(const at::Tensor& image) {
    const auto x = image.to(torch::MemoryFormat::ChannelsLast);
    return dense(units->forward(torch::relu(norm(stem(x)))).mean({2, 3}));
  }
};

/// The network of examples/mnist.
struct MnistCnn : torch::nn::Module {
  torch::nn::Conv2d conv1{nullptr}, conv2{nullptr};
  torch::nn::BatchNorm2d norm1{nullptr}, norm2{nullptr};
  torch::nn::Linear dense{nullptr}, logits{nullptr};
  torch::nn::BatchNorm1d norm3{nullptr};
  torch::nn::Dropout dropout{nullptr};
  MnistCnn() {
    const auto conv = [](int in, int out) {
      return torch::nn::Conv2d(torch::nn::Conv2dOptions(in, out, 3).padding(1));
    };
    conv1 = register_module("conv1", conv(1, 32));
    norm1 = register_module("norm1", torch::nn::BatchNorm2d(32));
    conv2 = register_module("conv2", conv(32, 64));
    norm2 = register_module("norm2", torch::nn::BatchNorm2d(64));
    dense = register_module("dense", torch::nn::Linear(7 * 7 * 64, 1024));
    norm3 = register_module("norm3", torch::nn::BatchNorm1d(1024));
    dropout = register_module("dropout", torch::nn::Dropout(0.5));
    logits = register_module("logits", torch::nn::Linear(1024, 10));
  }
  at::Tensor forward(const at::Tensor& image) {
    auto x = image.to(torch::MemoryFormat::ChannelsLast);
    x = torch::max_pool2d(torch::relu(norm1(conv1(x))), 2);
    x = torch::max_pool2d(torch::relu(norm2(conv2(x))), 2);
    return logits(dropout(torch::relu(norm3(dense(x.flatten(1))))));
  }
};

using Forward = std::function<at::Tensor(const at::Tensor&)>;

inline std::pair<std::shared_ptr<torch::nn::Module>, Forward> make_model(const std::string& kind,
                                                                         const Sizes& sizes) {
  const auto both = [](auto model) {
    return std::pair<std::shared_ptr<torch::nn::Module>, Forward>(
        model, [model](const at::Tensor& x) { return model->forward(x); });
  };
  if (kind == "resnet18") return both(std::make_shared<ResNet18>());
  if (kind == "unet") return both(std::make_shared<UNet>());
  if (kind == "resnet44") return both(std::make_shared<ResNet44>());
  if (kind == "mnist") return both(std::make_shared<MnistCnn>());
  if (kind == "lstm") return both(std::make_shared<Lstm>(sizes));
  return both(std::make_shared<Transformer>(sizes));
}

/// Sizes of the table in docs/performance.md, or small ones.
inline Sizes sizes_of(const std::string& kind, bool small) {
  if (small) return {2, kind == "mnist" ? 28 : 32, 32, 8, 50, 2};
  if (kind == "resnet18") return {.batch = 128, .side = 224};
  if (kind == "resnet44") return {.batch = 1024, .side = 32};
  if (kind == "mnist") return {.batch = 128, .side = 28};
  if (kind == "unet") return {.batch = 32, .side = 256};
  if (kind == "lstm")
    return {.batch = 64, .width = 512, .length = 128, .words = 16000, .layers = 2};
  return {.batch = 32, .width = 512, .length = 256, .words = 16000, .layers = 6};
}

/// A batch of noise, and its labels.
inline std::pair<at::Tensor, at::Tensor> batch_of(const std::string& kind, const Sizes& sizes) {
  const bool pixels = kind == "unet";
  const std::int64_t classes = pixels ? 2 : kind == "resnet44" || kind == "mnist" ? 10 : 1000;
  const auto label_sizes = pixels ? std::vector<std::int64_t>{sizes.batch, sizes.side, sizes.side}
                                  : std::vector<std::int64_t>{sizes.batch};
  const at::Tensor label = torch::randint(0, classes, label_sizes, torch::kLong);
  if (kind == "transformer" || kind == "lstm") {
    return {torch::randint(0, sizes.words, {sizes.batch, sizes.length}, torch::kLong), label};
  }
  const std::int64_t channels = kind == "mnist" ? 1 : 3;
  return {torch::randn({sizes.batch, channels, sizes.side, sizes.side}), label};
}

}  // namespace muster::own_models
