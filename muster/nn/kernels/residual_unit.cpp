#include "muster/nn/kernels/residual_unit.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "muster/nn/kernels/channels_last_unit_internal.h"
#include "muster/nn/kernels/convolution.h"
#include "muster/nn/kernels/panels_internal.h"
#include "muster/nn/kernels/residual_sums_internal.h"
#include "muster/nn/kernels/scratch_internal.h"

namespace muster::kernels {
namespace {

// Vectors that every processor has; the products are in tiles_*.cpp.
typedef float Vector __attribute__((vector_size(16), aligned(4), may_alias));
constexpr std::int64_t kUnitLanes = kTapLanes;

inline Vector load(const float* from) { return *reinterpret_cast<const Vector*>(from); }
inline void store(float* to, Vector value) { *reinterpret_cast<Vector*>(to) = value; }
inline Vector splat(float value) { return Vector{value, value, value, value}; }
inline double total(Vector lanes) {
  return (static_cast<double>(lanes[0]) + lanes[1]) + (static_cast<double>(lanes[2]) + lanes[3]);
}

// NaN stays, as in libtorch's relu, and its gradient passes.
inline Vector relu(Vector x) { return x <= 0.0F ? splat(0) : x; }
inline Vector where_active(Vector output, Vector gradient) {
  return output <= 0.0F ? splat(0) : gradient;
}

constexpr std::int64_t kKernel = kTaps * kTaps;

/// How the channels of one image are in memory so that all that one weight sees of a channel is
/// contiguous: with zeros around, where the zero after a row is also that before the next. Pixel
/// (y, x) is `first() + y * columns + x`; position q = y * columns + x of a convolution's result
/// meets plane[row * columns + column + q] with weight (row, column). Results are in the same
/// distances, with a position of no meaning after every row.
struct Planes {
  explicit Planes(const at::Tensor& images) : Planes(images.size(2), images.size(3)) {}
  Planes(std::int64_t height_, std::int64_t width_)
      : height(height_),
        width(width_),
        columns(width + 1),
        // Vectors that begin in the last row of an image end in zeros.
        floats(std::max((height + 2) * columns + 1, (height + 1) * columns + kSlack / 4)) {}

  std::int64_t pixels() const { return height * width; }
  std::int64_t first() const { return columns + 1; }
  std::int64_t length() const { return (height - 1) * columns + width; }
  std::int64_t floats_of(std::int64_t channels) const { return channels * floats + kSlack; }

  PlaneShape of(std::int64_t channels) const {
    return {.channels = channels, .floats = floats, .columns = columns};
  }

  /// Calls body(place in the image, place in the plane after first()) for every vector of pixels.
  template <typename Body>
  void for_pixels(Body body) const {
    for (std::int64_t y = 0; y < height; ++y) {
      for (std::int64_t x = 0; x < width; x += kUnitLanes) body(y * width + x, y * columns + x);
    }
  }

  std::int64_t height, width, columns, floats;
};

/// Sums and squares around an image's own mean: taking the batch's mean would need another pass
/// over memory, taking none would lose digits.
void note_moments(const Planes& planes, const float* image_channel, std::int64_t image,
                  std::int64_t channel, ImageSums& moments) {
  Vector sum = splat(0);
  for (std::int64_t i = 0; i < planes.pixels(); i += kUnitLanes) sum += load(image_channel + i);
  const double image_sum = total(sum);
  const Vector center = splat(static_cast<float>(image_sum / static_cast<double>(planes.pixels())));
  Vector squares = splat(0);
  for (std::int64_t i = 0; i < planes.pixels(); i += kUnitLanes) {
    const Vector difference = load(image_channel + i) - center;
    squares += difference * difference;
  }
  moments.sums[moments.place(image, channel)] = image_sum;
  moments.products[moments.place(image, channel)] = total(squares);
}

/// y = (x - mean) * scale + shift. Taking the mean off first keeps its digits.
struct UnitLine {
  Vector mean, scale, shift;
  Vector at(Vector x) const { return (x - mean) * scale + shift; }
};

class Lines {
 public:
  Lines(const NormalisedConvolution& layer, const NormalisedImages& images)
      : mean_(images.mean.data_ptr<float>()),
        inverse_(images.inverse_deviation.data_ptr<float>()),
        gamma_(layer.gamma.data_ptr<float>()),
        beta_(layer.beta.data_ptr<float>()) {}

