#pragma once

#include <torch/torch.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "muster/nn/kernels/torch_compat.h"

/// Small networks, as libtorch's users write them, for the tests of the compiler.
namespace muster::compiler::networks {

struct Network {
  std::string name;
  std::shared_ptr<torch::nn::Module> module;
  /// From inputs to the loss.
  std::function<at::Tensor(const std::vector<at::Tensor>& inputs)> loss;
  std::function<std::vector<at::Tensor>()> make_inputs;
};

inline at::Tensor classes(std::int64_t batch, std::int64_t count) {
  return torch::randint(0, count, {batch}, torch::kLong);
}

inline Network mlp() {
  torch::nn::Sequential net(torch::nn::Linear(12, 24), torch::nn::ReLU(), torch::nn::Dropout(0.2),
                            torch::nn::Linear(24, 16), torch::nn::Tanh(), torch::nn::Linear(16, 5));
  return {"MLP", net.ptr(),
          [net](const auto& in) mutable {
            return torch::cross_entropy_loss(net->forward(in[0]), in[1]);
          },
          [] {
            return std::vector<at::Tensor>{torch::randn({6, 12}), classes(6, 5)};
          }};
}

inline Network cnn() {
  torch::nn::Sequential net(torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 6, 3).padding(1)),
                            torch::nn::ReLU(), torch::nn::MaxPool2d(2), torch::nn::Conv2d(6, 8, 3),
                            torch::nn::ELU(), torch::nn::Flatten(), torch::nn::Linear(8 * 4, 5));
  return {"CNN", net.ptr(),
          [net](const auto& in) mutable {
            return torch::cross_entropy_loss(net->forward(in[0]), in[1]);
          },
          [] {
            return std::vector<at::Tensor>{torch::randn({4, 3, 8, 8}), classes(4, 5)};
          }};
}

// Channels in eights: with others, oneDNN 2.7 writes past gradients by its kernels for AVX2.
struct ResidualImpl : torch::nn::Module {
  torch::nn::Conv2d c1{nullptr}, c2{nullptr}, shortcut{nullptr};
  torch::nn::BatchNorm2d n1{nullptr}, n2{nullptr}, ns{nullptr};
  torch::nn::Linear out{nullptr};
  ResidualImpl() {
    const auto conv = [](int in, int out_channels, int size, int stride) {
      return torch::nn::Conv2d(torch::nn::Conv2dOptions(in, out_channels, size)
                                   .stride(stride)
                                   .padding(size / 2)
                                   .bias(false));
    };
    c1 = register_module("c1", conv(8, 16, 3, 2));
    n1 = register_module("n1", torch::nn::BatchNorm2d(16));
    c2 = register_module("c2", conv(16, 16, 3, 1));
    n2 = register_module("n2", torch::nn::BatchNorm2d(16));
    shortcut = register_module("shortcut", conv(8, 16, 1, 2));
    ns = register_module("ns", torch::nn::BatchNorm2d(16));
    out = register_module("out", torch::nn::Linear(16, 5));
  }
  at::Tensor forward(const at::Tensor& x) {
    auto y = torch::relu(n1(c1(x)));
    y = n2(c2(y));
    y = torch::relu_(y.add_(ns(shortcut(x))));
    return out(y.mean({2, 3}));
  }
};
TORCH_MODULE(Residual);

inline Network residual() {
  Residual net;
  return {"residual block", net.ptr(),
          [net](const auto& in) mutable {
            const auto x = in[0].to(torch::MemoryFormat::ChannelsLast);
            return torch::cross_entropy_loss(net(x), in[1]);
          },
          [] {
            return std::vector<at::Tensor>{torch::randn({4, 8, 8, 8}), classes(4, 5)};
          }};
}

struct TransformerImpl : torch::nn::Module {
  torch::nn::Embedding words{nullptr}, places{nullptr};
  torch::nn::LayerNorm n1{nullptr}, n2{nullptr};
  torch::nn::Linear qkv{nullptr}, proj{nullptr}, up{nullptr}, down{nullptr}, out{nullptr};
  TransformerImpl() {
    words = register_module("words", torch::nn::Embedding(20, 16));
    places = register_module("places", torch::nn::Embedding(6, 16));
    n1 = register_module("n1", torch::nn::LayerNorm(torch::nn::LayerNormOptions({16})));
    n2 = register_module("n2", torch::nn::LayerNorm(torch::nn::LayerNormOptions({16})));
    qkv = register_module("qkv", torch::nn::Linear(16, 48));
    proj = register_module("proj", torch::nn::Linear(16, 16));
    up = register_module("up", torch::nn::Linear(16, 32));
    down = register_module("down", torch::nn::Linear(32, 16));
    out = register_module("out", torch::nn::Linear(16, 5));
  }
  at::Tensor forward(const at::Tensor& tokens) {
    const auto batch = tokens.size(0), length = tokens.size(1);
    auto x = words(tokens) + places->weight;
    const auto p = qkv(n1(x)).view({batch, length, 3, 2, 8}).permute({2, 0, 3, 1, 4});
    const auto weights = torch::softmax(p[0].matmul(p[1].transpose(-2, -1)) / 2.8, -1);
    const auto a = weights.matmul(p[2]).transpose(1, 2).reshape({batch, length, 16});
    x = x + proj(a);
    x = x + down(torch::gelu(up(n2(x))));
    return out(x.mean(1));
  }
};
TORCH_MODULE(Transformer);

