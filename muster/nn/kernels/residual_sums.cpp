#include "muster/nn/kernels/residual_sums_internal.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cmath>

namespace muster::kernels {
namespace {

void update_running(const at::Tensor& running, std::int64_t channel, double value,
                    double momentum) {
  float& place = running.data_ptr<float>()[channel];
  place = static_cast<float>(momentum * value + (1 - momentum) * place);
}

}  // namespace

void finish_moments(std::int64_t image_pixels, const ImageSums& moments,
                    const NormalisedConvolution& layer, NormalisedImages& images) {
  const auto pixels = static_cast<double>(image_pixels);
  const double count = static_cast<double>(moments.batch) * pixels;
  images.mean = at::empty({moments.channels}, images.convolved.options());
  images.inverse_deviation = at::empty({moments.channels}, images.convolved.options());
  for (std::int64_t c = 0; c < moments.channels; ++c) {
    const double mean = moments.sum_of(moments.sums, c) / count;
    double squares = moments.sum_of(moments.products, c);
    for (std::int64_t n = 0; n < moments.batch; ++n) {
      const double distance = moments.sums[moments.place(n, c)] / pixels - mean;
      squares += pixels * distance * distance;
    }
    const double variance = squares / count;
    images.mean.data_ptr<float>()[c] = static_cast<float>(mean);
    images.inverse_deviation.data_ptr<float>()[c] =
        static_cast<float>(1 / std::sqrt(variance + layer.epsilon));
    update_running(layer.running_mean, c, mean, layer.momentum);
    update_running(layer.running_variance, c, variance * count / std::max(count - 1, 1.0),
                   layer.momentum);
  }
}

GradientLineValues finish_gradients(std::int64_t pixels, const ImageSums& sums,
                                    const NormalisedConvolution& layer,
                                    const NormalisedImages& images,
                                    NormalisedGradients& gradients) {
  const double count = static_cast<double>(sums.batch) * static_cast<double>(pixels);
  gradients.gamma = at::empty({sums.channels}, images.mean.options());
  gradients.beta = at::empty({sums.channels}, images.mean.options());
  GradientLineValues lines;
  for (std::int64_t c = 0; c < sums.channels; ++c) {
    const double sum = sums.sum_of(sums.sums, c);
    const double product = sums.sum_of(sums.products, c);
    const double inverse = images.inverse_deviation.data_ptr<float>()[c];
    gradients.gamma.data_ptr<float>()[c] = static_cast<float>(product * inverse);
    gradients.beta.data_ptr<float>()[c] = static_cast<float>(sum);
    lines.scale.push_back(static_cast<float>(inverse * layer.gamma.data_ptr<float>()[c]));
    lines.offset.push_back(static_cast<float>(sum / count));
    lines.slope.push_back(static_cast<float>(product * inverse * inverse / count));
    lines.mean.push_back(images.mean.data_ptr<float>()[c]);
  }
  return lines;
}

}  // namespace muster::kernels