  UnitLine of(std::int64_t c) const {
    return {splat(mean_[c]), splat(inverse_[c] * gamma_[c]), splat(beta_[c])};
  }

 private:
  const float* mean_;
  const float* inverse_;
  const float* gamma_;
  const float* beta_;
};

/// dx = scale * (dy - offset - slope * (x - mean)).
struct UnitGradientLine {
  Vector scale, offset, slope, mean;
  Vector at(Vector dy, Vector x) const { return scale * (dy - offset - slope * (x - mean)); }
};

struct GradientLines {
  UnitGradientLine of(std::int64_t c) const {
    const auto i = static_cast<std::size_t>(c);
    return {splat(values.scale[i]), splat(values.offset[i]), splat(values.slope[i]),
            splat(values.mean[i])};
  }
  GradientLineValues values;
};

/// The data of a tensor [batch, channels, height, width], by image and channel.
template <typename Float>
struct Images {
  explicit Images(const at::Tensor& tensor)
      : data(tensor.data_ptr<float>()),
        channels(tensor.size(1)),
        pixels(tensor.size(2) * tensor.size(3)) {}
  Float* at(std::int64_t image, std::int64_t channel) const {
    return data + (image * channels + channel) * pixels;
  }

  Float* data;
  std::int64_t channels, pixels;
};
using Source = Images<const float>;
using Target = Images<float>;

/// A thread's memory, divided up in the order in which parts are asked for.
class UnitMemory {
 public:
  explicit UnitMemory(std::int64_t floats) {
    thread_local Scratch scratch;
    next_ = scratch.floats(static_cast<std::size_t>(floats));
  }
  float* take(std::int64_t floats) {
    float* const result = next_;
    next_ += floats;
    return result;
  }
  float* take_zeros(std::int64_t floats) {
    float* const result = take(floats);
    std::fill_n(result, floats, 0.0F);
    return result;
  }