inline Network transformer() {
  Transformer net;
  return {
      "transformer block", net.ptr(),
      [net](const auto& in) mutable { return torch::cross_entropy_loss(net(in[0]), in[1]); },
      [] {
        return std::vector<at::Tensor>{torch::randint(0, 20, {3, 6}, torch::kLong), classes(3, 5)};
      }};
}

template <typename Recurrent>
Network recurrent(const char* name, Recurrent layers) {
  auto module = std::make_shared<torch::nn::Module>();
  module->register_module("layers", layers);
  torch::nn::Linear out = module->register_module("out", torch::nn::Linear(8, 5));
  return {name, module,
          [layers, out](const auto& in) mutable {
            const auto states = std::get<0>(layers->forward(in[0]));
            return torch::cross_entropy_loss(out(states.select(1, -1)), in[1]);
          },
          [] {
            return std::vector<at::Tensor>{torch::randn({3, 5, 6}), classes(3, 5)};
          }};
}

inline Network lstm() {
  return recurrent("LSTM",
                   torch::nn::LSTM(torch::nn::LSTMOptions(6, 8).num_layers(2).batch_first(true)));
}

inline Network gru() {
  return recurrent("GRU", torch::nn::GRU(torch::nn::GRUOptions(6, 8).batch_first(true)));
}

struct UNetImpl : torch::nn::Module {
  torch::nn::Conv2d down{nullptr}, middle{nullptr}, up{nullptr}, out{nullptr};
  torch::nn::ConvTranspose2d grow{nullptr};
  torch::nn::GroupNorm norm{nullptr};
  UNetImpl() {
    const auto conv = [](int in, int channels) {
      return torch::nn::Conv2d(torch::nn::Conv2dOptions(in, channels, 3).padding(1));
    };
    down = register_module("down", conv(2, 4));
    middle = register_module("middle", conv(4, 8));
    grow = register_module(
        "grow", torch::nn::ConvTranspose2d(torch::nn::ConvTranspose2dOptions(8, 4, 2).stride(2)));
    norm = register_module("norm", torch::nn::GroupNorm(2, 8));
    up = register_module("up", conv(8, 4));
    out = register_module("out", torch::nn::Conv2d(4, 1, 1));
  }
  at::Tensor forward(const at::Tensor& x) {
    const auto wide = torch::silu(down(x));
    const auto deep = torch::leaky_relu(middle(torch::avg_pool2d(wide, 2)), 0.1);
    const auto both = norm(torch::cat({wide, grow(deep)}, 1));
    return out(torch::relu(up(both)));
  }
};
TORCH_MODULE(UNet);

inline Network unet() {
  UNet net;
  return {"U-Net", net.ptr(),
          [net](const auto& in) mutable {
            return torch::binary_cross_entropy_with_logits(net(in[0]), in[1]);
          },
          [] {
            return std::vector<at::Tensor>{torch::randn({2, 2, 8, 8}), torch::rand({2, 1, 8, 8})};
          }};
}

inline Network autoencoder() {
  torch::nn::Sequential net(torch::nn::Linear(10, 4), torch::nn::Softplus(),
                            torch::nn::Linear(4, 10), torch::nn::Sigmoid());
  return {"autoencoder", net.ptr(),
          [net](const auto& in) mutable { return torch::mse_loss(net->forward(in[0]), in[0]); },
          [] {
            return std::vector<at::Tensor>{torch::rand({5, 10})};
          }};
}

inline Network two_heads() {
  auto module = std::make_shared<torch::nn::Module>();
  torch::nn::Linear body = module->register_module("body", torch::nn::Linear(7, 9));
  torch::nn::Linear one = module->register_module("one", torch::nn::Linear(9, 3));
  torch::nn::Linear other = module->register_module("other", torch::nn::Linear(9, 1));
  return {"two heads", module,
          [=](const auto& in) mutable {
            const auto both = torch::relu(body(in[0])).chunk(1, 1)[0];
            const auto value = other(both).squeeze(1);
            return torch::cross_entropy_loss(one(both), in[1]) +
                   0.5 * torch::smooth_l1_loss(value, in[0].narrow(1, 0, 1).squeeze(1));
          },
          [] {
            return std::vector<at::Tensor>{torch::randn({6, 7}), classes(6, 3)};
          }};
}

