#include <ATen/Functions.h>

#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "muster/base/error.h"
#include "muster/nn/kernels/max_pool.h"
#include "muster/saved_model/executor/op_table_internal.h"
#include "muster/saved_model/executor/paced_internal.h"
#include "muster/saved_model/executor/window_internal.h"

namespace muster::executor {
namespace {

at::Tensor to_channels_first(const at::Tensor& in, Layout layout) {
  if (in.dim() != 4) throw InvalidArgument("input 0 must have four axes, but is {}", describe(in));
  return (layout == Layout::kChannelsLast ? in.permute({0, 3, 1, 2}) : in).contiguous();
}

at::Tensor from_channels_first(const at::Tensor& out, Layout layout) {
  return layout == Layout::kChannelsLast ? out.permute({0, 2, 3, 1}) : out;
}

bool is_zero(const std::vector<std::int64_t>& amounts) {
  return std::ranges::all_of(amounts, [](auto amount) { return amount == 0; });
}

// Images with what is added to each side. Throws ResourceExhausted where there is no room.
std::vector<std::int64_t> padded_sizes(const Inputs& inputs, const at::Tensor& in,
                                       const std::vector<std::int64_t>& amounts) {
  auto sizes = in.sizes().vec();
  sizes[2] += amounts[0] + amounts[1];
  sizes[3] += amounts[2] + amounts[3];
  inputs.check_room(sizes, in);
  return sizes;
}

at::Tensor padded(const Inputs& inputs, const at::Tensor& in,
                  const std::vector<std::int64_t>& amounts, double value) {
  if (is_zero(amounts)) return in;
  padded_sizes(inputs, in, amounts);
  return at::constant_pad_nd(in, {amounts[2], amounts[3], amounts[0], amounts[1]}, value);
}

// A filter as libtorch wants it, converted again only when the graph hands in another tensor.
class FilterCache {
 public:
  template <typename Turn>
  at::Tensor get(const at::Tensor& filter, const Turn& turn) {
    const std::lock_guard lock(mutex_);
    if (!filter_.is_same(filter)) {
      turned_ = turn(filter);
      filter_ = filter;
    }
    return turned_;
  }