 private:
  float* next_;
};

// Pixels of one image into planes `step` apart whose borders are zero already. `pixels_of(c)` gives
// a function from a place in the image to the vector there.
template <typename PixelsOf>
void fill_planes(const Planes& planes, std::int64_t channels, PixelsOf pixels_of, float* to,
                 std::int64_t step) {
  for (std::int64_t c = 0; c < channels; ++c) {
    const auto pixels = pixels_of(c);
    float* const plane = to + c * step + planes.first();
    planes.for_pixels(
        [&](std::int64_t from, std::int64_t place) { store(plane + place, pixels(from)); });
  }
}

// Calls body(row, its results) for all rows, a panel at a time, while its results are near.
template <typename Body>
void for_rows_of_panels(const Planes& planes, std::int64_t channels, const float* image,
                        std::int64_t rows, const std::vector<float>& weights, float* results,
                        Body body) {
  const Tiles& tile = tiles();
  const std::int64_t stride = padded_length(planes.length());
  const PlaneShape shape = planes.of(channels);
  const float* panel = weights.data();
  for (std::int64_t first = 0; first < rows; first += tile.rows) {
    for (std::int64_t q = 0; q < planes.length(); q += tile.columns) {
      tile.outer_3x3(shape, panel, image + q, results + q, stride);
    }
    panel += tile.rows * channels * kKernel;
    const std::int64_t end = std::min(first + tile.rows, rows);
    for (std::int64_t row = first; row < end; ++row) body(row, results + (row - first) * stride);
  }
}

/// The convolution of images that `pixels_of(image, channel)` reads, with its moments.
template <typename PixelsOf>
at::Tensor convolve_images(const Planes& planes, std::int64_t batch, const at::Tensor& weight,
                           PixelsOf pixels_of, ImageSums& moments) {
  const std::int64_t outputs = weight.size(0);
  const std::int64_t channels = weight.size(1);
  at::Tensor result = at::empty({batch, outputs, planes.height, planes.width}, weight.options());
  const Target target(result);
  const float* const weights = weight.data_ptr<float>();
  const std::int64_t depth = channels * kKernel;
  const auto packed = pack_weights(
      outputs, depth, [&](std::int64_t o, std::int64_t k) { return weights[o * depth + k]; });
  const std::int64_t image_floats = planes.floats_of(channels);
  const std::int64_t result_floats = tiles().rows * padded_length(planes.length());
  at::parallel_for(0, batch, 1, [&](std::int64_t begin, std::int64_t end) {
    UnitMemory memory(image_floats + result_floats);
    float* const image = memory.take_zeros(image_floats);
    float* const results = memory.take(result_floats);
    for (std::int64_t n = begin; n < end; ++n) {
      fill_planes(
          planes, channels, [&](std::int64_t c) { return pixels_of(n, c); }, image, planes.floats);
      for_rows_of_panels(planes, channels, image, outputs, packed, results,
                         [&](std::int64_t o, const float* row) {
                           float* const to = target.at(n, o);
                           planes.for_pixels([&](std::int64_t place, std::int64_t from) {
                             store(to + place, load(row + from));
                           });
                           note_moments(planes, to, n, o, moments);
                         });
    }
  });
  return result;
}

/// The gradient of a convolution's weights over a few images.
class UnitWeightGradient {
 public:
  UnitWeightGradient(const Planes& planes, std::int64_t outputs, std::int64_t channels,
                     std::int64_t images)
      : planes_(planes),
        outputs_(outputs),
        channels_(channels),
        images_(images),
        panels_(at::divup(outputs, tiles().tap_rows)) {}

  /// UnitMemory for the images' gradients as add() reads them: [panel of outputs][image], and there
  /// vectors of all outputs of the panel side by side.
  std::int64_t gradient_floats() const { return panels_ * images_ * panel_floats(); }

  /// Where an output's vectors begin there, and how far apart they are.
  float* first_vector(float* gradients, std::int64_t image, std::int64_t output) const {
    const std::int64_t rows = tiles().tap_rows;
    return gradients + (output / rows * images_ + image) * panel_floats() +
           output % rows * kTapLanes;
  }
  std::int64_t vector_step() const { return tiles().tap_rows * kTapLanes; }

  /// Adds to `to`, [output][channel][kernel row][kernel column], what the first `count` images
  /// give. `planes` are theirs, [channel][image].
  void add(const float* gradients, const float* planes, std::int64_t count, float* to) const {
    const Tiles& tile = tiles();
    const TapShape shape{.images = count,
                         .gradient_step = panel_floats(),
                         .plane_step = planes_.floats,
                         .height = planes_.height,
                         .width = planes_.width,
                         .plane_columns = planes_.columns};
    float sums[kMaxRows * kTaps];
    for (std::int64_t panel = 0; panel < panels_; ++panel) {
      for (std::int64_t row = 0; row < channels_ * kTaps; ++row) {
        tile.taps(shape, gradients + panel * images_ * panel_floats(),
                  planes + row / kTaps * images_ * planes_.floats + row % kTaps * planes_.columns,
                  sums);
        add_sums(sums, panel * tile.tap_rows, row, to);
      }
    }
  }

 private:
  static constexpr std::int64_t kMaxRows = 8;

  std::int64_t panel_floats() const { return planes_.pixels() * tiles().tap_rows; }

  void add_sums(const float* sums, std::int64_t first_output, std::int64_t row, float* to) const {
    const std::int64_t end = std::min(first_output + tiles().tap_rows, outputs_);
    for (std::int64_t o = first_output; o < end; ++o) {
      float* const place = to + (o * channels_ * kTaps + row) * kTaps;
      for (std::int64_t j = 0; j < kTaps; ++j) place[j] += *sums++;
    }
  }

