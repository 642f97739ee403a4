#include <torch/types.h>

#include <algorithm>
#include <array>
#include <limits>

#include "muster/export/translation_internal.h"

namespace muster::exporting {
namespace {

using graph::DataType;

/// A window that moves over images.
struct Pool {
  HeightWidth kernel;
  HeightWidth stride;
  HeightWidth padding;
  /// Padding missing after the image for the last window, where sizes are rounded up.
  HeightWidth behind;
};

// pool(input, kernel, stride, padding, ...)
Pool pool_of(Call& call) {
  Pool pool{.kernel = call.height_width(1, 1),
            .stride = {1, 1},
            .padding = call.height_width(3, 0),
            .behind = {0, 0}};
  pool.stride = call.integers(2).empty() ? pool.kernel : call.height_width(2, 1);
  const HeightWidth in = call.image_size(call.value(0));
  const HeightWidth out = call.image_size(call.result());
  const auto missing = [](std::int64_t outputs, std::int64_t stride, std::int64_t kernel,
                          std::int64_t padded) {
    return std::max<std::int64_t>((outputs - 1) * stride + kernel - padded, 0);
  };
  pool.behind = {
      missing(out.first, pool.stride.first, pool.kernel.first, in.first + 2 * pool.padding.first),
      missing(out.second, pool.stride.second, pool.kernel.second,
              in.second + 2 * pool.padding.second)};
  return pool;
}

std::vector<std::int64_t> amounts(const Pool& pool) {
  return {0,
          0,
          pool.padding.first,
          pool.padding.first + pool.behind.first,
          pool.padding.second,
          pool.padding.second + pool.behind.second,
          0,
          0};
}

std::string pooled(Call& call, const char* op, const std::string& input, HeightWidth kernel,
                   HeightWidth stride) {
  return call.to.add(op, op, {input},
                     {{"T", call.type()},
                      {"ksize", over_image(kernel)},
                      {"strides", over_image(stride)},
                      {"padding", "VALID"},
                      {"data_format", "NHWC"}});
}

// max_pool2d(input, kernel, stride, padding, dilation, ceil_mode)
void max_pool(Call& call) {
  call.require(call.height_width(4, 1) == HeightWidth{1, 1}, "dilated pooling is not translated");
  const Pool pool = pool_of(call);
  const auto input =
      call.padded(call.images(0), amounts(pool), std::numeric_limits<float>::lowest());
  call.give_images(pooled(call, "MaxPool", input, pool.kernel, pool.stride));
}

std::vector<std::int64_t> both(HeightWidth pair) { return {pair.first, pair.second}; }

// Factor of the mean over whole windows, where libtorch divides by another number than the window's
// size: [1, height, width, 1]. It counts where the divisor is 0.
at::Tensor correction(Call& call, const Pool& pool, std::int64_t divisor) {
  const HeightWidth in = call.image_size(call.value(0));
  const auto ones = torch::ones({1, 1, in.first, in.second});
  const auto mean = [&](auto... more) {
    return torch::avg_pool2d(ones, both(pool.kernel), both(pool.stride), both(pool.padding),
                             call.truth(4), call.truth(5), more...);
  };
  const auto wanted = divisor == 0 ? mean() : mean(divisor);
  const auto padded =
      torch::constant_pad_nd(ones, {pool.padding.second, pool.padding.second + pool.behind.second,
                                    pool.padding.first, pool.padding.first + pool.behind.first});
  const auto made = torch::avg_pool2d(padded, both(pool.kernel), both(pool.stride));
  return (wanted / made).permute({0, 2, 3, 1});
}

// avg_pool2d(input, kernel, stride, padding, ceil_mode, count_include_pad, divisor_override)
void avg_pool(Call& call) {
  const std::int64_t divisor = call.count() > 6 && !call.is_none(6) ? call.integer(6) : 0;
  const Pool pool = pool_of(call);
  const auto input = call.padded(call.images(0), amounts(pool));
  auto output = pooled(call, "AvgPool", input, pool.kernel, pool.stride);
  const auto factor = correction(call, pool, divisor);
  if (!at::allclose(factor, torch::ones_like(factor))) {
    output =
        call.node("Mul", {output, call.to.constant(graph_value(factor.to(call.result().dtype)))});
  }
  call.give_images(output);
}

bool divides(HeightWidth out, HeightWidth in) {
  return in.first % out.first == 0 && in.second % out.second == 0;
}

// Rows of a matrix that takes the means of libtorch's regions, which may overlap.
at::Tensor region_means(std::int64_t in, std::int64_t out) {
  const auto means = torch::zeros({out, in});
  for (std::int64_t i = 0; i < out; ++i) {
    const std::int64_t begin = i * in / out;
    const std::int64_t end = ((i + 1) * in + out - 1) / out;
    means[i].slice(0, begin, end).fill_(1.0 / static_cast<double>(end - begin));
  }
  return means;
}

void uneven_means(Call& call, HeightWidth in, HeightWidth out) {
  call.require(call.rank(0) == 4, "uneven parts of sequences are not translated");
  const auto constant = [&](const at::Tensor& held) {
    return call.to.constant(graph_value(held.to(call.result().dtype).contiguous()));
  };
  const auto product = [&](const std::string& a, const std::string& b) {
    return call.to.add("MatMul", "BatchMatMulV2", {a, b},
                       {{"T", call.type()}, {"adj_x", false}, {"adj_y", false}});
  };
  const auto narrow = product(call.tensor(0), constant(region_means(in.second, out.second).t()));
  call.give(product(constant(region_means(in.first, out.first)), narrow));
}

void adaptive_avg_pool(Call& call) {
  const HeightWidth in = call.image_size(call.value(0));
  const HeightWidth out = call.image_size(call.result());
  if (!divides(out, in)) return uneven_means(call, in, out);
  if (out == HeightWidth{1, 1}) {
    return call.give_images(call.reduced("Mean", call.images(0), {1, 2}));
  }
  const HeightWidth window{in.first / out.first, in.second / out.second};
  call.give_images(pooled(call, "AvgPool", call.images(0), window, window));
}

void adaptive_max_pool(Call& call) {
  const HeightWidth in = call.image_size(call.value(0));
  const HeightWidth out = call.image_size(call.result());
  call.require(divides(out, in), "maxima of uneven parts are not translated");
  const HeightWidth window{in.first / out.first, in.second / out.second};
  call.give_images(pooled(call, "MaxPool", call.images(0), window, window));
}

void resize(Call& call, const char* op, bool align_corners, bool half_pixel_centers,
            std::size_t first_scale) {
  const HeightWidth in = call.image_size(call.value(0));
  const HeightWidth out = call.image_size(call.result());
  for (std::size_t i = first_scale; i < call.count(); ++i) {
    call.require(call.is_none(i) || divides(in, out), "only whole scale factors are translated");
  }
  call.give_images(call.to.add(op, op, {call.images(0), call.to.ints({out.first, out.second})},
                               {{"T", call.type()},
                                {"align_corners", align_corners},
                                {"half_pixel_centers", half_pixel_centers}}));
}

// upsample_nearest2d(input, size, scales...)
void upsample_nearest(Call& call) {
  resize(call, "ResizeNearestNeighbor", /*align_corners=*/false, /*half_pixel_centers=*/false, 2);
}

// upsample_bilinear2d(input, size, align_corners, scales...)
void upsample_bilinear(Call& call) {
  call.require(call.result().dtype == at::kFloat, "TensorFlow's gives 32-bit numbers only");
  resize(call, "ResizeBilinear", call.truth(2), !call.truth(2), 3);
}

constexpr std::array kPoolingTranslations{
    OpTranslation{"aten::adaptive_avg_pool1d", "Mean or AvgPool", adaptive_avg_pool},
    OpTranslation{"aten::adaptive_avg_pool2d", "Mean, AvgPool or BatchMatMulV2", adaptive_avg_pool},
    OpTranslation{"aten::adaptive_max_pool2d", "MaxPool", adaptive_max_pool},
    OpTranslation{"aten::avg_pool1d", "Pad, AvgPool, Mul", avg_pool},
    OpTranslation{"aten::avg_pool2d", "Pad, AvgPool, Mul", avg_pool},
    OpTranslation{"aten::max_pool1d", "PadV2, MaxPool", max_pool},
    OpTranslation{"aten::max_pool2d", "PadV2, MaxPool", max_pool},
    OpTranslation{"aten::upsample_bilinear2d", "ResizeBilinear", upsample_bilinear},
    OpTranslation{"aten::upsample_nearest2d", "ResizeNearestNeighbor", upsample_nearest},
};

}  // namespace

std::span<const OpTranslation> pooling_translations() { return kPoolingTranslations; }

}  // namespace muster::exporting
