#pragma once

/// A residual network's training step in plain loops, as what the kernels are held to. Values are
/// rounded to bf16 where the kernels keep them so; everything else is double.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <vector>

#include "muster/nn/kernels/cuda/residual_step.h"

namespace muster::residual {

using Numbers = std::vector<double>;

/// Host memory for Parameters and ParameterGradients.
struct ReferenceLayer {
  int in;
  int out;
  int stride;
  int width;  // of the output
  std::vector<float> weight;
  std::vector<float> gamma;
  std::vector<float> beta;
  std::vector<float> moving_mean;
  std::vector<float> moving_variance;
};

struct ReferenceGradients {
  std::vector<Numbers> weight;
  std::vector<Numbers> gamma;
  std::vector<Numbers> beta;
  Numbers kernel;
  Numbers bias;
};

inline double from_bf16(std::uint16_t half) {
  const std::uint32_t bits = static_cast<std::uint32_t>(half) << 16;
  float single = 0;
  std::memcpy(&single, &bits, 4);
  return single;
}
inline double to_bf16(double value) {
  auto single = static_cast<float>(value);
  std::uint32_t bits = 0;
  std::memcpy(&bits, &single, 4);
  bits = (bits + 0x7fff + ((bits >> 16) & 1)) & 0xffff0000U;
  std::memcpy(&single, &bits, 4);
  return single;
}

/// Numbers in [-1, 1) that depend on the seed alone.
class ReferenceRandom {
 public:
  explicit ReferenceRandom(std::uint64_t seed) : state_(seed) {}
  double next() {
    state_ = state_ * 6364136223846793005ULL + 1442695040888963407ULL;
    return static_cast<double>(state_ >> 40) / (1 << 23) - 1;
  }

 private:
  std::uint64_t state_;
};

/// The tensors of a step that the kernels keep: values of a layer's norm, the input of a unit (its
/// number), the last unit's output, and the gradient of a layer's norm.
enum class Kept { kValues, kInput, kOutput, kGradient };

class ReferenceNetwork {
 public:
  ReferenceNetwork(const Shape& shape, std::uint64_t seed) : shape_(shape) {
    ReferenceRandom random(seed);
    add_layer(random, 3, 16, 1, 32);
    for (int unit = 0; unit < shape.units(); ++unit) {
      const int stage = unit / shape.units_of_stage;
      const int out = 16 << stage;
      const bool first = unit % shape.units_of_stage == 0 && stage > 0;
      add_layer(random, first ? out / 2 : out, out, first ? 2 : 1, 32 >> stage);
      add_layer(random, out, out, 1, 32 >> stage);
    }
    for (int i = 0; i < 64 * shape.classes; ++i)
      kernel.push_back(static_cast<float>(random.next() * 0.3));
    for (int i = 0; i < shape.classes; ++i) bias.push_back(static_cast<float>(random.next()));
  }

  std::vector<ReferenceLayer> layers;
  std::vector<float> kernel;
  std::vector<float> bias;

  /// Called with every kept tensor, which it may replace: with the kernels' own tensor in its place
  /// each layer is compared alone, and the last bit of a value that decides a ReLU does not matter.
  std::function<void(Kept, int, Numbers&)> observe = [](Kept, int, Numbers&) {};

  /// Logits; moves the averages.
  Numbers forward(const Numbers& images) {
    Numbers x(images.size());
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = to_bf16(images[i] / 128 - 1);
    states_.assign(layers.size(), {});
    x = relu(normalise(0, convolve(0, x)), nullptr);
    inputs_.clear();
    for (int unit = 0; unit < shape_.units(); ++unit) {
      observe(Kept::kInput, unit, x);
      inputs_.push_back(x);
      const Numbers inner = relu(normalise(1 + 2 * unit, convolve(1 + 2 * unit, x)), nullptr);
      const Numbers sum = normalise(2 + 2 * unit, convolve(2 + 2 * unit, inner));
      const Numbers shortcut = strided(unit) ? pool(unit, x) : x;
      x = relu(sum, &shortcut);
    }
    observe(Kept::kOutput, 0, x);
    output_ = x;
    pooled_.assign(static_cast<std::size_t>(shape_.batch) * 64, 0);
    for (std::size_t i = 0; i < x.size(); ++i) pooled_[i / 4096 * 64 + i % 64] += x[i] / 64;
    return dense();
  }