  const Planes& planes_;
  std::int64_t outputs_, channels_, images_, panels_;
};

/// Images whose share of a weight's gradient is summed on its own: the shares are added up in their
/// order, whatever threads made them.
constexpr std::int64_t kImagesOfShare = 8;

/// How many of them are looked at together: with small images a sum's end comes often, with many
/// they leave the nearest cache.
std::int64_t images_at_once(const Planes& planes) {
  constexpr std::int64_t kPixels = 1024;
  return std::clamp<std::int64_t>(kPixels / planes.pixels(), 1, kImagesOfShare);
}

at::Tensor sum_shares(const std::vector<float>& shares, const at::Tensor& weight) {
  at::Tensor result = at::empty_like(weight);
  float* const to = result.data_ptr<float>();
  const std::int64_t size = weight.numel();
  std::copy_n(shares.data(), size, to);
  for (std::size_t place = static_cast<std::size_t>(size); place < shares.size();
       place += static_cast<std::size_t>(size)) {
    const float* const share = shares.data() + place;
    for (std::int64_t i = 0; i < size; ++i) to[i] += share[i];
  }
  return result;
}

/// One pass over the images for both gradients of a convolution. `gradient_of(image, output)` and
/// `pixels_of(image, channel)` read what comes from above and what the convolution read;
/// `take(image, channel, results, pixels)` is given the gradient of a channel, and what the
/// convolution read of it, in a plane's distances. Returns the gradient of the weights.
template <typename GradientOf, typename PixelsOf, typename Take>
at::Tensor convolution_backward(const Planes& planes, std::int64_t batch, const at::Tensor& weight,
                                GradientOf gradient_of, PixelsOf pixels_of,
                                bool input_gradient_wanted, Take take) {
  const std::int64_t outputs = weight.size(0);
  const std::int64_t channels = weight.size(1);
  const float* const weights = weight.data_ptr<float>();
  // The gradient of a pixel is a correlation with the weights turned around.
  const auto packed =
      pack_weights(channels, outputs * kKernel, [&](std::int64_t c, std::int64_t k) {
        return weights[(k / kKernel * channels + c) * kKernel + kKernel - 1 - k % kKernel];
      });
  const std::int64_t at_once = images_at_once(planes);
  const UnitWeightGradient weight_gradient(planes, outputs, channels, at_once);
  const std::int64_t share_count = at::divup(batch, kImagesOfShare);
  std::vector<float> shares(static_cast<std::size_t>(share_count * weight.numel()));
  const std::int64_t plane_floats = planes.floats_of(outputs);
  const std::int64_t gradient_floats = weight_gradient.gradient_floats();
  const std::int64_t vector_step = weight_gradient.vector_step();
  const std::int64_t image_floats = planes.floats_of(channels * at_once);
  const std::int64_t channel_step = planes.floats * at_once;
  const std::int64_t result_floats = tiles().rows * padded_length(planes.length());
  at::parallel_for(0, share_count, 1, [&](std::int64_t begin, std::int64_t end) {
    UnitMemory memory(plane_floats + gradient_floats + image_floats + result_floats);
    float* const gradient_planes = memory.take_zeros(plane_floats);
    float* const gradients = memory.take_zeros(gradient_floats);
    float* const images = memory.take_zeros(image_floats);
    float* const results = memory.take(result_floats);
    const auto read_gradient = [&](std::int64_t n, std::int64_t i) {
      for (std::int64_t o = 0; o < outputs; ++o) {
        const auto pixels = gradient_of(n, o);
        float* const plane = gradient_planes + o * planes.floats + planes.first();
        float* next = weight_gradient.first_vector(gradients, i, o);
        planes.for_pixels([&](std::int64_t from, std::int64_t place) {
          const Vector vector = pixels(from);
          store(plane + place, vector);
          store(next, vector);
          next += vector_step;
        });
      }
    };
    const auto write_input_gradient = [&](std::int64_t n, const float* image) {
      for_rows_of_panels(planes, outputs, gradient_planes, channels, packed, results,
                         [&](std::int64_t c, const float* row) {
                           take(n, c, row, image + c * channel_step + planes.first());
                         });
    };
    for (std::int64_t share = begin; share < end; ++share) {
      const std::int64_t last = std::min((share + 1) * kImagesOfShare, batch);
      for (std::int64_t first = share * kImagesOfShare; first < last; first += at_once) {
        const std::int64_t count = std::min(at_once, last - first);
        for (std::int64_t i = 0; i < count; ++i) {
          const std::int64_t n = first + i;
          float* const image = images + i * planes.floats;
          read_gradient(n, i);
          fill_planes(
              planes, channels, [&](std::int64_t c) { return pixels_of(n, c); }, image,
              channel_step);
          if (input_gradient_wanted) write_input_gradient(n, image);
        }
        weight_gradient.add(gradients, images, count, shares.data() + share * weight.numel());
      }
    }
  });
  return sum_shares(shares, weight);
}

// --- What convolutions read. ---

auto plain(const Source& source) {
  return [source](std::int64_t n, std::int64_t c) {
    const float* const from = source.at(n, c);
    return [from](std::int64_t i) { return load(from + i); };
  };
}

auto normalised_and_active(const Source& source, const Lines& lines) {
  return [source, lines](std::int64_t n, std::int64_t c) {
    const float* const from = source.at(n, c);
    const UnitLine line = lines.of(c);
    return [from, line](std::int64_t i) { return relu(line.at(load(from + i))); };
  };
}

/// The gradient after a ReLU, brought through it and the normalisation before it.
auto through_relu_and_norm(const Source& gradient, const Source& output, const Source& convolved,
                           const GradientLines& lines) {
  return [gradient, output, convolved, &lines](std::int64_t n, std::int64_t c) {
    const float* const dy = gradient.at(n, c);
    const float* const y = output.at(n, c);
    const float* const x = convolved.at(n, c);
    const UnitGradientLine line = lines.of(c);
    return [=](std::int64_t i) {
      return line.at(where_active(load(y + i), load(dy + i)), load(x + i));
    };
  };
}

auto through_norm(const Source& gradient, const Source& convolved, const GradientLines& lines) {
  return [gradient, convolved, &lines](std::int64_t n, std::int64_t c) {
    const float* const dy = gradient.at(n, c);
    const float* const x = convolved.at(n, c);
    const UnitGradientLine line = lines.of(c);
    return [=](std::int64_t i) { return line.at(load(dy + i), load(x + i)); };
  };
}

template <typename Body>
void for_images_and_channels(const at::Tensor& images, Body body) {
  const std::int64_t channels = images.size(1);
  at::parallel_for(0, images.size(0), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t n = begin; n < end; ++n) {
      for (std::int64_t c = 0; c < channels; ++c) body(n, c);
    }
  });
}