 private:
  std::mutex mutex_;
  at::Tensor filter_;
  at::Tensor turned_;
};

at::Tensor turned_filter(const at::Tensor& filter, bool depthwise) {
  if (!depthwise) return filter.permute({3, 2, 0, 1}).contiguous();
  return filter.permute({2, 3, 0, 1}).reshape({-1, 1, filter.size(0), filter.size(1)});
}

// Room for the outputs, and for the windows side by side, as libtorch lays them out where it has no
// other way: all of them for doubles.
void check_convolution_room(const Inputs& inputs, const at::Tensor& in, const at::Tensor& filter,
                            const std::vector<std::int64_t>& sizes, const Window& window,
                            bool depthwise) {
  std::vector<std::int64_t> out{in.size(0), filter.size(3)};
  if (depthwise) out.push_back(filter.size(2));
  std::vector<std::int64_t> columns{in.scalar_type() == at::kFloat ? 1 : in.size(0), in.size(1),
                                    filter.size(0), filter.size(1)};
  for (std::size_t i = 0; i < 2; ++i) {
    check_shape(std::array{filter.size(static_cast<std::int64_t>(i)), window.dilations[i]});
    const auto reach = (filter.size(static_cast<std::int64_t>(i)) - 1) * window.dilations[i] + 1;
    const auto places = std::max<std::int64_t>((sizes[i + 2] - reach) / window.strides[i] + 1, 0);
    out.push_back(places);
    columns.push_back(places);
  }
  inputs.check_room(out, in);
  inputs.check_room(columns, in);
}

// In parts of the batch, then of the outputs, where it is large.
at::Tensor paced_convolution(const at::Tensor& in, const at::Tensor& weight, const Window& window,
                             at::IntArrayRef sides, std::int64_t groups, double products,
                             const Budget& budget) {
  const std::int64_t axis = in.size(0) > 1 ? 0 : 1;
  const std::int64_t length = axis == 0 ? in.size(0) : weight.size(0);
  const bool can_be_halved = in.is_cpu() && length > 1 && (axis == 0 || groups == 1);
  if (products <= static_cast<double>(kMostProducts) || !can_be_halved) {
    budget.check_time();
    return at::conv2d(in, weight, {}, window.strides, sides, window.dilations, groups);
  }
  std::vector<at::Tensor> halves;
  for (const auto& [begin, count] :
       {std::pair(std::int64_t{0}, length / 2), std::pair(length / 2, length - length / 2)}) {
    halves.push_back(paced_convolution(axis == 0 ? in.narrow(0, begin, count) : in,
                                       axis == 0 ? weight : weight.narrow(0, begin, count), window,
                                       sides, groups, products / 2, budget));
  }
  return at::cat(halves, axis);
}

at::Tensor convolve(const Window& window, const Inputs& inputs, bool depthwise,
                    FilterCache& cache) {
  const at::Tensor in = to_channels_first(inputs.tensor(0), window.layout);
  const at::Tensor filter = inputs.tensor(1, in.scalar_type());
  if (filter.dim() != 4 || filter.size(2) < 1 || in.size(1) < 1 ||
      in.size(1) % filter.size(2) != 0 || (depthwise && filter.size(2) != in.size(1))) {
    throw InvalidArgument("the filter {} does not fit the {} channels of input 0", describe(filter),
                          in.size(1));
  }
  const std::vector<std::int64_t> sizes{filter.size(0), filter.size(1)};
  const auto amounts = window.padding.amounts(in.sizes(), sizes, window.strides, window.dilations);
  const at::Tensor weight =
      cache.get(filter, [&](const at::Tensor& given) { return turned_filter(given, depthwise); });
  const auto around = padded_sizes(inputs, in, amounts);
  check_convolution_room(inputs, in, filter, around, window, depthwise);
  // One for each place of the window, channel and weight of it, at most.
  const double products = static_cast<double>(filter.numel()) * static_cast<double>(in.size(0)) *
                          static_cast<double>(around[2]) * static_cast<double>(around[3]) /
                          static_cast<double>(window.strides[0] * window.strides[1]);
  const auto groups = depthwise ? in.size(1) : in.size(1) / filter.size(2);
  // Padding that is the same on both sides is added by libtorch without a copy.
  const bool even = amounts[0] == amounts[1] && amounts[2] == amounts[3];
  const std::vector<std::int64_t> sides =
      even ? std::vector{amounts[0], amounts[2]} : std::vector<std::int64_t>{0, 0};
  return from_channels_first(paced_convolution(even ? in : padded(inputs, in, amounts, 0), weight,
                                               window, sides, groups, products, inputs.budget()),
                             window.layout);
}

KernelFactory convolution(bool depthwise) {
  return [depthwise](const KernelContext& context) -> Kernel {
    return [depthwise, window = Window(context.node), cache = std::make_shared<FilterCache>()](
               const Inputs& inputs) { return Slots{convolve(window, inputs, depthwise, *cache)}; };
  };
}

// The gradient of a convolution by its input, which models call a transposed convolution.
Kernel convolution_input(const KernelContext& context) {
  const Window window(context.node);
  if (window.dilations != std::vector<std::int64_t>{1, 1}) {
    throw Unimplemented("dilations other than 1");
  }
  return [window, cache = std::make_shared<FilterCache>()](const Inputs& inputs) {
    auto sizes = inputs.ints(0);
    check_shape(sizes);
    inputs.check_room(sizes, inputs.tensor(2));
    const at::Tensor in = to_channels_first(inputs.tensor(2), window.layout);
    const at::Tensor filter = inputs.tensor(1, in.scalar_type());
    if (sizes.size() != 4) throw InvalidArgument("input 0 must have four sizes");
    if (window.layout == Layout::kChannelsLast) sizes = {sizes[0], sizes[3], sizes[1], sizes[2]};
    if (filter.dim() != 4 || filter.size(2) != sizes[1] || filter.size(3) != in.size(1) ||
        sizes[0] != in.size(0)) {
      throw InvalidArgument("the filter {} and the sizes in input 0 do not fit {}",
                            describe(filter), describe(in));
    }
    const std::vector<std::int64_t> reach{filter.size(0), filter.size(1)};
    const auto amounts = window.padding.amounts(sizes, reach, window.strides, {1, 1});
    std::vector<std::int64_t> more;
    for (std::size_t i = 0; i < 2; ++i) {
      check_shape(std::array{in.sizes()[i + 2], window.strides[i]});
      const auto whole = sizes[i + 2] + amounts[2 * i] + amounts[2 * i + 1];
      const auto reached = (in.sizes()[i + 2] - 1) * window.strides[i] + reach[i];
      more.push_back(whole - reached);
      if (more[i] < 0 || more[i] >= window.strides[i]) {
        throw InvalidArgument("a convolution of images of the sizes in input 0 does not give {}",
                              describe(in));
      }
    }
    const at::Tensor weight =
        cache->get(filter, [](const at::Tensor& given) { return turned_filter(given, false); });
    const at::Tensor out =
        at::conv_transpose2d(in, weight, {}, window.strides, at::IntArrayRef({0, 0}), more)
            .narrow(2, amounts[0], sizes[2])
            .narrow(3, amounts[2], sizes[3]);
    return Slots{from_channels_first(out, window.layout)};
  };
}

// Images whose channels lie side by side, without turning them; nothing for others.
std::optional<at::Tensor> pool_channels_last(const Inputs& inputs, const Window& window,
                                             const std::vector<std::int64_t>& size) {
  const at::Tensor in = inputs.tensor(0);
  const bool fits = window.layout == Layout::kChannelsLast && in.dim() == 4 && in.is_cpu() &&
                    in.scalar_type() == at::kFloat && in.is_contiguous() && !in.requires_grad() &&
                    window.padding.kind() != "EXPLICIT";
  if (!fits) return std::nullopt;
  const std::array<std::int64_t, 4> channels_first{in.size(0), in.size(3), in.size(1), in.size(2)};
  const auto amounts = window.padding.amounts(channels_first, size, window.strides, {1, 1});
  kernels::ChannelsLastPool pool{.window = {size[0], size[1]},
                                 .stride = {window.strides[0], window.strides[1]},
                                 .before = {amounts[0], amounts[2]}};
  for (std::size_t i = 0; i < 2; ++i) {
    const auto room = channels_first[i + 2] + amounts[2 * i] + amounts[2 * i + 1] - size[i];
    if (room < 0) return std::nullopt;
    pool.outputs[i] = room / window.strides[i] + 1;
  }
  inputs.check_room(std::vector{in.size(0), pool.outputs[0], pool.outputs[1], in.size(3)}, in);
  return kernels::max_pool_channels_last(in, pool);
}

Kernel max_pool(const KernelContext& context) {
  const Window window(context.node);
  const auto size = height_width(context.node, "ksize", window.layout);
  return [window, size](const Inputs& inputs) {
    if (auto pooled = pool_channels_last(inputs, window, size)) return Slots{std::move(*pooled)};
    const at::Tensor in = to_channels_first(inputs.tensor(0), window.layout);
    const auto amounts = window.padding.amounts(in.sizes(), size, window.strides, {1, 1});
    const at::Tensor out =
        at::max_pool2d(padded(inputs, in, amounts, -std::numeric_limits<double>::infinity()), size,
                       window.strides);
    return Slots{from_channels_first(out, window.layout)};
  };
}

// Padding at the edges does not count.
Kernel average_pool(const KernelContext& context) {
  const Window window(context.node);
  const auto size = height_width(context.node, "ksize", window.layout);
  return [window, size](const Inputs& inputs) {
    const at::Tensor in = to_channels_first(inputs.tensor(0), window.layout);
    const auto amounts = window.padding.amounts(in.sizes(), size, window.strides, {1, 1});
    const auto pool = [&](const at::Tensor& from) {
      return at::avg_pool2d(padded(inputs, from, amounts, 0), size, window.strides);
    };
    at::Tensor out = pool(in);
    if (!is_zero(amounts)) {
      out = out.div(pool(at::ones({1, 1, in.size(2), in.size(3)}, in.options())));
    }
    return Slots{from_channels_first(out, window.layout)};
  };
}

Kernel batch_norm(const KernelContext& context) {
  // TensorFlow's default is to train.
  if (graph::attr_or<bool>(context.node, "is_training", true)) {
    throw Unimplemented("is_training: export the model for serving");
  }
  const auto layout = layout_of(context.node);
  const auto epsilon = graph::attr_or<float>(context.node, "epsilon", 0.0001F);
  return [layout, epsilon](const Inputs& inputs) {
    const at::Tensor in = to_channels_first(inputs.tensor(0), layout);
    const at::Tensor out =
        at::batch_norm(in, inputs.tensor(1), inputs.tensor(2), inputs.tensor(3), inputs.tensor(4),
                       /*training=*/false, /*momentum=*/0, epsilon, /*cudnn_enabled=*/false);
    return Slots{from_channels_first(out, layout), inputs.slot(3), inputs.slot(4)};
  };
}

Kernel bias_add(const KernelContext& context) {
  const auto layout = layout_of(context.node);
  return [layout](const Inputs& inputs) {
    const at::Tensor in = inputs.tensor(0);
    const at::Tensor bias = inputs.tensor(1, in.scalar_type());
    const std::int64_t axis = layout == Layout::kChannelsLast ? in.dim() - 1 : 1;
    if (bias.dim() != 1 || axis < 1 || axis >= in.dim() || bias.size(0) != in.size(axis)) {
      throw InvalidArgument("the bias {} does not fit {}", describe(bias), describe(in));
    }
    std::vector<std::int64_t> sizes(static_cast<std::size_t>(in.dim()), 1);
    sizes[static_cast<std::size_t>(axis)] = bias.size(0);
    return Slots{in.add(bias.reshape(sizes))};
  };
}

// The sizes that images are to have, height and width.
std::vector<std::int64_t> wanted_size(const Inputs& inputs, const at::Tensor& in) {
  auto size = inputs.ints(1);
  if (size.size() != 2 || size[0] < 1 || size[1] < 1) {
    throw InvalidArgument("input 1 must be a height and a width");
  }
  inputs.check_room(std::vector{in.size(0), in.size(1), size[0], size[1]},
                    in.is_floating_point() ? in.scalar_type() : at::kFloat);
  return size;
}

Kernel resize_nearest(const KernelContext& context) {
  if (graph::attr_or<bool>(context.node, "align_corners", false) ||
      graph::attr_or<bool>(context.node, "half_pixel_centers", false)) {
    throw Unimplemented("align_corners or half_pixel_centers");
  }
  return [](const Inputs& inputs) {
    const at::Tensor in = to_channels_first(inputs.tensor(0), Layout::kChannelsLast);
    return Slots{from_channels_first(at::upsample_nearest2d(in, wanted_size(inputs, in)),
                                     Layout::kChannelsLast)};
  };
}

Kernel resize_bilinear(const KernelContext& context) {
  const bool corners = graph::attr_or<bool>(context.node, "align_corners", false);
  if (corners == graph::attr_or<bool>(context.node, "half_pixel_centers", false)) {
    throw Unimplemented("neither or both of align_corners and half_pixel_centers");
  }
  return [corners](const Inputs& inputs) {
    const at::Tensor in = to_channels_first(inputs.tensor(0), Layout::kChannelsLast).to(at::kFloat);
    return Slots{from_channels_first(at::upsample_bilinear2d(in, wanted_size(inputs, in), corners),
                                     Layout::kChannelsLast)};
  };
}

// Losses of rows of logits by the numbers of the right classes, and their gradients.
Slots sparse_cross_entropy(const Inputs& inputs) {
  const at::Tensor logits = inputs.tensor(0);
  const at::Tensor given = inputs.tensor(1);
  if (!at::isIntegralType(given.scalar_type(), /*includeBool=*/false)) {
    throw InvalidArgument("input 1 must be whole numbers, but is {}", describe(given));
  }
  const at::Tensor labels = given.to(logits.device(), at::kLong);
  if (logits.dim() != 2 || labels.dim() != 1 || labels.size(0) != logits.size(0)) {
    throw InvalidArgument("{} labels for the logits {}", labels.numel(), describe(logits));
  }
  inputs.check_room(2 * logits.numel(), static_cast<std::int64_t>(logits.element_size()));
  if (labels.numel() > 0 && (labels.min().item<std::int64_t>() < 0 ||
                             labels.max().item<std::int64_t>() >= logits.size(1))) {
    throw InvalidArgument("a label is not in [0, {})", logits.size(1));
  }
  const at::Tensor places = labels.unsqueeze(1);
  const at::Tensor log_probabilities = at::log_softmax(logits, 1);
  at::Tensor gradient = log_probabilities.exp();
  const at::Tensor ones = at::ones({places.size(0), 1}, logits.options());
  gradient.scatter_add_(1, places, ones.neg());
  return {log_probabilities.gather(1, places).neg().squeeze(1), gradient};
}

// The same for rows of probabilities of the classes.
Slots cross_entropy(const Inputs& inputs) {
  const at::Tensor logits = inputs.tensor(0);
  const at::Tensor labels = inputs.tensor(1, logits.scalar_type());
  if (logits.dim() != 2 || labels.sizes() != logits.sizes()) {
    throw InvalidArgument("the labels {} do not fit the logits {}", describe(labels),
                          describe(logits));
  }
  inputs.check_room(3 * logits.numel(), static_cast<std::int64_t>(logits.element_size()));
  const at::Tensor log_probabilities = at::log_softmax(logits, 1);
  return {labels.mul(log_probabilities).sum(1).neg(), log_probabilities.exp().sub(labels)};
}

}  // namespace

void add_nn_ops(OpTable& table) {
  table.add("SparseSoftmaxCrossEntropyWithLogits",
            Op{[](const KernelContext&) -> Kernel { return sparse_cross_entropy; },
               {"loss", "backprop"}});
  table.add("SoftmaxCrossEntropyWithLogits",
            Op{[](const KernelContext&) -> Kernel { return cross_entropy; }, {"loss", "backprop"}});
  table.add("Conv2DBackpropInput", convolution_input);
  table.add("ResizeNearestNeighbor", resize_nearest);
  table.add("ResizeBilinear", resize_bilinear);
  table.add("Conv2D", convolution(/*depthwise=*/false));
  table.add("DepthwiseConv2dNative", convolution(/*depthwise=*/true));
  table.add("MaxPool", max_pool);
  table.add("AvgPool", average_pool);
  for (const auto* name : {"FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"}) {
    table.add(name, Op{batch_norm, {"y", "batch_mean", "batch_variance"}});
  }
  table.add("BiasAdd", bias_add);
}

}  // namespace muster::executor