  ReferenceGradients backward(const Numbers& logits_gradient) {
    ReferenceGradients to;
    to.weight.resize(layers.size());
    to.gamma.resize(layers.size());
    to.beta.resize(layers.size());
    Numbers g = dense_backward(logits_gradient, to);
    observe(Kept::kGradient, 2 * shape_.units(), g);
    for (int unit = shape_.units() - 1; unit >= 0; --unit) {
      Numbers inner = norm_and_convolution_backward(2 + 2 * unit, g, to);
      const auto& below = states_[static_cast<std::size_t>(1 + 2 * unit)];
      for (std::size_t i = 0; i < inner.size(); ++i) {
        inner[i] = below.normalised[i] > 0 ? to_bf16(inner[i]) : 0;
      }
      observe(Kept::kGradient, 1 + 2 * unit, inner);
      Numbers x = norm_and_convolution_backward(1 + 2 * unit, inner, to);
      const Numbers shortcut = strided(unit) ? pool_backward(unit, g) : g;
      const Numbers& input = inputs_[static_cast<std::size_t>(unit)];
      for (std::size_t i = 0; i < x.size(); ++i) {
        x[i] = input[i] > 0 ? to_bf16(x[i] + shortcut[i]) : 0;
      }
      observe(Kept::kGradient, 2 * unit, x);
      g = x;
    }
    norm_and_convolution_backward(0, g, to);
    return to;
  }

 private:
  struct State {
    Numbers input;       // of the convolution
    Numbers values;      // of the norm
    Numbers normalised;  // after gamma and beta
    Numbers mean;
    Numbers inverse_deviation;
  };

  void add_layer(ReferenceRandom& random, int in, int out, int stride, int width) {
    ReferenceLayer layer{in, out, stride, width, {}, {}, {}, {}, {}};
    const double limit = std::sqrt(6.0 / ((in + out) * 9));
    for (int i = 0; i < in * out * 9; ++i) {
      layer.weight.push_back(static_cast<float>(random.next() * limit));
    }
    for (int i = 0; i < out; ++i) {
      layer.gamma.push_back(static_cast<float>(1 + 0.3 * random.next()));
      layer.beta.push_back(static_cast<float>(0.3 * random.next()));
    }
    layer.moving_mean.assign(static_cast<std::size_t>(out), 0.5F);
    layer.moving_variance.assign(static_cast<std::size_t>(out), 2.0F);
    layers.push_back(layer);
  }
  bool strided(int unit) const {
    return layers[static_cast<std::size_t>(1 + 2 * unit)].stride == 2;
  }

  // Calls f(index of the input, index of the output, tap, input channel 0) for every pair of
  // pixels.
  template <typename F>
  void for_pixels(const ReferenceLayer& layer, F f) const {
    const int in_width = layer.width * layer.stride;
    for (int image = 0; image < shape_.batch; ++image) {
      for (int pixel = 0; pixel < layer.width * layer.width; ++pixel) {
        for (int tap = 0; tap < 9; ++tap) {
          const int row = pixel / layer.width * layer.stride + tap / 3 - 1;
          const int column = pixel % layer.width * layer.stride + tap % 3 - 1;
          if (row < 0 || row >= in_width || column < 0 || column >= in_width) continue;
          const auto from = static_cast<std::size_t>((image * in_width + row) * in_width + column);
          const auto to = static_cast<std::size_t>(image * layer.width * layer.width + pixel);
          f(from * static_cast<std::size_t>(layer.in), to * static_cast<std::size_t>(layer.out),
            tap);
        }
      }
    }
  }
  static double weight_at(const ReferenceLayer& layer, int out, int in, int tap) {
    return to_bf16(layer.weight[static_cast<std::size_t>((out * layer.in + in) * 9 + tap)]);
  }
  // [tap][in][out], rounded.
  static Numbers rounded_weights(const ReferenceLayer& layer) {
    Numbers weights;
    for (int tap = 0; tap < 9; ++tap) {
      for (int in = 0; in < layer.in; ++in) {
        for (int out = 0; out < layer.out; ++out) weights.push_back(weight_at(layer, out, in, tap));
      }
    }
    return weights;
  }