/// The sums that finish_gradients() takes, of the gradient after a ReLU.
ImageSums sums_behind_relu(const at::Tensor& output_gradient, const at::Tensor& output,
                           const NormalisedImages& images) {
  const Planes planes(output);
  ImageSums sums(output.size(0), output.size(1));
  const Source gradient(output_gradient), outputs(output), convolved(images.convolved);
  const float* const means = images.mean.data_ptr<float>();
  for_images_and_channels(output, [&](std::int64_t n, std::int64_t c) {
    const float* const dy = gradient.at(n, c);
    const float* const y = outputs.at(n, c);
    const float* const x = convolved.at(n, c);
    const Vector mean = splat(means[c]);
    Vector sum = splat(0), product = splat(0);
    for (std::int64_t i = 0; i < planes.pixels(); i += kUnitLanes) {
      const Vector g = where_active(load(y + i), load(dy + i));
      sum += g;
      product += g * (load(x + i) - mean);
    }
    sums.sums[sums.place(n, c)] = total(sum);
    sums.products[sums.place(n, c)] = total(product);
  });
  return sums;
}

// --- Shortcuts. ---

// The mean of two by two pixels.
void pool(const float* from, const Planes& out, float* to) {
  for (std::int64_t y = 0; y < out.height; ++y) {
    const float* const upper = from + 4 * y * out.width;
    const float* const lower = upper + 2 * out.width;
    for (std::int64_t x = 0; x < out.width; ++x) {
      to[y * out.width + x] =
          (upper[2 * x] + upper[2 * x + 1] + lower[2 * x] + lower[2 * x + 1]) * 0.25F;
    }
  }
}

