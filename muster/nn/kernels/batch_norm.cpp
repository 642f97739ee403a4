#include "muster/nn/kernels/batch_norm.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <algorithm>
#include <cmath>

namespace muster::kernels {
namespace {

// A channel's values are in runs, one an image: `runs` of them, `length` long, `stride` apart. Runs
// of one value (no space) are walked for many channels at a time instead, so that memory is read in
// its order.
struct Layout {
  explicit Layout(const at::Tensor& input)
      : runs(input.size(0)),
        channels(input.size(1)),
        length(input.numel() / (runs * channels)),
        stride(channels * length) {}

  std::int64_t count() const { return runs * length; }

  std::int64_t runs, channels, length, stride;
};

/// Partial sums stand side by side so that they can be one vector; the order of additions depends
/// on the number of values alone.
constexpr int kLanes = 16;

struct Lanes {
  float values[kLanes] = {};

  double total() const {
    double sum = 0;
    for (const float value : values) sum += value;
    return sum;
  }
};

// Sums term(i) over a run.
template <typename Term>
double sum_over(std::int64_t length, Term term) {
  Lanes sums;
  std::int64_t i = 0;
  for (; i + kLanes <= length; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) sums.values[lane] += term(i + lane);
  }
  for (int lane = 0; i < length; ++i, ++lane) sums.values[lane] += term(i);
  return sums.total();
}

/// Channels without space that are walked together.
constexpr std::int64_t kBlock = 64;

struct Moments {
  double mean = 0;
  double variance = 0;
};

Moments moments_of(const float* values, const Layout& layout) {
  const auto count = static_cast<double>(layout.count());
  double sum = 0;
  for (std::int64_t r = 0; r < layout.runs; ++r) {
    const float* const run = values + r * layout.stride;
    sum += sum_over(layout.length, [run](std::int64_t i) { return run[i]; });
  }
  const double mean = sum / count;
  const auto center = static_cast<float>(mean);
  double squares = 0;
  for (std::int64_t r = 0; r < layout.runs; ++r) {
    const float* const run = values + r * layout.stride;
    squares += sum_over(layout.length, [run, center](std::int64_t i) {
      const float difference = run[i] - center;
      return difference * difference;
    });
  }
  return {mean, squares / count};
}

// The same for up to kBlock channels without space.
void moments_of_block(const float* values, const Layout& layout, std::int64_t channels,
                      Moments* moments) {
  double sums[kBlock] = {};
  for (std::int64_t r = 0; r < layout.runs; ++r) {
    const float* const row = values + r * layout.stride;
    for (std::int64_t c = 0; c < channels; ++c) sums[c] += row[c];
  }
  for (std::int64_t c = 0; c < channels; ++c) {
    moments[c].mean = sums[c] / static_cast<double>(layout.runs);
    sums[c] = 0;
  }
  for (std::int64_t r = 0; r < layout.runs; ++r) {
    const float* const row = values + r * layout.stride;
    for (std::int64_t c = 0; c < channels; ++c) {
      const double difference = row[c] - moments[c].mean;
      sums[c] += difference * difference;
    }
  }
  for (std::int64_t c = 0; c < channels; ++c) {
    moments[c].variance = sums[c] / static_cast<double>(layout.runs);
  }
}

/// y = (x - mean) * scale + shift. Taking the mean off first keeps its digits.
struct Line {
  float mean, scale, shift;
  float at(float x) const { return (x - mean) * scale + shift; }
};

// Over one channel's runs or a block's rows.
void apply(const float* from, const Layout& layout, std::int64_t channels, const Line* lines,
           float* to) {
  for (std::int64_t r = 0; r < layout.runs; ++r, from += layout.stride, to += layout.stride) {
    if (layout.length == 1) {
      for (std::int64_t c = 0; c < channels; ++c) to[c] = lines[c].at(from[c]);
    } else {
      const Line line = lines[0];
      for (std::int64_t i = 0; i < layout.length; ++i) to[i] = line.at(from[i]);
    }
  }
}

/// Sums that the gradient of one channel needs: over dy and over dy * (x - mean).
struct GradientSums {
  double gradient = 0;
  double product = 0;
};

GradientSums gradient_sums(const float* gradient, const float* values, float mean,
                           const Layout& layout) {
  GradientSums sums;
  for (std::int64_t r = 0; r < layout.runs; ++r) {
    const float* const dy = gradient + r * layout.stride;
    const float* const x = values + r * layout.stride;
    sums.gradient += sum_over(layout.length, [dy](std::int64_t i) { return dy[i]; });
    sums.product +=
        sum_over(layout.length, [dy, x, mean](std::int64_t i) { return dy[i] * (x[i] - mean); });
  }
  return sums;
}

void gradient_sums_of_block(const float* gradient, const float* values, const float* mean,
                            const Layout& layout, std::int64_t channels, GradientSums* sums) {
  for (std::int64_t r = 0; r < layout.runs; ++r) {
    const float* const dy = gradient + r * layout.stride;
    const float* const x = values + r * layout.stride;
    for (std::int64_t c = 0; c < channels; ++c) {
      sums[c].gradient += dy[c];
      sums[c].product += static_cast<double>(dy[c]) * (x[c] - mean[c]);
    }
  }
}

// dx = scale * (dy - offset - slope * (x - mean)).
struct GradientLine {
  float scale, offset, slope, mean;
  float at(float dy, float x) const { return scale * (dy - offset - slope * (x - mean)); }
};

void write_gradient(const float* gradient, const float* values, const Layout& layout,
                    std::int64_t channels, const GradientLine* lines, float* to) {
  for (std::int64_t r = 0; r < layout.runs; ++r) {
    const std::int64_t place = r * layout.stride;
    const float* const dy = gradient + place;
    const float* const x = values + place;
    float* const dx = to + place;
    if (layout.length == 1) {
      for (std::int64_t c = 0; c < channels; ++c) dx[c] = lines[c].at(dy[c], x[c]);
    } else {
      const GradientLine line = lines[0];
      for (std::int64_t i = 0; i < layout.length; ++i) dx[i] = line.at(dy[i], x[i]);
    }
  }
}

// Calls body(first channel, channels) for single channels or, without space, for blocks of them.
template <typename Body>
void for_channels(const Layout& layout, Body body) {
  const std::int64_t step = layout.length == 1 ? kBlock : 1;
  const std::int64_t parts = at::divup(layout.channels, step);
  at::parallel_for(0, parts, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t part = begin; part < end; ++part) {
      body(part * step, std::min(step, layout.channels - part * step));
    }
  });
}

