// Convolutions over volumes: images with a depth, or pictures one after the other.
#include <ATen/Functions.h>

#include <algorithm>
#include <array>
#include <vector>

#include "muster/base/error.h"
#include "muster/saved_model/executor/op_table_internal.h"
#include "muster/saved_model/executor/paced_internal.h"

namespace muster::executor {
namespace {

using Three = std::array<std::int64_t, 3>;

// The entries of a list of five that belong to depth, height and width.
Three over_volume(const graph::NodeDef& node, const char* name) {
  auto list = graph::attr_or<graph::AttrList>(node, name, {}).ints;
  if (list.empty()) list.assign(5, 1);
  if (list.size() != 5) throw InvalidArgument("{} must have five entries", name);
  if (list[0] != 1 || list[4] != 1) {
    throw Unimplemented("{} other than 1 for batch and channels", name);
  }
  for (const std::int64_t entry : list) {
    if (entry < 1 || entry > kMaxElements) {
      throw InvalidArgument("{} must be positive and at most {}", name, kMaxElements);
    }
  }
  return {list[1], list[2], list[3]};
}

struct VolumeWindow {
  explicit VolumeWindow(const graph::NodeDef& node)
      : strides(over_volume(node, "strides")),
        dilations(over_volume(node, "dilations")),
        same(graph::attr<std::string>(node, "padding") == "SAME") {
    const auto padding = graph::attr<std::string>(node, "padding");
    if (!same && padding != "VALID") throw InvalidArgument("the padding {} is unknown", padding);
    const auto format = graph::attr_or<std::string>(node, "data_format", "NDHWC");
    if (format != "NDHWC") throw Unimplemented("the data_format {}", format);
  }

  // How much is added in front of and behind an axis.
  std::pair<std::int64_t, std::int64_t> around(std::size_t axis, std::int64_t size,
                                               std::int64_t kernel) const {
    if (!same) return {0, 0};
    const auto reach = (kernel - 1) * dilations[axis] + 1;
    const auto places = (size + strides[axis] - 1) / strides[axis];
    const auto total = std::max<std::int64_t>((places - 1) * strides[axis] + reach - size, 0);
    return {total / 2, total - total / 2};
  }

  Three strides;
  Three dilations;
  bool same;
};

// In parts of the batch where there is much to multiply.
at::Tensor paced_volumes(const at::Tensor& in, const at::Tensor& weight, const VolumeWindow& window,
                         double products, const Budget& budget) {
  if (products <= static_cast<double>(kMostProducts) || !in.is_cpu() || in.size(0) < 2) {
    budget.check_time();
    const auto groups = in.size(1) / weight.size(1);
    return at::conv3d(in, weight, {}, window.strides, at::IntArrayRef({0, 0, 0}), window.dilations,
                      groups);
  }
  const std::int64_t half = in.size(0) / 2;
  return at::cat(
      {paced_volumes(in.narrow(0, 0, half), weight, window, products / 2, budget),
       paced_volumes(in.narrow(0, half, in.size(0) - half), weight, window, products / 2, budget)});
}

Kernel convolution_3d(const KernelContext& context) {
  return [window = VolumeWindow(context.node)](const Inputs& inputs) {
    const at::Tensor given = inputs.tensor(0);
    const at::Tensor filter = inputs.tensor(1, given.scalar_type());
    if (given.dim() != 5) {
      throw InvalidArgument("input 0 must have five axes, but is {}", describe(given));
    }
    if (filter.dim() != 5 || filter.size(3) < 1 || given.size(4) < 1 ||
        given.size(4) % filter.size(3) != 0) {
      throw InvalidArgument("the filter {} does not fit the {} channels of input 0",
                            describe(filter), given.size(4));
    }
    std::vector<std::int64_t> padded{given.size(0), given.size(4)};
    std::vector<std::int64_t> out{given.size(0), filter.size(4)};
    std::vector<std::int64_t> columns{given.size(0), given.size(4)};
    std::array<std::int64_t, 6> amounts{};
    double products = static_cast<double>(filter.numel()) * static_cast<double>(given.size(0));
    for (std::size_t i = 0; i < 3; ++i) {
      const auto axis = static_cast<std::int64_t>(i);
      executor::check_shape(std::array{filter.size(axis), window.dilations[i]});
      const auto [before, after] = window.around(i, given.size(axis + 1), filter.size(axis));
      padded.push_back(given.size(axis + 1) + before + after);
      // libtorch counts from the last axis.
      amounts[4 - 2 * i] = before;
      amounts[5 - 2 * i] = after;
      const auto reach = (filter.size(axis) - 1) * window.dilations[i] + 1;
      const auto places = (padded.back() - reach) / window.strides[i] + 1;
      if (padded.back() < reach || filter.size(axis) < 1) {
        throw InvalidArgument("the filter {} does not fit into {}", describe(filter),
                              describe(given));
      }
      out.push_back(places);
      columns.push_back(places);
      columns.push_back(filter.size(axis));
      products *= static_cast<double>(places);
    }
    inputs.check_room(padded, given);
    inputs.check_room(out, given);
    inputs.check_room(columns, given);
    const at::Tensor in =
        at::constant_pad_nd(given.permute({0, 4, 1, 2, 3}), amounts, 0).contiguous();
    const at::Tensor weight = filter.permute({4, 3, 0, 1, 2}).contiguous();
    return Slots{
        paced_volumes(in, weight, window, products, inputs.budget()).permute({0, 2, 3, 4, 1})};
  };
}

}  // namespace

void add_volume_ops(OpTable& table) { table.add("Conv3D", convolution_3d); }

}  // namespace muster::executor