void add_pool_backward(const float* gradient, const float* output, const Planes& out, float* to) {
  for (std::int64_t y = 0; y < out.height; ++y) {
    float* const upper = to + 4 * y * out.width;
    float* const lower = upper + 2 * out.width;
    for (std::int64_t x = 0; x < out.width; ++x) {
      const std::int64_t i = y * out.width + x;
      const float share = output[i] <= 0 ? 0.0F : gradient[i] * 0.25F;
      upper[2 * x] += share;
      upper[2 * x + 1] += share;
      lower[2 * x] += share;
      lower[2 * x + 1] += share;
    }
  }
}

/// Where the channels of a shortcut lie among those of the unit's output.
struct Shortcut {
  Shortcut(const at::Tensor& input, const at::Tensor& output, std::int64_t stride_)
      : stride(stride_),
        channels(input.size(1)),
        zeros_before((output.size(1) - input.size(1)) / 2) {}
  bool has(std::int64_t output_channel) const {
    return output_channel >= zeros_before && output_channel < zeros_before + channels;
  }
  std::int64_t stride, channels, zeros_before;
};

at::Tensor add_shortcut(const at::Tensor& input, const NormalisedConvolution& layer,
                        const NormalisedImages& images, std::int64_t stride) {
  at::Tensor output = at::empty_like(images.convolved);
  const Planes planes(output);
  const Shortcut shortcut(input, output, stride);
  const Source from(input), convolved(images.convolved);
  const Target to(output);
  const Lines lines(layer, images);
  for_images_and_channels(output, [&](std::int64_t n, std::int64_t c) {
    const float* const x = convolved.at(n, c);
    float* const y = to.at(n, c);
    const UnitLine line = lines.of(c);
    const auto write = [&](auto shortcut_at) {
      for (std::int64_t i = 0; i < planes.pixels(); i += kUnitLanes) {
        store(y + i, relu(line.at(load(x + i)) + shortcut_at(i)));
      }
    };
    if (!shortcut.has(c)) return write([](std::int64_t) { return splat(0); });
    const float* const input_channel = from.at(n, c - shortcut.zeros_before);
    if (shortcut.stride == 1) {
      return write([=](std::int64_t i) { return load(input_channel + i); });
    }
    pool(input_channel, planes, y);
    write([=](std::int64_t i) { return load(y + i); });
  });
  return output;
}

// --- The first convolution of a unit that changes the image's size. ---

Convolution strided(std::int64_t stride) { return {.stride = {stride, stride}, .padding = {1, 1}}; }

NormalisedImages strided_layer(const at::Tensor& input, const NormalisedConvolution& layer,
                               std::int64_t stride) {
  NormalisedImages images{.convolved = convolve(input, layer.weight, {}, strided(stride))};
  const Planes planes(images.convolved);
  ImageSums moments(images.convolved.size(0), images.convolved.size(1));
  const Source convolved(images.convolved);
  for_images_and_channels(images.convolved, [&](std::int64_t n, std::int64_t c) {
    note_moments(planes, convolved.at(n, c), n, c, moments);
  });
  finish_moments(planes.pixels(), moments, layer, images);
  return images;
}