  Numbers convolve(int index, const Numbers& x) {
    const auto& layer = layers[static_cast<std::size_t>(index)];
    auto& state = states_[static_cast<std::size_t>(index)];
    state.input = x;
    const auto in = static_cast<std::size_t>(layer.in);
    const auto out = static_cast<std::size_t>(layer.out);
    const Numbers weights = rounded_weights(layer);
    Numbers y(static_cast<std::size_t>(shape_.batch * layer.width * layer.width) * out, 0);
    for_pixels(layer, [&](std::size_t from, std::size_t to, int tap) {
      for (std::size_t i = 0; i < in; ++i) {
        const double* row = &weights[(static_cast<std::size_t>(tap) * in + i) * out];
        for (std::size_t o = 0; o < out; ++o) y[to + o] += x[from + i] * row[o];
      }
    });
    for (double& value : y) value = to_bf16(value);
    observe(Kept::kValues, index, y);
    state.values = y;
    return y;
  }

  Numbers normalise(int index, const Numbers& y) {
    auto& layer = layers[static_cast<std::size_t>(index)];
    auto& state = states_[static_cast<std::size_t>(index)];
    const auto out = static_cast<std::size_t>(layer.out);
    const double count = static_cast<double>(y.size() / out);
    state.mean.assign(out, 0);
    state.inverse_deviation.assign(out, 0);
    for (std::size_t i = 0; i < y.size(); ++i) state.mean[i % out] += y[i] / count;
    Numbers variance(out, 0);
    for (std::size_t i = 0; i < y.size(); ++i) {
      variance[i % out] += (y[i] - state.mean[i % out]) * (y[i] - state.mean[i % out]) / count;
    }
    for (std::size_t o = 0; o < out; ++o) {
      state.inverse_deviation[o] = 1 / std::sqrt(variance[o] + 1e-5);
      layer.moving_mean[o] += static_cast<float>(0.003 * (state.mean[o] - layer.moving_mean[o]));
      layer.moving_variance[o] += static_cast<float>(
          0.003 * (variance[o] * count / (count - 1) - layer.moving_variance[o]));
    }
    Numbers result(y.size());
    for (std::size_t i = 0; i < y.size(); ++i) {
      const std::size_t o = i % out;
      result[i] =
          (y[i] - state.mean[o]) * state.inverse_deviation[o] * layer.gamma[o] + layer.beta[o];
    }
    state.normalised = result;
    return result;
  }

