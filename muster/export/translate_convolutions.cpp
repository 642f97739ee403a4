#include <fmt/format.h>

#include <array>

#include "muster/export/translation_internal.h"

namespace muster::exporting {
namespace {

using graph::AttrValue;
using graph::DataType;

// TensorFlow's kernel axes: [height, width, in, out] of libtorch's [out, in, height, width], or of
// [in, out, height, width] where the convolution is transposed.
const Order kKernelOrder{2, 3, 1, 0};
const Order kSequenceKernelOrder{2, 1, 0};

/// A convolution over images, or over sequences, which are images one pixel high.
struct Convolution {
  HeightWidth stride;
  HeightWidth dilation;
  HeightWidth kernel;
  std::int64_t groups;
  /// "SAME" or "VALID", after the input was padded where neither does it.
  const char* padding;
};

HeightWidth kernel_size(Call& call) {
  const auto& sizes = call.value(1).sizes;
  return {sizes.size() == 3 ? 1 : sizes[2].constant, sizes.back().constant};
}

std::string kernel_node(Call& call) {
  if (call.rank(1) == 4) return call.tensor(1, kKernelOrder);
  return call.to.add("ExpandDims", "ExpandDims",
                     {call.tensor(1, kSequenceKernelOrder), call.int32(0)},
                     {{"T", call.type()}, {"Tdim", DataType::kInt32}});
}

void give_with_bias(Call& call, std::string output) {
  if (!call.is_none(2)) {
    output = call.to.add("BiasAdd", "BiasAdd", {output, call.tensor(2)},
                         {{"T", call.type()}, {"data_format", "NHWC"}});
  }
  call.give_images(output);
}

std::string conv2d(Call& call, const Convolution& as, const std::string& input,
                   const std::string& kernel) {
  return call.to.add("Conv2D", "Conv2D", {input, kernel},
                     {{"T", call.type()},
                      {"strides", over_image(as.stride)},
                      {"dilations", over_image(as.dilation)},
                      {"padding", as.padding},
                      {"explicit_paddings", AttrValue::list(std::vector<std::int64_t>{})},
                      {"use_cudnn_on_gpu", true},
                      {"data_format", "NHWC"}});
}

// TensorFlow's kernel has [height, width, in, out of each].
std::string depthwise(Call& call, const Convolution& as, const std::string& input,
                      const std::string& kernel) {
  const std::int64_t outputs = call.value(1).sizes[0].constant;
  const auto turned = call.reshaped(kernel, {Size{as.kernel.first}, Size{as.kernel.second},
                                             Size{as.groups}, Size{outputs / as.groups}});
  return call.to.add("depthwise", "DepthwiseConv2dNative", {input, turned},
                     {{"T", call.type()},
                      {"strides", over_image(as.stride)},
                      {"dilations", over_image(as.dilation)},
                      {"padding", as.padding},
                      {"data_format", "NHWC"}});
}

// TensorFlow's kernels for the CPU have no groups, so each group is a convolution of its own: of
// equal parts of the input's and the kernel's last axis.
template <typename Part>
std::string in_groups(Call& call, std::int64_t groups, const std::string& input,
                      const std::string& kernel, std::int64_t axis, const Part& convolve_part) {
  const auto split = [&](const std::string& whole) {
    return call.to.add("split", "Split", {call.int32(axis), whole},
                       {{"T", call.type()}, {"num_split", groups}});
  };
  const auto inputs = split(input);
  const auto kernels = split(kernel);
  std::vector<std::string> parts;
  for (std::int64_t i = 0; i < groups; ++i) {
    const auto part = i == 0 ? std::string() : fmt::format(":{}", i);
    parts.push_back(convolve_part(inputs + part, kernels + part));
  }
  parts.push_back(call.int32(axis));
  return call.to.add("concat", "ConcatV2", std::move(parts),
                     {{"N", groups}, {"T", call.type()}, {"Tidx", DataType::kInt32}});
}

std::string grouped(Call& call, const Convolution& as, const std::string& input,
                    const std::string& kernel) {
  return in_groups(
      call, as.groups, input, kernel, 3,
      [&](const std::string& one, const std::string& part) { return conv2d(call, as, one, part); });
}

void convolve(Call& call, const Convolution& as, const std::string& input) {
  const auto kernel = kernel_node(call);
  if (as.groups == 1) return give_with_bias(call, conv2d(call, as, input, kernel));
  const Size channels = call.value(0).sizes[1];
  // Limits of TensorFlow's depthwise kernel.
  const bool native = channels == Size{as.groups} && as.stride.first == as.stride.second &&
                      as.dilation == HeightWidth{1, 1};
  give_with_bias(call,
                 native ? depthwise(call, as, input, kernel) : grouped(call, as, input, kernel));
}

// The kernel with zeros in between, so that it reaches as far as a dilated one: TensorFlow's
// kernels for the CPU have no dilation here. It is a constant of the graph, so this is computed
// once.
std::string spread_kernel(Call& call, const Convolution& as) {
  const auto& sizes = call.value(1).sizes;
  const std::vector<std::int64_t> dilations{as.dilation.first, as.dilation.second};
  const std::vector<Size> kernel{Size{as.kernel.first}, Size{as.kernel.second}, sizes[1], sizes[0]};
  return call.spread(kernel_node(call), kernel, dilations);
}

std::string transposed_part(Call& call, const Convolution& as, const std::vector<Size>& whole,
                            const std::string& input, const std::string& kernel) {
  return call.to.add("conv2d_transpose", "Conv2DBackpropInput",
                     {call.to.shape_vector(whole), kernel, input},
                     {{"T", call.type()},
                      {"strides", over_image(as.stride)},
                      {"dilations", over_image({1, 1})},
                      {"padding", "VALID"},
                      {"explicit_paddings", AttrValue::list(std::vector<std::int64_t>{})},
                      {"use_cudnn_on_gpu", true},
                      {"data_format", "NHWC"}});
}

// TensorFlow's is the gradient of a convolution, which gives what is under the padding too.
void transposed(Call& call) {
  const Convolution as{.stride = call.height_width(3, 1),
                       .dilation = call.height_width(5, 1),
                       .kernel = kernel_size(call),
                       .groups = call.integer(8),
                       .padding = "VALID"};
  const HeightWidth more = call.height_width(7, 0);
  call.require(more.first < as.stride.first && more.second < as.stride.second,
               "output_padding that is not less than the stride is not translated");
  const HeightWidth padding = call.height_width(4, 0);
  const HeightWidth size = call.image_size(call.result());
  const Size channels{call.result().sizes[1].constant / as.groups};
  const std::vector<Size> whole{call.result().sizes[0], Size{size.first + 2 * padding.first},
                                Size{size.second + 2 * padding.second}, channels};
  const auto kernel = spread_kernel(call, as);
  auto output = as.groups == 1 ? transposed_part(call, as, whole, call.images(0), kernel)
                               : in_groups(call, as.groups, call.images(0), kernel, 3,
                                           [&](const std::string& input, const std::string& part) {
                                             return transposed_part(call, as, whole, input, part);
                                           });
  if (padding != HeightWidth{0, 0}) {
    output = call.to.add("Slice", "Slice",
                         {output, call.to.ints({0, padding.first, padding.second, 0}),
                          call.to.ints({-1, size.first, size.second, -1})},
                         {{"T", call.type()}, {"Index", DataType::kInt32}});
  }
  give_with_bias(call, output);
}

// The axes of volumes [batch, depth, height, width, channels] and of their kernels [depth, height,
// width, in, out].
const Order kVolumesLast{0, 2, 3, 4, 1};
const Order kVolumeKernelOrder{2, 3, 4, 1, 0};

/// A convolution over volumes: three numbers each, for depth, height and width.
struct VolumeConvolution {
  std::vector<std::int64_t> stride;
  std::vector<std::int64_t> padding;
  std::vector<std::int64_t> dilation;
  std::int64_t groups;
};

std::vector<std::int64_t> over_volume(Call& call, std::size_t index) {
  auto values = call.integers(index);
  if (values.size() == 1) values.assign(3, values[0]);
  call.require(values.size() == 3, "it is not over three dimensions");
  return values;
}

// TensorFlow's Conv3D has neither dilation nor groups on the CPU.
void convolve_volumes(Call& call, const VolumeConvolution& as) {
  const auto& sizes = call.value(1).sizes;
  const std::vector<Size> shape{sizes[2], sizes[3], sizes[4], sizes[1], sizes[0]};
  const auto kernel = call.spread(call.tensor(1, kVolumeKernelOrder), shape, as.dilation);
  const auto& pad = as.padding;
  const auto input = call.padded(call.tensor(0, kVolumesLast),
                                 {0, 0, pad[0], pad[0], pad[1], pad[1], pad[2], pad[2], 0, 0});
  const auto conv3d = [&](const std::string& one, const std::string& part) {
    const auto list = [](const std::vector<std::int64_t>& three) {
      return AttrValue::list(std::vector<std::int64_t>{1, three[0], three[1], three[2], 1});
    };
    return call.to.add("Conv3D", "Conv3D", {one, part},
                       {{"T", call.type()},
                        {"strides", list(as.stride)},
                        {"dilations", list({1, 1, 1})},
                        {"padding", "VALID"},
                        {"data_format", "NDHWC"}});
  };
  auto output =
      as.groups == 1 ? conv3d(input, kernel) : in_groups(call, as.groups, input, kernel, 4, conv3d);
  if (!call.is_none(2)) {
    output = call.to.add("BiasAdd", "BiasAdd", {output, call.tensor(2)},
                         {{"T", call.type()}, {"data_format", "NHWC"}});
  }
  call.give(output, kVolumesLast);
}

// convolution(input, kernel, bias, stride, padding, dilation, transposed, output_padding, groups)
void convolution(Call& call) {
  if (call.rank(0) == 5) {
    call.require(!call.truth(6), "transposed convolutions over volumes are not translated");
    return convolve_volumes(call, {.stride = over_volume(call, 3),
                                   .padding = over_volume(call, 4),
                                   .dilation = over_volume(call, 5),
                                   .groups = call.integer(8)});
  }
  if (call.truth(6)) return transposed(call);
  const HeightWidth padding = call.height_width(4, 0);
  Convolution as{.stride = call.height_width(3, 1),
                 .dilation = call.height_width(5, 1),
                 .kernel = kernel_size(call),
                 .groups = call.integer(8),
                 .padding = "VALID"};
  // SAME pads as libtorch does where the stride is 1 and the kernel's reach is even.
  const bool same = as.stride == HeightWidth{1, 1} && padding != HeightWidth{0, 0} &&
                    padding.first * 2 == as.dilation.first * (as.kernel.first - 1) &&
                    padding.second * 2 == as.dilation.second * (as.kernel.second - 1);
  auto input = call.images(0);
  if (same) {
    as.padding = "SAME";
  } else {
    input = call.padded(input,
                        {0, 0, padding.first, padding.first, padding.second, padding.second, 0, 0});
  }
  convolve(call, as, input);
}

// _convolution_mode(input, kernel, bias, stride, "same" or "valid", dilation, groups); libtorch
// allows "same" with a stride of 1 only.
void convolution_mode(Call& call) {
  if (call.rank(0) == 5) {
    VolumeConvolution as{.stride = over_volume(call, 3),
                         .padding = {0, 0, 0},
                         .dilation = over_volume(call, 5),
                         .groups = call.integer(6)};
    for (std::size_t i = 0; i < 3 && call.text(4) == "same"; ++i) {
      const auto reach = (call.value(1).sizes[i + 2].constant - 1) * as.dilation[i];
      call.require(reach % 2 == 0, "\"same\" padding of kernels of even sizes is not translated");
      as.padding[i] = reach / 2;
    }
    return convolve_volumes(call, as);
  }
  const Convolution as{.stride = call.height_width(3, 1),
                       .dilation = call.height_width(5, 1),
                       .kernel = kernel_size(call),
                       .groups = call.integer(6),
                       .padding = call.text(4) == "same" ? "SAME" : "VALID"};
  convolve(call, as, call.images(0));
}

constexpr const char* kOperations =
    "Conv2D, DepthwiseConv2dNative, Conv2DBackpropInput or Conv3D, with Pad, Slice, Split, "
    "ConcatV2, BiasAdd where needed";

constexpr std::array kConvolutionsTranslations{
    OpTranslation{"aten::_convolution", kOperations, convolution},
    OpTranslation{"aten::_convolution_mode", kOperations, convolution_mode},
    OpTranslation{"aten::convolution", kOperations, convolution},
};

}  // namespace

std::span<const OpTranslation> convolution_translations() { return kConvolutionsTranslations; }

}  // namespace muster::exporting
