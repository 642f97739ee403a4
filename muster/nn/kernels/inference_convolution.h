#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <vector>

namespace muster::kernels {

/// How a filter goes over images.
struct InferenceOptions {
  /// Stride in height and in width.
  std::array<std::int64_t, 2> stride{1, 1};
  /// Zeros above and left of an image, below and right of it.
  std::array<std::int64_t, 2> before{0, 0};
  std::array<std::int64_t, 2> after{0, 0};
  /// Whether negative results become 0.
  bool relu = false;
};

/// A convolution of float32 images on the CPU, for models that only answer: weights are laid out
/// once, channels of a pixel lie side by side, and bias, a sum with another tensor and ReLU have no
/// passes over memory of their own. A matrix is a filter of 1x1 over a row of pixels. The bits of
/// an image's results depend neither on the other images nor on the number of threads. Immutable;
/// may be run from several threads at once.
class InferenceConvolution {
 public:
  /// `filter` is [height, width, channels, outputs], `bias` is [outputs] or undefined, both
  /// float32. Throws InvalidArgument for a filter of no weights.
  InferenceConvolution(const at::Tensor& filter, const at::Tensor& bias);

  /// The bytes that this many weights of this many outputs take.
  static std::int64_t laid_out_bytes(std::int64_t weights, std::int64_t outputs);

  std::int64_t channels() const { return channels_; }
  std::int64_t outputs() const { return outputs_; }
  /// Sizes of run()'s output for such images; a size may be 0 or less where the filter is larger.
  std::array<std::int64_t, 4> output_sizes(at::IntArrayRef images,
                                           const InferenceOptions& options) const;
  /// The most bytes that run() takes for each of ATen's threads beside the output.
  std::int64_t scratch_bytes(at::IntArrayRef images, const InferenceOptions& options) const;

  /// `images` are [batch, height, width, channels]; `addend` is undefined or has the sizes of the
  /// output.
  at::Tensor run(const at::Tensor& images, const InferenceOptions& options,
                 const at::Tensor& addend) const;
  /// The same into `output`, contiguous floats of output_sizes().
  void run_into(const at::Tensor& images, const InferenceOptions& options, const at::Tensor& addend,
                const at::Tensor& output) const;

  /// The same for `rows` pixels of channels() floats, one after the other, with a filter of 1x1:
  /// the product of a matrix with the weights. `addend` is null or as large as the output. For
  /// a few rows and small weights nothing is allocated.
  void multiply(const float* pixels, std::int64_t rows, bool relu, const float* addend,
                float* output) const;

 private:
  /// Outputs that are computed together.
  struct Panel {
    std::int64_t first = 0;
    std::int64_t width = 0;
    /// Where its weights begin.
    std::int64_t place = 0;
  };
  class Call;

  void multiply_row(const float* pixel, bool relu, const float* addend, float* output) const;

  std::int64_t height_, width_, channels_, outputs_;
  std::vector<Panel> panels_;
  at::Tensor weights_;
  at::Tensor bias_;
};

}  // namespace muster::kernels
