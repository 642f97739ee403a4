#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <limits>

#include "muster/base/error.h"
#include "muster/saved_model/onnx/conversion_internal.h"

namespace muster::onnx {
namespace {

using graph::AttrList;
using graph::TensorValue;

// TensorFlow's kernel is [height, width, in, out], ONNX's [out, in, height, width].
const Order kKernelOrder{3, 2, 0, 1};

/// Where TensorFlow has the axes of an image.
struct Layout {
  /// The tensor's axes in ONNX's order.
  Order channels_first;
  std::size_t height;
};

Layout layout_of(Call& call) {
  const auto format = call.attr_or<std::string>("data_format", "NHWC");
  if (format == "NCHW") return {.channels_first = {0, 1, 2, 3}, .height = 2};
  call.require(format == "NHWC", "only images with two axes are converted");
  return {.channels_first = kChannelsFirst, .height = 1};
}

// The two numbers for height and width of a list of four.
std::vector<std::int64_t> over_image(Call& call, const char* name, const Layout& layout) {
  const auto values = graph::attr<AttrList>(call.node, name).ints;
  call.require(values.size() == 4, fmt::format("its {} must be four numbers", name));
  for (std::size_t i = 0; i < 4; ++i) {
    const bool image = i == layout.height || i == layout.height + 1;
    call.require(image || values[i] == 1,
                 fmt::format("its {} must be 1 for examples and channels", name));
  }
  return {values[layout.height], values[layout.height + 1]};
}

/// The image with what pads it.
struct Window {
  std::string input;
  Attributes attributes;
};

// SAME with a stride of 1 pads the kernel's reach, the larger half after.
std::vector<std::int64_t> same_pads(const std::vector<std::int64_t>& reach) {
  return {reach[0] / 2, reach[1] / 2, reach[0] - reach[0] / 2, reach[1] - reach[1] / 2};
}

Window window(Call& call, const Layout& layout, const std::vector<std::int64_t>& kernel,
              const std::vector<std::int64_t>& strides,
              const std::vector<std::int64_t>& dilations) {
  Window made;
  const auto padding = graph::attr<std::string>(call.node, "padding");
  const auto& held = call.held(0);
  std::vector<std::int64_t> pads(4, 0);
  std::string tensor = call.tensor(0);
  if (held.padding) {
    pads = held.padding->pads;
    tensor = held.padding->input;
  }
  if (padding == "SAME" && strides == std::vector<std::int64_t>{1, 1}) {
    pads = same_pads({(kernel[0] - 1) * dilations[0], (kernel[1] - 1) * dilations[1]});
  } else if (padding == "SAME") {
    made.attributes.emplace("auto_pad", std::string("SAME_UPPER"));
  } else if (padding == "EXPLICIT") {
    const auto given = graph::attr<AttrList>(call.node, "explicit_paddings").ints;
    call.require(given.size() == 8, "its explicit_paddings must be eight numbers");
    const std::size_t h = layout.height * 2;
    pads = {given[h], given[h + 2], given[h + 1], given[h + 3]};
  } else {
    call.require(padding == "VALID", fmt::format("its padding is \"{}\"", padding));
  }
  made.input = call.to.get(tensor, layout.channels_first);
  if (padding != "SAME" || !made.attributes.contains("auto_pad")) {
    if (std::any_of(pads.begin(), pads.end(), [](auto pad) { return pad != 0; })) {
      made.attributes.emplace("pads", pads);
    }
  }
  made.attributes.emplace("kernel_shape", kernel);
  made.attributes.emplace("strides", strides);
  return made;
}

std::vector<std::int64_t> dilations_of(Call& call, const Layout& layout) {
  if (graph::find_attr(call.node.attrs, "dilations") == nullptr) return {1, 1};
  return over_image(call, "dilations", layout);
}

Window convolution_window(Call& call, const Layout& layout,
                          const std::vector<std::int64_t>& kernel) {
  const auto dilations = dilations_of(call, layout);
  auto made = window(call, layout, kernel, over_image(call, "strides", layout), dilations);
  if (dilations != std::vector<std::int64_t>{1, 1}) {
    made.attributes.emplace("dilations", dilations);
  }
  return made;
}

const TensorValue& kernel_of(const Call& call) {
  const TensorValue* kernel = call.constant(1);
  if (kernel == nullptr || kernel->shape.size() != 4) {
    throw Unimplemented("its kernel must be a constant with four axes");
  }
  return *kernel;
}

void convolution(Call& call) {
  const auto layout = layout_of(call);
  const TensorValue& kernel = kernel_of(call);
  auto made = convolution_window(call, layout, {kernel.shape[0], kernel.shape[1]});
  call.give(call.last("Conv", {made.input, call.input(1, kKernelOrder)}, made.attributes),
            call.type(), 4, layout.channels_first);
}

// TensorFlow's kernel is [height, width, channels, times]; ONNX has a group for every channel.
void depthwise_convolution(Call& call) {
  const auto layout = layout_of(call);
  const TensorValue& kernel = kernel_of(call);
  auto made = convolution_window(call, layout, {kernel.shape[0], kernel.shape[1]});
  TensorValue weights = permuted(kernel, {2, 3, 0, 1});
  const std::int64_t channels = kernel.shape[2];
  weights.shape = {channels * kernel.shape[3], 1, kernel.shape[0], kernel.shape[1]};
  made.attributes.emplace("group", channels);
  const auto value = call.to.constant(weights, call.tensor(1));
  call.give(call.last("Conv", {made.input, value}, made.attributes), call.type(), 4,
            layout.channels_first);
}

// (sizes of the result, kernel, images): a convolution turned round. Where its stride leaves rows
// that no window touches, they are 0.
void transposed_convolution(Call& call) {
  const auto layout = layout_of(call);
  call.require(graph::attr<std::string>(call.node, "padding") == "VALID",
               "only with the padding VALID it is converted");
  call.require(dilations_of(call, layout) == std::vector<std::int64_t>{1, 1},
               "dilated ones are not converted");
  const auto sizes = call.sizes(0);
  call.require(sizes.size() == 4 && sizes[layout.height] > 0 && sizes[layout.height + 1] > 0,
               "its height and width must be constants");
  const auto strides = over_image(call, "strides", layout);
  Attributes attributes{{"strides", strides}};
  // That of a kernel which the graph computes follows from the kernel.
  if (const TensorValue* kernel = call.constant(1)) {
    call.require(kernel->shape.size() == 4, "its kernel must have four axes");
    attributes.emplace("kernel_shape",
                       std::vector<std::int64_t>{kernel->shape[0], kernel->shape[1]});
  }
  auto made =
      call.add("ConvTranspose", {call.input(2, layout.channels_first), call.input(1, kKernelOrder)},
               attributes);
  if (strides != std::vector<std::int64_t>{1, 1}) {
    made =
        call.add("Pad", {made, call.to.ints({0, 0, 0, 0, 0, 0, strides[0] - 1, strides[1] - 1})});
  }
  const auto ends = call.to.ints({sizes[layout.height], sizes[layout.height + 1]});
  call.give(call.last("Slice", {made, call.to.ints({0, 0}), ends, call.to.ints({2, 3})}),
            call.type(), 4, layout.channels_first);
}

// Volumes, whose kernel is [depth, height, width, in, out].
void volume_convolution(Call& call) {
  const Order channels_first{0, 4, 1, 2, 3};
  const auto of_volume = [&](const char* name) {
    auto values = call.attr_or(name, AttrList{}).ints;
    if (values.empty()) values.assign(5, 1);
    call.require(values.size() == 5 && values[0] == 1 && values[4] == 1,
                 fmt::format("its {} must be five numbers, 1 for examples and channels", name));
    return std::vector<std::int64_t>{values[1], values[2], values[3]};
  };
  call.require(call.attr_or<std::string>("data_format", "NDHWC") == "NDHWC",
               "only volumes with the channels last are converted");
  const auto padding = graph::attr<std::string>(call.node, "padding");
  Attributes attributes{{"strides", of_volume("strides")}, {"dilations", of_volume("dilations")}};
  if (padding == "SAME") attributes.emplace("auto_pad", std::string("SAME_UPPER"));
  call.give(call.last("Conv", {call.input(0, channels_first), call.input(1, {4, 3, 0, 1, 2})},
                      attributes),
            call.type(), 5, channels_first);
}

void pool(Call& call, std::string_view op) {
  const auto layout = layout_of(call);
  auto made = window(call, layout, over_image(call, "ksize", layout),
                     over_image(call, "strides", layout), {1, 1});
  call.give(call.last(op, {made.input}, made.attributes), call.type(), 4, layout.channels_first);
}

void max_pool(Call& call) { pool(call, "MaxPool"); }
// Neither counts what pads.
void avg_pool(Call& call) { pool(call, "AveragePool"); }

void batch_norm(Call& call) {
  const auto layout = layout_of(call);
  call.require(!call.attr_or("is_training", true), "it uses the batch's own statistics");
  const auto made = call.last("BatchNormalization",
                              {call.input(0, layout.channels_first), call.input(1), call.input(2),
                               call.input(3), call.input(4)},
                              {{"epsilon", call.attr_or("epsilon", 1e-4F)}});
  call.give(made, call.type(), 4, layout.channels_first);
}

// To [height, width]; ONNX wants all four sizes.
void resize(Call& call, std::string_view mode) {
  const auto layout = layout_of(call);
  const auto size = call.numbers(1, "size");
  call.require(size.size() == 2, "its size must be two numbers");
  const bool corners = call.attr_or("align_corners", false);
  const bool centers = call.attr_or("half_pixel_centers", false);
  call.require(mode == "linear" || (!corners && !centers),
               "only pixels that are counted from the corner are converted");
  const auto input = call.input(0, layout.channels_first);
  const auto sizes =
      call.add("Slice", {call.add("Shape", {input}), call.to.ints({0}), call.to.ints({2})});
  const auto whole = call.add("Concat", {sizes, call.to.ints(size)}, {{"axis", std::int64_t{0}}});
  Attributes attributes{{"mode", std::string(mode)},
                        {"coordinate_transformation_mode", std::string(corners   ? "align_corners"
                                                                       : centers ? "half_pixel"
                                                                                 : "asymmetric")}};
  if (mode == "nearest") attributes.emplace("nearest_mode", std::string("floor"));
  call.give(call.last("Resize", {input, "", "", whole}, attributes), call.type(), 4,
            layout.channels_first);
}

void resize_nearest(Call& call) { resize(call, "nearest"); }
void resize_bilinear(Call& call) { resize(call, "linear"); }

/// The numbers before and after each of TensorFlow's axes.
std::vector<std::int64_t> paddings(Call& call) {
  const TensorValue* value = call.constant(1);
  call.require(value != nullptr && value->shape.size() == 2 && value->shape[1] == 2,
               "its paddings must be a constant [rank, 2]");
  return call.numbers(1, "paddings");
}

bool is_reader(const graph::NodeDef* reader, const std::vector<std::string_view>& ops) {
  return reader != nullptr && std::find(ops.begin(), ops.end(), reader->op) != ops.end() &&
         graph::attr_or<std::string>(*reader, "padding", "") == "VALID" &&
         graph::attr_or<std::string>(*reader, "data_format", "NHWC") == "NHWC";
}

// Whether the one reader can pad by itself; then it will.
bool left_to_reader(Call& call, const std::vector<std::int64_t>& both,
                    const std::vector<std::string_view>& ops) {
  if (both.size() != 8 || both[0] != 0 || both[1] != 0 || both[6] != 0 || both[7] != 0) {
    return false;
  }
  if (!is_reader(call.to.sole_reader(call.node.name), ops)) return false;
  // The window of a pool must not are in the padding alone.
  const graph::NodeDef& reader = *call.to.sole_reader(call.node.name);
  if (reader.op == "MaxPool") {
    const auto sizes = graph::attr<AttrList>(reader, "ksize").ints;
    if (sizes.size() != 4) return false;
    for (const std::size_t axis : {1U, 2U}) {
      if (std::max(both[axis * 2], both[axis * 2 + 1]) >= sizes[axis]) return false;
    }
  }
  const Held& held = call.held(0);
  call.to.hold(call.node.name, {.type = held.type,
                                .rank = 4,
                                .padding = Padding{.pads = {both[2], both[4], both[3], both[5]},
                                                   .input = call.tensor(0)}});
  return true;
}

void pad_with(Call& call, const std::vector<std::int64_t>& both, const std::string& value) {
  const std::size_t rank = both.size() / 2;
  const Order order = call.to.order_of(call.tensor(0));
  std::vector<std::int64_t> pads(both.size());
  for (std::size_t i = 0; i < rank; ++i) {
    const auto axis = static_cast<std::size_t>(full_order(order, rank).at(i));
    pads[i] = both.at(axis * 2);
    pads[i + rank] = both.at(axis * 2 + 1);
  }
  std::vector<std::string> inputs{call.input(0, order), call.to.ints(pads)};
  if (!value.empty()) inputs.push_back(value);
  call.give(call.last("Pad", std::move(inputs)), call.type(), rank, order);
}

void pad(Call& call) {
  const auto both = paddings(call);
  if (left_to_reader(call, both, {"Conv2D", "DepthwiseConv2dNative"})) return;
  pad_with(call, both, "");
}

void pad_with_value(Call& call) {
  const auto both = paddings(call);
  const TensorValue* value = call.constant(2);
  const bool least =
      value != nullptr && value->dtype == graph::DataType::kFloat &&
      value->values<float>() == std::vector<float>{std::numeric_limits<float>::lowest()};
  if (least && left_to_reader(call, both, {"MaxPool"})) return;
  pad_with(call, both, call.input(2));
}

constexpr std::array kImagesConversions{
    OpConversion{"AvgPool", "AveragePool", avg_pool},
    OpConversion{"Conv2D", "Conv", convolution},
    OpConversion{"Conv2DBackpropInput", "ConvTranspose, Pad, Slice", transposed_convolution},
    OpConversion{"Conv3D", "Conv", volume_convolution},
    OpConversion{"DepthwiseConv2dNative", "Conv", depthwise_convolution},
    OpConversion{"FusedBatchNorm", "BatchNormalization", batch_norm},
    OpConversion{"FusedBatchNormV2", "BatchNormalization", batch_norm},
    OpConversion{"FusedBatchNormV3", "BatchNormalization", batch_norm},
    OpConversion{"MaxPool", "MaxPool", max_pool},
    OpConversion{"Pad", "Pad, or the pads of Conv", pad},
    OpConversion{"PadV2", "Pad, or the pads of MaxPool", pad_with_value},
    OpConversion{"ResizeBilinear", "Resize", resize_bilinear},
    OpConversion{"ResizeNearestNeighbor", "Resize", resize_nearest},
};

}  // namespace

std::span<const OpConversion> image_conversions() { return kImagesConversions; }

}  // namespace muster::onnx