  static Numbers relu(Numbers values, const Numbers* shortcut) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double sum = values[i] + (shortcut != nullptr ? (*shortcut)[i] : 0);
      values[i] = sum > 0 ? to_bf16(sum) : 0;
    }
    return values;
  }

  template <typename F>
  void for_pooled(int unit, F f) const {
    const auto& layer = layers[static_cast<std::size_t>(1 + 2 * unit)];
    for (int image = 0; image < shape_.batch; ++image) {
      for (int row = 0; row < layer.width * 2; ++row) {
        for (int column = 0; column < layer.width * 2; ++column) {
          for (int i = 0; i < layer.in; ++i) {
            const int from =
                ((image * layer.width * 2 + row) * layer.width * 2 + column) * layer.in + i;
            const int to =
                ((image * layer.width + row / 2) * layer.width + column / 2) * layer.out +
                layer.in / 2 + i;
            f(static_cast<std::size_t>(from), static_cast<std::size_t>(to));
          }
        }
      }
    }
  }
  Numbers pool(int unit, const Numbers& x) const {
    Numbers y(x.size() / 2, 0);
    for_pooled(unit, [&](std::size_t from, std::size_t to) { y[to] += x[from] / 4; });
    return y;
  }
  Numbers pool_backward(int unit, const Numbers& g) const {
    Numbers x(g.size() * 2, 0);
    for_pooled(unit, [&](std::size_t from, std::size_t to) { x[from] = g[to] / 4; });
    return x;
  }

  Numbers dense() const {
    Numbers logits;
    const auto classes = static_cast<std::size_t>(shape_.classes);
    for (std::size_t image = 0; image < static_cast<std::size_t>(shape_.batch); ++image) {
      for (std::size_t c = 0; c < classes; ++c) {
        double logit = bias[c];
        for (std::size_t i = 0; i < 64; ++i)
          logit += pooled_[image * 64 + i] * kernel[i * classes + c];
        logits.push_back(logit);
      }
    }
    return logits;
  }
  Numbers dense_backward(const Numbers& logits_gradient, ReferenceGradients& to) const {
    const auto classes = static_cast<std::size_t>(shape_.classes);
    to.kernel.assign(64 * classes, 0);
    to.bias.assign(classes, 0);
    Numbers pooled(pooled_.size(), 0);
    for (std::size_t j = 0; j < logits_gradient.size(); ++j) {
      const std::size_t c = j % classes;
      to.bias[c] += logits_gradient[j];
      for (std::size_t i = 0; i < 64; ++i) {
        to.kernel[i * classes + c] += pooled_[j / classes * 64 + i] * logits_gradient[j];
        pooled[j / classes * 64 + i] += logits_gradient[j] * kernel[i * classes + c] / 64;
      }
    }
    Numbers g(output_.size());
    for (std::size_t i = 0; i < g.size(); ++i) {
      g[i] = output_[i] > 0 ? to_bf16(pooled[i / 4096 * 64 + i % 64]) : 0;
    }
    return g;
  }

  // From the gradient of the norm's output to that of the convolution's input.
  Numbers norm_and_convolution_backward(int index, const Numbers& g, ReferenceGradients& to) const {
    const auto at = static_cast<std::size_t>(index);
    const auto& layer = layers[at];
    const auto& state = states_[at];
    const auto in = static_cast<std::size_t>(layer.in);
    const auto out = static_cast<std::size_t>(layer.out);
    const double count = static_cast<double>(g.size() / out);
    to.gamma[at].assign(out, 0);
    to.beta[at].assign(out, 0);
    const auto normalised = [&](std::size_t i) {
      return (state.values[i] - state.mean[i % out]) * state.inverse_deviation[i % out];
    };
    for (std::size_t i = 0; i < g.size(); ++i) {
      to.beta[at][i % out] += g[i];
      to.gamma[at][i % out] += g[i] * normalised(i);
    }
    Numbers dy(g.size());
    for (std::size_t i = 0; i < g.size(); ++i) {
      const std::size_t o = i % out;
      dy[i] = to_bf16(layer.gamma[o] * state.inverse_deviation[o] *
                      (g[i] - to.beta[at][o] / count - normalised(i) * to.gamma[at][o] / count));
    }
    Numbers dx(state.input.size(), 0);
    const Numbers weights = rounded_weights(layer);
    Numbers dw(weights.size(), 0);
    for_pixels(layer, [&](std::size_t from, std::size_t pixel, int tap) {
      for (std::size_t i = 0; i < in; ++i) {
        const std::size_t row = (static_cast<std::size_t>(tap) * in + i) * out;
        double sum = 0;
        for (std::size_t o = 0; o < out; ++o) {
          sum += dy[pixel + o] * weights[row + o];
          dw[row + o] += dy[pixel + o] * state.input[from + i];
        }
        dx[from + i] += sum;
      }
    });
    to.weight[at].assign(dw.size(), 0);
    for (std::size_t i = 0; i < dw.size(); ++i) {
      const std::size_t o = i % out;
      to.weight[at][(o * in + i / out % in) * 9 + i / (out * in)] = dw[i];
    }
    return dx;
  }

  Shape shape_;
  std::vector<State> states_;
  std::vector<Numbers> inputs_;
  Numbers output_;
  Numbers pooled_;
};

/// |a - b| / |b|.
template <typename A>
double distance(const A* a, const Numbers& b) {
  double difference = 0;
  double norm = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    norm += b[i] * b[i];
  }
  return std::sqrt(difference / (norm > 0 ? norm : 1));
}

/// A network that goes along with the kernels: what they kept is compared and takes the place of
/// its own. `read` gives bf16 from where the kernels put it.
template <typename Workspace, typename Read>
void follow(ReferenceNetwork& network, const Workspace& workspace, const Read& read,
            double& farthest) {
  network.observe = [&workspace, read, &farthest](Kept kept, int index, Numbers& numbers) {
    const auto at = static_cast<std::size_t>(index);
    const std::uint16_t* from = kept == Kept::kValues   ? workspace.values[at]
                                : kept == Kept::kInput  ? workspace.inputs[at]
                                : kept == Kept::kOutput ? workspace.output
                                                        : workspace.gradients[at];
    const Numbers theirs = read(from, numbers.size());
    // Written so that NaN is far away.
    const double distance_now = distance(theirs.data(), numbers);
    if (!(distance_now <= farthest)) farthest = distance_now;
    numbers = theirs;
  };
}

}  // namespace muster::residual
