#include <ATen/Functions.h>

#include <algorithm>
#include <array>
#include <utility>

#include "muster/base/error.h"
#include "muster/saved_model/executor/op_table_internal.h"
#include "muster/saved_model/executor/sizes_internal.h"

namespace muster::executor {
namespace {

using Tensors = std::vector<at::Tensor>;
using Numbers = std::vector<std::int64_t>;

constexpr std::size_t kBlockInput[] = {0};

// Blocks and what is added or cut off: input 1 is [axes], input 2 is [axes, 2].
struct Blocks {
  Blocks(const Inputs& inputs, const at::Tensor& in)
      : sizes(inputs.ints(1)), edges(inputs.ints(2)) {
    if (edges.size() != 2 * sizes.size() ||
        in.dim() < 1 + static_cast<std::int64_t>(sizes.size())) {
      throw InvalidArgument("{} blocks and {} edges for {}", sizes.size(), edges.size(),
                            describe(in));
    }
    for (const auto size : sizes) {
      if (size < 1 || size > kMaxElements) throw InvalidArgument("a block of the size {}", size);
    }
    for (const auto edge : edges) {
      if (edge < 0 || edge > kMaxElements) throw InvalidArgument("{} at an edge", edge);
    }
    const auto all = graph::element_count(sizes);
    if (!all || *all > kMaxElements) throw InvalidArgument("the blocks are too large");
    product = *all;
  }

