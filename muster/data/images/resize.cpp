#include "muster/data/images/resize.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <vector>

#include "muster/base/error.h"
#include "muster/data/images/image_codec_internal.h"

namespace muster {
namespace {

/// Four floats in a register of any machine.
typedef float Floats __attribute__((vector_size(16), aligned(4), may_alias));
constexpr std::size_t kLanes = 4;

double support_of(ResizeFilter filter) {
  switch (filter) {
    case ResizeFilter::kBox:
      return 0.5;
    case ResizeFilter::kBilinear:
      return 1;
    case ResizeFilter::kBicubic:
      return 2;
  }
  throw Internal("unknown filter {}", static_cast<int>(filter));
}

double weight_at(ResizeFilter filter, double distance) {
  const double x = std::abs(distance);
  switch (filter) {
    case ResizeFilter::kBox:
      return distance > -0.5 && distance <= 0.5 ? 1 : 0;
    case ResizeFilter::kBilinear:
      return std::max(0.0, 1 - x);
    case ResizeFilter::kBicubic:
      constexpr double kSharpness = -0.5;
      if (x < 1) return ((kSharpness + 2) * x - (kSharpness + 3)) * x * x + 1;
      if (x < 2) return (((x - 5) * x + 8) * x - 4) * kSharpness;
      return 0;
  }
  return 0;
}

/// One axis: output i is the sum of weights[i * most + k] times input first[i] + k, for k below
/// counts[i].
struct Axis {
  std::size_t most = 0;
  std::vector<std::size_t> first{};
  std::vector<std::size_t> counts{};
  std::vector<float> weights{};
};

/// `begin` and `length` say where the box is on this axis of a picture of `size` pixels.
Axis make_axis(std::int64_t size, double begin, double length, std::int64_t outputs,
               ResizeFilter filter) {
  const double scale = length / static_cast<double>(outputs);
  const double widened = std::max(scale, 1.0);
  const double support = support_of(filter) * widened;
  // Pixels that belong to the box: those that its edges cut, too.
  const auto low = std::max<std::int64_t>(0, static_cast<std::int64_t>(std::floor(begin)));
  const auto high = std::min(size, static_cast<std::int64_t>(std::ceil(begin + length)));
  Axis axis;
  axis.most = static_cast<std::size_t>(std::ceil(support)) * 2 + 1;
  axis.first.reserve(static_cast<std::size_t>(outputs));
  axis.counts.reserve(static_cast<std::size_t>(outputs));
  axis.weights.assign(static_cast<std::size_t>(outputs) * axis.most, 0.0F);
  std::vector<double> row(axis.most);
  for (std::int64_t i = 0; i < outputs; ++i) {
    const double center = begin + (static_cast<double>(i) + 0.5) * scale;
    const auto from = std::clamp<std::int64_t>(
        static_cast<std::int64_t>(std::floor(center - support + 0.5)), low, high - 1);
    const auto to = std::clamp<std::int64_t>(
        static_cast<std::int64_t>(std::floor(center + support + 0.5)), from + 1, high);
    const auto count = std::min(static_cast<std::size_t>(to - from), axis.most);
    double sum = 0;
    for (std::size_t k = 0; k < count; ++k) {
      const double place = static_cast<double>(from) + static_cast<double>(k) + 0.5;
      row[k] = weight_at(filter, (place - center) / widened);
      sum += row[k];
    }
    float* weights = axis.weights.data() + static_cast<std::size_t>(i) * axis.most;
    for (std::size_t k = 0; k < count; ++k) {
      weights[k] = static_cast<float>(sum != 0 ? row[k] / sum : 1.0 / static_cast<double>(count));
    }
    axis.first.push_back(static_cast<std::size_t>(from));
    axis.counts.push_back(count);
  }
  return axis;
}

void to_floats(const std::uint8_t* __restrict__ bytes, std::size_t count,
               float* __restrict__ floats) {
  for (std::size_t i = 0; i < count; ++i) floats[i] = static_cast<float>(bytes[i]);
}

void to_bytes(const float* __restrict__ floats, std::size_t count,
              std::uint8_t* __restrict__ bytes) {
  for (std::size_t i = 0; i < count; ++i) {
    const float value = std::min(std::max(floats[i] + 0.5F, 0.0F), 255.0F);
    bytes[i] = static_cast<std::uint8_t>(static_cast<std::int32_t>(value));
  }
}

/// The rows of the picture that a row of the output needs, as floats: a ring of so many.
class FloatRows {
 public:
  FloatRows(const Image& image, std::size_t first_column, std::size_t columns, std::size_t rows)
      : image_(image),
        offset_(first_column * static_cast<std::size_t>(image.channels)),
        values_(columns * static_cast<std::size_t>(image.channels)),
        stride_((values_ + kLanes - 1) / kLanes * kLanes),
        ring_(rows * stride_),
        held_(rows, kNone) {}

  std::size_t stride() const { return stride_; }
  const float* row(std::size_t y) {
    const std::size_t slot = y % held_.size();
    float* floats = ring_.data() + slot * stride_;
    if (held_[slot] != y) {
      to_floats(image_.row(static_cast<std::int64_t>(y)) + offset_, values_, floats);
      held_[slot] = y;
    }
    return floats;
  }

