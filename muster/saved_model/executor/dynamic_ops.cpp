#include <ATen/Functions.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "muster/base/error.h"
#include "muster/saved_model/executor/op_table_internal.h"

namespace muster::executor {
namespace {

using Tensors = std::vector<at::Tensor>;

// The sizes of `data` after the axes of `indices`. Throws InvalidArgument where those differ.
std::vector<std::int64_t> rest_sizes(std::span<const std::int64_t> indices,
                                     std::span<const std::int64_t> data) {
  if (data.size() < indices.size() ||
      !std::ranges::equal(indices, data.subspan(0, indices.size()))) {
    throw InvalidArgument("the first sizes of the data must be those of the indices");
  }
  const auto rest = data.subspan(indices.size());
  return {rest.begin(), rest.end()};
}

at::Tensor rows_of(const at::Tensor& data, std::int64_t rows, std::vector<std::int64_t> rest) {
  rest.insert(rest.begin(), rows);
  return data.reshape(rest);
}

// Rows of the data by the number that each is given.
Kernel partition(const KernelContext& context) {
  const auto count = graph::attr<std::int64_t>(context.node, "num_partitions");
  if (count < 1) throw InvalidArgument("num_partitions must be positive: {}", count);
  return [count](const Inputs& inputs) {
    constexpr std::size_t kData[] = {0};
    constexpr std::int64_t kPartBytes = 256;
    inputs.check_room(count, kPartBytes);
    const auto numbers = inputs.ints(1);
    std::vector<std::vector<std::int64_t>> places(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      if (numbers[i] < 0 || numbers[i] >= count) {
        throw InvalidArgument("the partition {} is not in [0, {})", numbers[i], count);
      }
      places[static_cast<std::size_t>(numbers[i])].push_back(static_cast<std::int64_t>(i));
    }
    const auto shape = shape_of(inputs.value(1));
    return rearrange(inputs, kData, [&](const Tensors& in) {
      const at::Tensor rows = rows_of(in[0], static_cast<std::int64_t>(numbers.size()),
                                      rest_sizes(shape, in[0].sizes()));
      Tensors parts;
      for (const auto& place : places) {
        parts.push_back(rows.index_select(0, at::tensor(place, at::kLong).to(rows.device())));
      }
      return parts;
    });
  };
}

// Where the rows of a stitch come from: 1 + the number of the row among all data, 0 for none.
std::vector<std::int64_t> stitch_sources(const Inputs& inputs, std::size_t count) {
  std::vector<std::vector<std::int64_t>> all;
  std::int64_t largest = -1;
  for (std::size_t i = 0; i < count; ++i) {
    all.push_back(inputs.ints(i));
    for (const auto index : all.back()) {
      if (index < 0) throw InvalidArgument("the index {} is negative", index);
      largest = std::max(largest, index);
    }
  }
  if (largest >= kMaxElements) throw ResourceExhausted("{} rows are too many", largest);
  inputs.check_room(largest + 1, sizeof(std::int64_t));
  std::vector<std::int64_t> sources(static_cast<std::size_t>(largest + 1), 0);
  std::int64_t row = 0;
  for (const auto& indices : all) {
    for (const auto index : indices) sources[static_cast<std::size_t>(index)] = ++row;
  }
  return sources;
}

// The rows of all data, each in the place that its index says; of two for one place the last stays.
Slots stitch(const Inputs& inputs) {
  const std::size_t count = inputs.size() / 2;
  if (count == 0 || inputs.size() % 2 != 0) {
    throw InvalidArgument("there must be as many data as indices");
  }
  const auto sources = stitch_sources(inputs, count);
  std::vector<std::size_t> data(count);
  std::iota(data.begin(), data.end(), count);
  return rearrange(inputs, data, [&](const Tensors& in) {
    const auto rest = rest_sizes(shape_of(inputs.value(0)), in[0].sizes());
    auto sizes = rest;
    sizes.insert(sizes.begin(), static_cast<std::int64_t>(sources.size()));
    inputs.check_room(sizes, in[0]);
    // A place that nothing is put into holds zeros.
    sizes[0] = 1;
    Tensors rows{at::zeros(sizes, in[0].options())};
    std::int64_t total = 1;
    for (std::size_t i = 0; i < count; ++i) {
      const auto indices = shape_of(inputs.value(i));
      if (rest_sizes(indices, in[i].sizes()) != rest) {
        throw InvalidArgument("the rows of data {} have another shape than those before", i);
      }
      rows.push_back(rows_of(in[i], *graph::element_count(indices), rest));
      total += rows.back().size(0);
    }
    sizes[0] = total;
    inputs.check_room(sizes, in[0]);
    return Tensors{
        at::cat(rows).index_select(0, at::tensor(sources, at::kLong).to(in[0].device()))};
  });
}

}  // namespace

void add_dynamic_ops(OpTable& table) {
  table.add("DynamicPartition", partition);
  table.add_plain("DynamicStitch", stitch);
  table.add_plain("ParallelDynamicStitch", stitch);
}

}  // namespace muster::executor