// `gradient` is that of the normalisation's result, and is used up.
at::Tensor strided_backward(at::Tensor gradient, const at::Tensor& output_gradient,
                            const at::Tensor& input, const UnitForward& forward,
                            const GradientLines& lines, const NormalisedConvolution& layer,
                            std::int64_t stride, NormalisedGradients& gradients) {
  const Planes planes(gradient);
  const auto gradient_at = through_norm(Source(gradient), Source(forward.first.convolved), lines);
  const Target target(gradient);
  for_images_and_channels(gradient, [&](std::int64_t n, std::int64_t c) {
    const auto pixels = gradient_at(n, c);
    float* const to = target.at(n, c);
    for (std::int64_t i = 0; i < planes.pixels(); i += kUnitLanes) store(to + i, pixels(i));
  });
  auto [input_gradient, weight_gradient, none] =
      convolve_backward(gradient, input, layer.weight, strided(stride), {true, true, false});
  gradients.weight = weight_gradient;
  const Shortcut shortcut(input, forward.output, stride);
  const Source from(output_gradient), output(forward.output);
  const Target to(input_gradient);
  for_images_and_channels(input, [&](std::int64_t n, std::int64_t c) {
    add_pool_backward(from.at(n, c + shortcut.zeros_before),
                      output.at(n, c + shortcut.zeros_before), planes, to.at(n, c));
  });
  return input_gradient;
}

template <typename PixelsOf>
NormalisedImages normalised_images(const at::Tensor& like, const NormalisedConvolution& layer,
                                   PixelsOf pixels_of) {
  const Planes planes(like);
  ImageSums moments(like.size(0), layer.weight.size(0));
  NormalisedImages images{
      .convolved = convolve_images(planes, like.size(0), layer.weight, pixels_of, moments)};
  finish_moments(planes.pixels(), moments, layer, images);
  return images;
}

}  // namespace

bool residual_unit_takes(const at::Tensor& input, std::int64_t outputs, std::int64_t stride) {
  if (channels_last::is_in_order(input)) return channels_last::takes(input, outputs, stride);
  return input.dim() == 4 && input.device().is_cpu() && input.scalar_type() == at::kFloat &&
         input.is_contiguous() && input.numel() > 0 && (stride == 1 || stride == 2) &&
         input.size(2) % stride == 0 && input.size(3) % (stride * kUnitLanes) == 0;
}

bool normalised_layer_takes(const at::Tensor& input, std::int64_t outputs) {
  if (channels_last::is_in_order(input)) return channels_last::layer_takes(input, outputs);
  return residual_unit_takes(input, outputs, /*stride=*/1);
}

LayerForward normalised_layer(const at::Tensor& input, const NormalisedConvolution& layer) {
  if (channels_last::is_in_order(input)) return channels_last::normalised_layer(input, layer);
  LayerForward forward;
  forward.layer = normalised_images(input, layer, plain(Source(input)));
  forward.output = at::empty_like(forward.layer.convolved);
  const Planes planes(input);
  const auto pixels_of =
      normalised_and_active(Source(forward.layer.convolved), Lines(layer, forward.layer));
  const Target target(forward.output);
  for_images_and_channels(forward.output, [&](std::int64_t n, std::int64_t c) {
    const auto pixels = pixels_of(n, c);
    float* const to = target.at(n, c);
    for (std::int64_t i = 0; i < planes.pixels(); i += kUnitLanes) store(to + i, pixels(i));
  });
  return forward;
}

LayerBackward normalised_layer_backward(const at::Tensor& output_gradient, const at::Tensor& input,
                                        const LayerForward& forward,
                                        const NormalisedConvolution& layer,
                                        bool input_gradient_wanted) {
  if (channels_last::is_in_order(input)) {
    return channels_last::normalised_layer_backward(output_gradient, input, forward, layer,
                                                    input_gradient_wanted);
  }
  LayerBackward result;
  const Planes planes(input);
  const auto lines = GradientLines{finish_gradients(
      planes.pixels(), sums_behind_relu(output_gradient, forward.output, forward.layer), layer,
      forward.layer, result.layer)};
  if (input_gradient_wanted) result.input = at::empty_like(input);
  const auto take = [&](std::int64_t n, std::int64_t c, const float* row, const float*) {
    float* const to = Target(result.input).at(n, c);
    planes.for_pixels(
        [&](std::int64_t place, std::int64_t from) { store(to + place, load(row + from)); });
  };
  result.layer.weight =
      convolution_backward(planes, input.size(0), layer.weight,
                           through_relu_and_norm(Source(output_gradient), Source(forward.output),
                                                 Source(forward.layer.convolved), lines),
                           plain(Source(input)), input_gradient_wanted, take);
  return result;
}

