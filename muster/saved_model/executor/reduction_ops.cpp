#include <ATen/Functions.h>

#include <algorithm>
#include <functional>

#include "muster/base/error.h"
#include "muster/saved_model/executor/op_table_internal.h"
#include "muster/saved_model/executor/sizes_internal.h"

namespace muster::executor {
namespace {

using graph::DataType;
using Reduce = at::Tensor (*)(const at::Tensor&, const std::vector<std::int64_t>&, bool keep);
using ReduceOne = at::Tensor (*)(const at::Tensor&, std::int64_t axis, bool keep);

// A tensor without elements may have axes of any size, and what is left of it without an empty axis
// may not fit: looked at axis by axis, the last one first.
void check_room_without(const Inputs& inputs, const at::Tensor& in, std::vector<std::int64_t> axes,
                        at::ScalarType type) {
  auto sizes = in.sizes().vec();
  std::ranges::sort(axes, std::greater<>());
  for (const auto axis : axes) {
    sizes[static_cast<std::size_t>(axis)] = 1;
    inputs.check_room(sizes, type);
  }
}

void add_reduction(OpTable& table, const char* name, Reduce reduce) {
  table.add(name, [reduce](const KernelContext& context) -> Kernel {
    const bool keep = graph::attr_or<bool>(context.node, "keep_dims", false);
    return [reduce, keep](const Inputs& inputs) {
      const at::Tensor in = inputs.tensor(0);
      auto axes = inputs.ints(1);
      for (auto& axis : axes) axis = positive_axis(axis, in.dim());
      check_room_without(inputs, in, axes, in.scalar_type());
      // libtorch takes no axes for all of them.
      return Slots{axes.empty() ? in : reduce(in, axes, keep)};
    };
  });
}

// For reductions that libtorch does over one axis at a time: the last axis first, so that the
// others keep their numbers.
at::Tensor one_by_one(at::Tensor in, std::vector<std::int64_t> axes, bool keep, ReduceOne reduce) {
  std::ranges::sort(axes, std::greater<>());
  for (const auto axis : axes) in = reduce(in, axis, keep);
  return in;
}

at::Tensor mean(const at::Tensor& in, const std::vector<std::int64_t>& axes, bool keep) {
  if (in.is_floating_point()) return at::mean(in, axes, keep);
  std::vector<std::int64_t> sizes;
  for (const auto axis : axes) sizes.push_back(in.size(axis));
  const std::int64_t count = product_of(sizes);
  return at::div(at::sum(in, axes, keep, in.scalar_type()), std::max<std::int64_t>(count, 1),
                 "trunc")
      .to(in.scalar_type());
}

at::ScalarType index_type(const KernelContext& context) {
  return scalar_type(graph::attr_or<DataType>(context.node, "output_type", DataType::kInt64));
}

KernelFactory arg(bool largest) {
  return [largest](const KernelContext& context) -> Kernel {
    return [largest, type = index_type(context)](const Inputs& inputs) {
      const at::Tensor in = inputs.tensor(0);
      const auto axis = positive_axis(inputs.integer(1), in.dim());
      check_room_without(inputs, in, {axis}, at::kLong);
      return Slots{(largest ? at::argmax(in, axis) : at::argmin(in, axis)).to(type)};
    };
  };
}

// The first of equal values comes first, which libtorch's topk does not promise.
Slots top_k(const Inputs& inputs) {
  const at::Tensor in = inputs.tensor(0);
  const auto k = inputs.integer(1);
  if (in.dim() < 1 || k < 0 || k > in.size(-1)) {
    throw InvalidArgument("there are no {} largest values in {}", k, describe(in));
  }
  const auto [values, indices] = at::sort(in, /*stable=*/true, /*dim=*/-1, /*descending=*/true);
  return {values.narrow(-1, 0, k).contiguous(), indices.narrow(-1, 0, k).to(at::kInt)};
}

// Sums of an axis up to each place; `exclusive` leaves the place itself out.
Kernel cumulative_sum(const KernelContext& context) {
  const bool exclusive = graph::attr_or<bool>(context.node, "exclusive", false);
  const bool reverse = graph::attr_or<bool>(context.node, "reverse", false);
  return [exclusive, reverse](const Inputs& inputs) {
    at::Tensor in = inputs.tensor(0);
    const auto axis = positive_axis(inputs.integer(1), in.dim());
    if (reverse) in = in.flip({axis});
    at::Tensor sums = at::cumsum(in, axis, in.scalar_type());
    if (exclusive) sums = sums.sub(in);
    return Slots{reverse ? sums.flip({axis}) : sums};
  };
}

}  // namespace

void add_reduction_ops(OpTable& table) {
  using T = const at::Tensor&;
  using Axes = const std::vector<std::int64_t>&;
  add_reduction(table, "Sum", [](T in, Axes axes, bool keep) {
    return at::sum(in, axes, keep, in.scalar_type());
  });
  add_reduction(table, "Mean", mean);
  add_reduction(table, "Max", [](T in, Axes axes, bool keep) { return at::amax(in, axes, keep); });
  add_reduction(table, "Min", [](T in, Axes axes, bool keep) { return at::amin(in, axes, keep); });
  add_reduction(table, "Prod", [](T in, Axes axes, bool keep) {
    return one_by_one(in, axes, keep, [](T part, std::int64_t axis, bool keep_axis) {
      return at::prod(part, axis, keep_axis, part.scalar_type());
    });
  });
  add_reduction(table, "All", [](T in, Axes axes, bool keep) {
    return one_by_one(in, axes, keep, [](T part, std::int64_t axis, bool keep_axis) {
      return at::all(part, axis, keep_axis);
    });
  });
  add_reduction(table, "Any", [](T in, Axes axes, bool keep) {
    return one_by_one(in, axes, keep, [](T part, std::int64_t axis, bool keep_axis) {
      return at::any(part, axis, keep_axis);
    });
  });
  table.add("Cumsum", cumulative_sum);
  table.add("ArgMax", arg(true));
  table.add("ArgMin", arg(false));
  table.add("TopKV2",
            Op{[](const KernelContext&) -> Kernel { return top_k; }, {"values", "indices"}});
}

}  // namespace muster::executor