 private:
  static constexpr std::size_t kNone = ~std::size_t{0};
  const Image& image_;
  std::size_t offset_;
  std::size_t values_;
  std::size_t stride_;
  std::vector<float> ring_;
  std::vector<std::size_t> held_;
};

Floats load(const float* from) { return *reinterpret_cast<const Floats*>(from); }
void store(float* to, Floats values) { *reinterpret_cast<Floats*>(to) = values; }

/// `out` becomes the weighted sum of rows; `values` is a multiple of the lanes.
void blend_rows(const std::vector<const float*>& rows, const float* weights, std::size_t values,
                float* out) {
  constexpr std::size_t kAtOnce = 4;
  std::size_t x = 0;
  for (; x + kAtOnce * kLanes <= values; x += kAtOnce * kLanes) {
    // std::array would drop the attributes of its elements.
    Floats sums[kAtOnce] = {};
    for (std::size_t k = 0; k < rows.size(); ++k) {
      const float* row = rows[k] + x;
      for (std::size_t j = 0; j < kAtOnce; ++j) sums[j] += load(row + j * kLanes) * weights[k];
    }
    for (std::size_t j = 0; j < kAtOnce; ++j) store(out + x + j * kLanes, sums[j]);
  }
  for (; x < values; x += kLanes) {
    Floats sum{};
    for (std::size_t k = 0; k < rows.size(); ++k) sum += load(rows[k] + x) * weights[k];
    store(out + x, sum);
  }
}

/// A row of three channels; four floats are read and written, of which the last does not count.
void squeeze_colours(const float* line, const Axis& axis, std::size_t first_column, float* out) {
  for (std::size_t i = 0; i < axis.first.size(); ++i) {
    const float* from = line + 3 * (axis.first[i] - first_column);
    const float* weights = axis.weights.data() + i * axis.most;
    Floats sum{};
    for (std::size_t k = 0; k < axis.counts[i]; ++k) sum += load(from + 3 * k) * weights[k];
    store(out + 3 * i, sum);
  }
}

void squeeze_grey(const float* line, const Axis& axis, std::size_t first_column, float* out) {
  for (std::size_t i = 0; i < axis.first.size(); ++i) {
    const float* from = line + (axis.first[i] - first_column);
    const float* weights = axis.weights.data() + i * axis.most;
    float sum = 0;
    for (std::size_t k = 0; k < axis.counts[i]; ++k) sum += from[k] * weights[k];
    out[i] = sum;
  }
}

void check_resize(const Image& image, const ImageBox& box, std::int64_t height,
                  std::int64_t width) {
  if (height <= 0 || width <= 0 || height * width > std::int64_t{1} << 30) {
    throw InvalidArgument("an image cannot be resized to {} x {}", height, width);
  }
  if (image.channels != 1 && image.channels != 3) {
    throw InvalidArgument("an image of {} channels cannot be resized; 1 and 3 can", image.channels);
  }
  if (image.pixels.size() != static_cast<std::size_t>(image.height) * image.row_bytes()) {
    throw InvalidArgument("an image of {} x {} x {} has {} bytes", image.height, image.width,
                          image.channels, image.pixels.size());
  }
  internal::check_box(box, image.height, image.width);
}

}  // namespace

// Rows are blended first: that is done four values at a time whatever the weights, and leaves fewer
// rows for the pass along them.
Image resize(const Image& image, const ImageBox& box, std::int64_t height, std::int64_t width,
             ResizeFilter filter) {
  check_resize(image, box, height, width);
  const Axis vertical = make_axis(image.height, box.top, box.height, height, filter);
  const Axis horizontal = make_axis(image.width, box.left, box.width, width, filter);
  const std::size_t first_column = horizontal.first.front();
  const std::size_t columns = horizontal.first.back() + horizontal.counts.back() - first_column;
  Image out{.height = height, .width = width, .channels = image.channels};
  out.pixels.resize(static_cast<std::size_t>(height) * out.row_bytes());
  FloatRows rows(image, first_column, columns, vertical.most);
  std::vector<float> line(rows.stride() + kLanes);
  std::vector<float> squeezed(out.row_bytes() + kLanes);
  std::vector<const float*> sources;
  sources.reserve(vertical.most);
  for (std::int64_t y = 0; y < height; ++y) {
    const auto at = static_cast<std::size_t>(y);
    sources.clear();
    for (std::size_t k = 0; k < vertical.counts[at]; ++k) {
      sources.push_back(rows.row(vertical.first[at] + k));
    }
    blend_rows(sources, vertical.weights.data() + at * vertical.most, rows.stride(), line.data());
    if (image.channels == 3) {
      squeeze_colours(line.data(), horizontal, first_column, squeezed.data());
    } else {
      squeeze_grey(line.data(), horizontal, first_column, squeezed.data());
    }
    to_bytes(squeezed.data(), out.row_bytes(), out.row(y));
  }
  return out;
}

Image resize(const Image& image, std::int64_t height, std::int64_t width, ResizeFilter filter) {
  const ImageBox all{.height = static_cast<double>(image.height),
                     .width = static_cast<double>(image.width)};
  return resize(image, all, height, width, filter);
}

}  // namespace muster