  Numbers sizes;
  Numbers edges;
  std::int64_t product = 1;
};

// [batch, space..., rest...] becomes [blocks * batch, space / block..., rest...].
Slots space_to_batch(const Inputs& inputs) {
  return rearrange(inputs, kBlockInput, [&](const Tensors& given) {
    const at::Tensor& in = given[0];
    const Blocks blocks(inputs, in);
    const auto axes = blocks.sizes.size();
    Numbers sizes = in.sizes().vec();
    // libtorch counts from the last axis.
    Numbers padding(2 * sizes.size(), 0);
    for (std::size_t i = 0; i < axes; ++i) {
      const std::size_t from_last = sizes.size() - 2 - i;
      padding[2 * from_last] = blocks.edges[2 * i];
      padding[2 * from_last + 1] = blocks.edges[2 * i + 1];
      sizes[i + 1] += blocks.edges[2 * i] + blocks.edges[2 * i + 1];
      if (sizes[i + 1] % blocks.sizes[i] != 0) {
        throw InvalidArgument("axis {} of {} with its edges does not split in blocks of {}", i + 1,
                              describe(in), blocks.sizes[i]);
      }
    }
    inputs.check_room(sizes, in);
    Numbers split{sizes[0]};
    Numbers order;
    for (std::size_t i = 0; i < axes; ++i) {
      split.insert(split.end(), {sizes[i + 1] / blocks.sizes[i], blocks.sizes[i]});
      order.push_back(static_cast<std::int64_t>(2 * i + 2));
    }
    split.insert(split.end(), sizes.begin() + static_cast<std::ptrdiff_t>(axes) + 1, sizes.end());
    order.push_back(0);
    for (std::size_t i = 0; i < axes; ++i) order.push_back(static_cast<std::int64_t>(2 * i + 1));
    for (auto i = 2 * axes + 1; i < split.size(); ++i)
      order.push_back(static_cast<std::int64_t>(i));
    Numbers out{product_of(std::array{sizes[0], blocks.product})};
    for (std::size_t i = 0; i < axes; ++i) out.push_back(sizes[i + 1] / blocks.sizes[i]);
    out.insert(out.end(), sizes.begin() + static_cast<std::ptrdiff_t>(axes) + 1, sizes.end());
    return Tensors{at::constant_pad_nd(in, padding, 0).reshape(split).permute(order).reshape(out)};
  });
}

// The other way round; what is added there is cut off here.
Slots batch_to_space(const Inputs& inputs) {
  return rearrange(inputs, kBlockInput, [&](const Tensors& given) {
    const at::Tensor& in = given[0];
    const Blocks blocks(inputs, in);
    const auto axes = static_cast<std::int64_t>(blocks.sizes.size());
    if (in.size(0) % blocks.product != 0) {
      throw InvalidArgument("a batch of {} does not split in {} blocks", in.size(0),
                            blocks.product);
    }
    Numbers split = blocks.sizes;
    split.push_back(in.size(0) / blocks.product);
    split.insert(split.end(), in.sizes().begin() + 1, in.sizes().end());
    Numbers order{axes};
    Numbers out{in.size(0) / blocks.product};
    for (std::int64_t i = 0; i < axes; ++i) {
      order.insert(order.end(), {axes + 1 + i, i});
      out.push_back(
          product_of(std::array{in.size(i + 1), blocks.sizes[static_cast<std::size_t>(i)]}));
    }
    for (auto i = axes + 1; i < in.dim(); ++i) {
      order.push_back(axes + i);
      out.push_back(in.size(i));
    }
    inputs.check_room(out, in);
    at::Tensor whole = in.reshape(split).permute(order).reshape(out);
    for (std::int64_t i = 0; i < axes; ++i) {
      const auto begin = blocks.edges[static_cast<std::size_t>(2 * i)];
      const auto length =
          whole.size(i + 1) - begin - blocks.edges[static_cast<std::size_t>(2 * i + 1)];
      if (length < 0) throw InvalidArgument("more is cut off axis {} than it has", i + 1);
      whole = whole.narrow(i + 1, begin, length);
    }
    return Tensors{whole};
  });
}

// The places of an axis, with those in front and after it mirrored at its ends. `skip` is 1 where
// the end itself is not repeated.
Numbers mirrored(std::int64_t size, std::int64_t front, std::int64_t behind, std::int64_t skip) {
  if (front < 0 || behind < 0 || front > size - skip || behind > size - skip) {
    throw InvalidArgument("{} and {} are too much to mirror of an axis of {}", front, behind, size);
  }
  Numbers places;
  for (auto i = front; i > 0; --i) places.push_back(i - 1 + skip);
  for (std::int64_t i = 0; i < size; ++i) places.push_back(i);
  for (std::int64_t i = 0; i < behind; ++i) places.push_back(size - 1 - skip - i);
  return places;
}

Kernel mirror_pad(const KernelContext& context) {
  const auto mode = graph::attr<std::string>(context.node, "mode");
  if (mode != "REFLECT" && mode != "SYMMETRIC") throw InvalidArgument("the mode {}", mode);
  return [skip = mode == "REFLECT" ? 1 : 0](const Inputs& inputs) {
    const auto paddings = inputs.ints(1);
    return rearrange(inputs, kBlockInput, [&](const Tensors& given) {
      at::Tensor out = given[0];
      if (static_cast<std::int64_t>(paddings.size()) != 2 * out.dim()) {
        throw InvalidArgument("{} paddings for {}", paddings.size(), describe(out));
      }
      for (std::int64_t axis = 0; axis < out.dim(); ++axis) {
        const auto front = paddings[static_cast<std::size_t>(2 * axis)];
        const auto behind = paddings[static_cast<std::size_t>(2 * axis + 1)];
        if (front == 0 && behind == 0) continue;
        const auto places = mirrored(out.size(axis), front, behind, skip);
        auto sizes = out.sizes().vec();
        sizes[static_cast<std::size_t>(axis)] = static_cast<std::int64_t>(places.size());
        inputs.check_room(sizes, out);
        out = out.index_select(axis, at::tensor(places, at::kLong).to(out.device()));
      }
      return Tensors{out};
    });
  };
}

}  // namespace

void add_block_ops(OpTable& table) {
  table.add_plain("SpaceToBatchND", space_to_batch);
  table.add_plain("BatchToSpaceND", batch_to_space);
  table.add("MirrorPad", mirror_pad);
}

}  // namespace muster::executor