const float* data_or_null(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.data_ptr<float>() : nullptr;
}

void update(const at::Tensor& running, std::int64_t channel, double value, double momentum) {
  if (!running.defined()) return;
  float& place = running.data_ptr<float>()[channel];
  place = static_cast<float>(momentum * value + (1 - momentum) * place);
}

}  // namespace

bool batch_norm_takes(const at::Tensor& input) {
  return input.device().is_cpu() && input.scalar_type() == at::kFloat && input.dim() >= 2 &&
         input.is_contiguous() && input.numel() > 0;
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> batch_norm(const at::Tensor& input,
                                                          const at::Tensor& weight,
                                                          const at::Tensor& bias,
                                                          const at::Tensor& running_mean,
                                                          const at::Tensor& running_variance,
                                                          double momentum, double epsilon) {
  const Layout layout(input);
  at::Tensor output = at::empty_like(input);
  at::Tensor mean = at::empty({layout.channels}, input.options());
  at::Tensor inverse = at::empty({layout.channels}, input.options());
  const float* const x = input.data_ptr<float>();
  const float* const weights = data_or_null(weight);
  const float* const biases = data_or_null(bias);
  float* const y = output.data_ptr<float>();
  float* const means = mean.data_ptr<float>();
  float* const inverses = inverse.data_ptr<float>();
  const double unbiased = static_cast<double>(layout.count()) /
                          static_cast<double>(std::max<std::int64_t>(layout.count() - 1, 1));
  for_channels(layout, [&](std::int64_t first, std::int64_t channels) {
    Moments moments[kBlock];
    if (layout.length == 1) {
      moments_of_block(x + first, layout, channels, moments);
    } else {
      moments[0] = moments_of(x + first * layout.length, layout);
    }
    Line lines[kBlock];
    for (std::int64_t i = 0; i < channels; ++i) {
      const std::int64_t c = first + i;
      means[c] = static_cast<float>(moments[i].mean);
      inverses[c] = static_cast<float>(1 / std::sqrt(moments[i].variance + epsilon));
      update(running_mean, c, moments[i].mean, momentum);
      update(running_variance, c, moments[i].variance * unbiased, momentum);
      lines[i] = {means[c], inverses[c] * (weights == nullptr ? 1.0F : weights[c]),
                  biases == nullptr ? 0.0F : biases[c]};
    }
    apply(x + first * layout.length, layout, channels, lines, y + first * layout.length);
  });
  return {output, mean, inverse};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> batch_norm_backward(
    const at::Tensor& output_gradient, const at::Tensor& input, const at::Tensor& weight,
    const at::Tensor& mean, const at::Tensor& inverse_deviation, std::array<bool, 3> wanted) {
  const Layout layout(input);
  const at::Tensor gradient = output_gradient.contiguous();
  at::Tensor input_gradient = wanted[0] ? at::empty_like(input) : at::Tensor();
  at::Tensor weight_gradient =
      wanted[1] ? at::empty({layout.channels}, input.options()) : at::Tensor();
  at::Tensor bias_gradient =
      wanted[2] ? at::empty({layout.channels}, input.options()) : at::Tensor();
  const float* const dy = gradient.data_ptr<float>();
  const float* const x = input.data_ptr<float>();
  const float* const weights = data_or_null(weight);
  const float* const means = mean.data_ptr<float>();
  const float* const inverses = inverse_deviation.data_ptr<float>();
  const auto count = static_cast<double>(layout.count());
  for_channels(layout, [&](std::int64_t first, std::int64_t channels) {
    const std::int64_t place = first * layout.length;
    GradientSums sums[kBlock];
    if (layout.length == 1) {
      gradient_sums_of_block(dy + place, x + place, means + first, layout, channels, sums);
    } else {
      sums[0] = gradient_sums(dy + place, x + place, means[first], layout);
    }
    GradientLine lines[kBlock];
    for (std::int64_t i = 0; i < channels; ++i) {
      const std::int64_t c = first + i;
      const double inverse = inverses[c];
      if (wanted[1]) {
        weight_gradient.data_ptr<float>()[c] = static_cast<float>(sums[i].product * inverse);
      }
      if (wanted[2]) bias_gradient.data_ptr<float>()[c] = static_cast<float>(sums[i].gradient);
      lines[i] = {static_cast<float>(inverse * (weights == nullptr ? 1.0F : weights[c])),
                  static_cast<float>(sums[i].gradient / count),
                  static_cast<float>(sums[i].product * inverse * inverse / count), means[c]};
    }
    if (wanted[0]) {
      write_gradient(dy + place, x + place, layout, channels, lines,
                     input_gradient.data_ptr<float>() + place);
    }
  });
  return {input_gradient, weight_gradient, bias_gradient};
}

}  // namespace muster::kernels
