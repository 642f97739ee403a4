#include "muster/saved_model/executor/fused_layer_internal.h"

#include <algorithm>
#include <utility>

#include "muster/saved_model/executor/in_node_internal.h"
#include "muster/saved_model/executor/paced_internal.h"
#include "muster/saved_model/executor/small_tensor_ops_internal.h"

namespace muster::executor {
namespace {

// A tensor that our kernels can read, or nothing.
const at::Tensor* floats_here(const Slot& slot) {
  const auto* tensor = std::get_if<at::Tensor>(&slot);
  const bool fits = tensor != nullptr && tensor->defined() && tensor->is_cpu() &&
                    tensor->scalar_type() == at::kFloat;
  return fits ? tensor : nullptr;
}

class FusedLayerKernel {
 public:
  explicit FusedLayerKernel(std::shared_ptr<const FusedLayer> layer)
      : held_(std::move(layer)), layer_(*held_) {}

  Slots operator()(const Inputs& inputs) const {
    const FusedNode& main = layer_.nodes[layer_.main];
    auto fast = in_node(main.name, main.op, [&] { return run_fused(inputs); });
    if (fast) return {std::move(*fast)};
    return run_nodes(layer_.nodes, inputs);
  }

 private:
  std::optional<at::Tensor> run_fused(const Inputs& inputs) const {
    const at::Tensor* images = floats_here(inputs.slot(layer_.images));
    const std::int64_t rank = layer_.window ? 4 : 2;
    if (images == nullptr || images->dim() != rank ||
        images->size(rank - 1) != layer_.weights->channels()) {
      return std::nullopt;
    }
    if (layer_.window) return run_on(inputs, *images);
    const std::array<std::int64_t, 4> rows{1, images->size(0), 1, images->size(1)};
    const auto out = run_on(inputs, in_sizes(*images, rows));
    const std::array<std::int64_t, 2> matrix{images->size(0), layer_.weights->outputs()};
    return out ? std::optional(viewed(*out, matrix)) : std::nullopt;
  }

  std::optional<at::Tensor> run_on(const Inputs& inputs, const at::Tensor& images) const {
    const kernels::InferenceOptions options = options_for(images.sizes());
    auto padded = images.sizes().vec();
    for (std::size_t i = 0; i < 2; ++i) padded[i + 1] += options.before[i] + options.after[i];
    inputs.check_room(padded, at::kFloat);
    const auto sizes = layer_.weights->output_sizes(images.sizes(), options);
    if (std::ranges::find(sizes, 0) != sizes.end()) return std::nullopt;
    at::Tensor addend;
    if (layer_.addend) {
      const at::Tensor* other = floats_here(inputs.slot(*layer_.addend));
      if (other == nullptr) return std::nullopt;
      const std::array<std::int64_t, 2> matrix{sizes[1], sizes[3]};
      const bool same = layer_.window ? other->sizes() == at::IntArrayRef(sizes)
                                      : other->sizes() == at::IntArrayRef(matrix);
      if (!same) return std::nullopt;
      addend = in_sizes(*other, sizes);
    }
    inputs.check_room(sizes, at::kFloat);
    inputs.check_room(layer_.weights->scratch_bytes(images.sizes(), options), 1);
    at::Tensor out = empty_on_host(sizes, at::kFloat);
    run_in_parts(inputs, images, options, addend, out);
    return out;
  }

  // Image by image, or by rows of a matrix, where there is much to do: the time is looked at
  // between.
  void run_in_parts(const Inputs& inputs, const at::Tensor& images,
                    const kernels::InferenceOptions& options, const at::Tensor& addend,
                    const at::Tensor& out) const {
    const std::int64_t axis = layer_.window ? 0 : 1;
    double products = static_cast<double>(out.numel()) * static_cast<double>(images.size(3));
    for (const auto size : layer_.filter_sizes) products *= static_cast<double>(size);
    const auto parts = static_cast<std::int64_t>(products / static_cast<double>(kMostProducts)) + 1;
    const std::int64_t length = images.size(axis);
    const std::int64_t each = std::max<std::int64_t>(length / parts, 1);
    if (parts == 1) return layer_.weights->run_into(images, options, addend, out);
    for (std::int64_t begin = 0; begin < length; begin += each) {
      inputs.budget().check_time();
      const std::int64_t count = std::min(each, length - begin);
      const auto part = [&](const at::Tensor& whole) {
        return whole.defined() ? whole.narrow(axis, begin, count) : whole;
      };
      layer_.weights->run_into(part(images), options, part(addend), part(out));
    }
  }

  // No copy where the elements are in order.
  static at::Tensor in_sizes(const at::Tensor& tensor, at::IntArrayRef sizes) {
    return is_readable(tensor) ? viewed(tensor, sizes) : tensor.reshape(sizes);
  }

  kernels::InferenceOptions options_for(at::IntArrayRef images) const {
    if (!layer_.window) return {.relu = layer_.relu};
    const Window& window = *layer_.window;
    const std::array<std::int64_t, 4> channels_first{images[0], images[3], images[1], images[2]};
    const auto amounts = layer_.padding
                             ? *layer_.padding
                             : window.padding.amounts(channels_first, layer_.filter_sizes,
                                                      window.strides, window.dilations);
    return {.stride = {window.strides[0], window.strides[1]},
            .before = {amounts[0], amounts[2]},
            .after = {amounts[1], amounts[3]},
            .relu = layer_.relu};
  }

  std::shared_ptr<const FusedLayer> held_;
  const FusedLayer& layer_;
};

}  // namespace

Slots run_nodes(std::span<const FusedNode> nodes, const Inputs& inputs) {
  Slots previous;
  for (const FusedNode& node : nodes) {
    Slots given;
    for (const std::size_t input : node.inputs) {
      given.push_back(input == FusedNode::kPrevious ? previous[0] : inputs.slot(input));
    }
    previous = in_node(node.name, node.op, [&] {
      Slots made = node.kernel(Inputs(given, inputs.device(), inputs.budget()));
      if (made.empty()) throw Internal("there is no output");
      return made;
    });
  }
  previous.resize(1);
  return previous;
}

Kernel fused_layer_kernel(std::shared_ptr<const FusedLayer> layer) {
  return [kernel = FusedLayerKernel(std::move(layer))](const Inputs& inputs) {
    return kernel(inputs);
  };
}

}  // namespace muster::executor