/// Operations drawn at random over a few tensors, in-place ones and views among them.
inline Network random_graph(std::uint64_t seed) {
  auto module = std::make_shared<torch::nn::Module>();
  auto weight = module->register_parameter("weight", torch::randn({6, 6}) * 0.3);
  const auto run = [=](const std::vector<at::Tensor>& in) {
    std::vector<at::Tensor> pool{in[0], in[0].matmul(weight)};
    std::uint64_t state = seed * 6364136223846793005ULL + 1442695040888963407ULL;
    const auto draw = [&state](std::size_t below) {
      state = state * 6364136223846793005ULL + 1442695040888963407ULL;
      return static_cast<std::size_t>(state >> 33) % below;
    };
    for (int i = 0; i < 14; ++i) {
      const at::Tensor a = pool[draw(pool.size())];
      const at::Tensor b = pool[draw(pool.size())];
      at::Tensor made;
      switch (draw(11)) {
        case 0:
          made = a + 0.5 * b;
          break;
        case 1:
          made = torch::tanh(a) * b;
          break;
        case 2:
          made = torch::relu(a).t();
          break;
        case 3:
          made = a.matmul(weight);
          break;
        case 4:
          made = a - b.mean(0, true);
          break;
        case 5:
          made = torch::where(a > 0, a, 0.1 * b);
          break;
        case 6:
          made = torch::sigmoid(a).clone().add_(b);
          break;
        case 7:
          made = torch::cat({a.narrow(0, 0, 3), b.narrow(0, 3, 3)}, 0);
          break;
        case 8:
          made = torch::softmax(a, 1).clone().mul_(2.0);
          break;
        case 9:
          made = torch::stack({a.select(1, 0), a.select(1, 3), b.select(1, 1), b.select(1, 2),
                               a.select(1, 5), b.select(1, 4)},
                              1);
          break;
        default: {
          made = a.clone();
          made.slice(0, 1, 4).mul_(0.5);
          made.select(1, 2).copy_(b.select(0, 1).detach());
        }
      }
      pool.push_back(made);
    }
    at::Tensor sum = pool.back().pow(2).mean() + weight.pow(2).mean();
    for (std::size_t i = 3; i < pool.size(); i += 4) sum = sum + torch::tanh(pool[i]).sum() * 0.1;
    return sum;
  };
  return {"random graph " + std::to_string(seed), module, run, [] {
            return std::vector<at::Tensor>{torch::randn({6, 6})};
          }};
}

inline std::vector<Network> all() {
  std::vector<Network> networks{mlp(), cnn(),  residual(),    transformer(), lstm(),
                                gru(), unet(), autoencoder(), two_heads()};
  for (std::uint64_t seed = 0; seed < 12; ++seed) networks.push_back(random_graph(seed));
  return networks;
}

/// State that a step reads and changes: parameters, momentum, buffers.
class Trained {
 public:
  Trained(Network network, bool bf16) : network_(std::move(network)), bf16_(bf16) {
    network_.module->train();
    for (const at::Tensor& parameter : network_.module->parameters()) {
      parameter.mutable_grad() = torch::zeros_like(parameter);
      momentum_.push_back(torch::zeros_like(parameter).detach());
    }
  }

  const Network& network() const { return network_; }

  /// Zero gradients, forward, backward, momentum: returns the loss.
  std::vector<at::Tensor> step(const std::vector<at::Tensor>& inputs) {
    for (const at::Tensor& parameter : network_.module->parameters())
      parameter.mutable_grad().zero_();
    const at::Tensor loss = forward(inputs);
    loss.backward();
    const torch::NoGradGuard no_grad;
    std::size_t i = 0;
    for (at::Tensor parameter : network_.module->parameters()) {
      momentum_[i].mul_(0.9).add_(parameter.grad());
      parameter.sub_(momentum_[i++], 0.05);
    }
    return {loss.detach()};
  }

  std::vector<at::Tensor> values() const {
    std::vector<at::Tensor> all;
    for (const at::Tensor& one : network_.module->parameters()) all.push_back(one.detach());
    for (const at::Tensor& one : network_.module->parameters()) all.push_back(one.grad());
    for (const at::Tensor& one : network_.module->buffers()) all.push_back(one);
    all.insert(all.end(), momentum_.begin(), momentum_.end());
    return all;
  }

  std::vector<at::Tensor> copies() const {
    std::vector<at::Tensor> copied;
    for (const at::Tensor& value : values()) copied.push_back(value.clone());
    return copied;
  }

  void set(const std::vector<at::Tensor>& to) const {
    const torch::NoGradGuard no_grad;
    const auto now = values();
    for (std::size_t i = 0; i < now.size(); ++i) now[i].copy_(to[i]);
  }

 private:
  at::Tensor forward(const std::vector<at::Tensor>& inputs) {
    const compat::AutocastScope autocast(bf16_, c10::kCPU, at::kBFloat16);
    return network_.loss(inputs);
  }

  Network network_;
  bool bf16_;
  std::vector<at::Tensor> momentum_{};
};

}  // namespace muster::compiler::networks