UnitForward residual_unit(const at::Tensor& input, const NormalisedConvolution& first,
                          const NormalisedConvolution& second, std::int64_t stride) {
  if (channels_last::is_in_order(input)) {
    return channels_last::residual_unit(input, first, second, stride);
  }
  UnitForward forward;
  forward.first = stride == 1 ? normalised_images(input, first, plain(Source(input)))
                              : strided_layer(input, first, stride);
  forward.second = normalised_images(
      forward.first.convolved, second,
      normalised_and_active(Source(forward.first.convolved), Lines(first, forward.first)));
  forward.output = add_shortcut(input, second, forward.second, stride);
  return forward;
}

UnitBackward residual_unit_backward(const at::Tensor& output_gradient, const at::Tensor& input,
                                    const UnitForward& forward, const NormalisedConvolution& first,
                                    const NormalisedConvolution& second, std::int64_t stride) {
  if (channels_last::is_in_order(input)) {
    return channels_last::residual_unit_backward(output_gradient, input, forward, first, second,
                                                 stride);
  }
  UnitBackward result;
  const Planes planes(forward.output);
  const std::int64_t batch = input.size(0);
  const Source dy(output_gradient), output(forward.output);
  const Source first_convolved(forward.first.convolved);
  const auto second_lines = GradientLines{finish_gradients(
      planes.pixels(), sums_behind_relu(output_gradient, forward.output, forward.second), second,
      forward.second, result.second)};

  // Gradient that reaches the first normalisation's result, after its ReLU.
  at::Tensor middle = at::empty_like(forward.first.convolved);
  const Target middle_at(middle);
  ImageSums middle_sums(batch, middle.size(1));
  const float* const means = forward.first.mean.data_ptr<float>();
  result.second.weight = convolution_backward(
      planes, batch, second.weight,
      through_relu_and_norm(dy, output, Source(forward.second.convolved), second_lines),
      normalised_and_active(first_convolved, Lines(first, forward.first)),
      /*input_gradient_wanted=*/true,
      [&](std::int64_t n, std::int64_t c, const float* row, const float* active) {
        const float* const x = first_convolved.at(n, c);
        float* const to = middle_at.at(n, c);
        const Vector mean = splat(means[c]);
        Vector sum = splat(0), product = splat(0);
        planes.for_pixels([&](std::int64_t place, std::int64_t from) {
          const Vector g = where_active(load(active + from), load(row + from));
          sum += g;
          product += g * (load(x + place) - mean);
          store(to + place, g);
        });
        middle_sums.sums[middle_sums.place(n, c)] = total(sum);
        middle_sums.products[middle_sums.place(n, c)] = total(product);
      });
  const auto first_lines = GradientLines{
      finish_gradients(planes.pixels(), middle_sums, first, forward.first, result.first)};

  if (stride != 1) {
    result.input = strided_backward(middle, output_gradient, input, forward, first_lines, first,
                                    stride, result.first);
    return result;
  }
  result.input = at::empty_like(input);
  const Target input_gradient(result.input);
  const Shortcut shortcut(input, forward.output, stride);
  result.first.weight = convolution_backward(
      planes, batch, first.weight, through_norm(Source(middle), first_convolved, first_lines),
      plain(Source(input)), /*input_gradient_wanted=*/true,
      [&](std::int64_t n, std::int64_t c, const float* row, const float*) {
        const float* const above = dy.at(n, c + shortcut.zeros_before);
        const float* const y = output.at(n, c + shortcut.zeros_before);
        float* const to = input_gradient.at(n, c);
        planes.for_pixels([&](std::int64_t place, std::int64_t from) {
          store(to + place, load(row + from) + where_active(load(y + place), load(above + place)));
        });
      });
  return result;
}

}  // namespace muster::kernels
