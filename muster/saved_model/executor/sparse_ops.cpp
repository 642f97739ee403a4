#include <ATen/Functions.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/fingerprint.h"
#include "muster/saved_model/executor/op_table_internal.h"
#include "muster/saved_model/executor/paced_internal.h"
#include "muster/saved_model/executor/sizes_internal.h"
#include "muster/saved_model/executor/small_tensor_ops_internal.h"

namespace muster::executor {
namespace {

using graph::DataType;
using Tensors = std::vector<at::Tensor>;

// More than these come from damage or malice, not from a batch.
constexpr std::int64_t kMaxCrosses = std::int64_t{1} << 28;
constexpr std::int64_t kMaxRows = std::int64_t{1} << 24;

// The [n, rank] places of a sparse tensor, checked against its shape.
struct Places {
  Places(const Inputs& inputs, std::size_t index, std::vector<std::int64_t> sizes)
      : data(inputs.ints(index)), shape(std::move(sizes)), rank(shape.size()) {
    const auto found = shape_of(inputs.value(index));
    if (found.size() != 2 || found[1] != static_cast<std::int64_t>(rank)) {
      throw InvalidArgument("input {} must be places in a tensor of rank {}, but is {}", index,
                            rank, describe(inputs.value(index)));
    }
    count = static_cast<std::size_t>(found[0]);
    // Places of no axes take no memory, so that there could be any number of them.
    if (rank == 0 && count > 1) {
      throw InvalidArgument("input {} names {} places in a tensor of one element", index, count);
    }
    for (std::size_t i = 0; i < data.size(); ++i) {
      if (data[i] < 0 || data[i] >= shape[i % rank]) {
        throw InvalidArgument("place {} of input {} is outside of the tensor", i / rank, index);
      }
    }
  }

  std::int64_t at(std::size_t place, std::size_t axis) const { return data[place * rank + axis]; }

  std::vector<std::int64_t> data;
  std::vector<std::int64_t> shape;
  std::size_t rank;
  std::size_t count = 0;
};

at::Tensor tensor_of(std::span<const std::int64_t> values) {
  return whole_numbers(values, at::kLong);
}

// The new shape, with the size that was left to us (-1) put in.
std::vector<std::int64_t> inferred(const std::vector<std::int64_t>& from,
                                   std::vector<std::int64_t> to) {
  const auto total = graph::element_count(from);
  if (!total) throw InvalidArgument("input 1 is no shape");
  if (const auto missing = std::ranges::find(to, -1); missing != to.end()) {
    *missing = 1;
    const auto known = graph::element_count(to);
    *missing = known && *known > 0 ? *total / *known : 0;
  }
  if (graph::element_count(to) != total) {
    throw InvalidArgument("a sparse tensor of {} elements does not take this shape", *total);
  }
  return to;
}

Slots sparse_reshape(const Inputs& inputs) {
  const Places from(inputs, 0, inputs.ints(1));
  const auto to = inferred(from.shape, inputs.ints(2));
  inputs.check_room(
      std::array{static_cast<std::int64_t>(from.count), static_cast<std::int64_t>(to.size())},
      at::kLong);
  std::vector<std::int64_t> places(from.count * to.size());
  for (std::size_t i = 0; i < from.count; ++i) {
    std::int64_t flat = 0;
    for (std::size_t axis = 0; axis < from.rank; ++axis) {
      flat = flat * from.shape[axis] + from.at(i, axis);
    }
    for (std::size_t axis = to.size(); axis-- > 0;) {
      places[i * to.size() + axis] = flat % to[axis];
      flat /= to[axis];
    }
  }
  return {tensor_of(places).reshape(
              {static_cast<std::int64_t>(from.count), static_cast<std::int64_t>(to.size())}),
          tensor_of(to)};
}

// Puts the default where a row has nothing.
Slots fill_empty_rows(const Inputs& inputs) {
  const Places from(inputs, 0, inputs.ints(2));
  if (from.rank < 1) throw InvalidArgument("input 2 must have an axis of rows");
  if (from.shape[0] < 0 || from.shape[0] > kMaxRows) {
    throw InvalidArgument("input 2 has {} rows", from.shape[0]);
  }
  const auto rows = static_cast<std::size_t>(from.shape[0]);
  // A list for each row, then its place.
  inputs.check_room(from.shape[0], static_cast<std::int64_t>(sizeof(std::vector<std::size_t>) +
                                                             (from.rank + 1) * sizeof(rows)));
  std::vector<std::vector<std::size_t>> by_row(rows);
  for (std::size_t i = 0; i < from.count; ++i) {
    by_row[static_cast<std::size_t>(from.at(i, 0))].push_back(i);
  }
  std::vector<std::int64_t> places;
  // Place of each output's value among the inputs and the default after them.
  std::vector<std::int64_t> sources;
  std::vector<std::int64_t> reverse(from.count);
  const at::Tensor empty = at::zeros({from.shape[0]}, at::kBool);
  for (std::size_t row = 0; row < rows; ++row) {
    for (const auto i : by_row[row]) {
      reverse[i] = static_cast<std::int64_t>(sources.size());
      sources.push_back(static_cast<std::int64_t>(i));
      for (std::size_t axis = 0; axis < from.rank; ++axis) places.push_back(from.at(i, axis));
    }
    if (!by_row[row].empty()) continue;
    empty.data_ptr<bool>()[row] = true;
    sources.push_back(static_cast<std::int64_t>(from.count));
    places.push_back(static_cast<std::int64_t>(row));
    places.insert(places.end(), from.rank - 1, 0);
  }
  constexpr std::size_t kValues[] = {1, 3};
  Slots values = rearrange(inputs, kValues, [&](const Tensors& in) {
    const at::Tensor all = at::cat({in[0].reshape({-1}), in[1].reshape({1})});
    if (all.numel() != static_cast<std::int64_t>(from.count) + 1) {
      throw InvalidArgument("{} values for {} places", all.numel() - 1, from.count);
    }
    return Tensors{all.index_select(0, tensor_of(sources).to(all.device()))};
  });
  return {tensor_of(places).reshape({-1, static_cast<std::int64_t>(from.rank)}), values[0], empty,
          tensor_of(reverse)};
}

enum class Combine { kSum, kMean, kSqrtN };

// Rows of `data` added up: row sources[i] into row targets[i] of a tensor of these sizes.
at::Tensor sum_of_rows(const at::Tensor& data, std::span<const std::int64_t> sources,
                       const std::vector<std::int64_t>& sizes,
                       std::span<const std::int64_t> targets) {
  if (is_readable(data) && static_cast<std::int64_t>(sources.size()) <= kFewNumbers) {
    at::Tensor out = empty_on_host(sizes, data.scalar_type());
    std::memset(out.data_ptr(), 0, out.nbytes());
    if (add_rows(data, sources, out, targets)) return out;
  }
  at::Tensor out = at::zeros(sizes, data.options());
  out.index_add_(0, tensor_of(targets).to(data.device()),
                 data.index_select(0, tensor_of(sources).to(data.device())));
  return out;
}

// Divides each row of floats in the memory of the host, as libtorch does it; false for others.
bool divide_rows(const at::Tensor& rows, const std::vector<double>& divisors) {
  if (!is_readable(rows) || rows.scalar_type() != at::kFloat || rows.numel() > kFewNumbers) {
    return false;
  }
  const std::int64_t columns = product_of(rows.sizes().slice(1));
  auto* value = rows.data_ptr<float>();
  for (const double divisor : divisors) {
    for (std::int64_t i = 0; i < columns; ++i) *value++ /= static_cast<float>(divisor);
  }
  return true;
}

KernelFactory segment(Combine combine) {
  return [combine](const KernelContext&) -> Kernel {
    return [combine](const Inputs& inputs) {
      const at::Tensor data = inputs.tensor(0);
      const auto indices = inputs.few_ints(1);
      const auto segments = inputs.few_ints(2);
      if (indices.size() != segments.size() || data.dim() < 1) {
        throw InvalidArgument("{} indices for {} segments of {}", indices.size(), segments.size(),
                              describe(data));
      }
      if (!std::ranges::is_sorted(segments) || (!segments.empty() && segments[0] < 0)) {
        throw InvalidArgument("the segments must not fall or be negative");
      }
      if (!segments.empty() && segments.back() >= kMaxRows) {
        throw InvalidArgument("segment {} is too many", segments.back());
      }
      const auto rows =
          inputs.size() > 3 ? inputs.integer(3) : (segments.empty() ? 0 : segments.back() + 1);
      if (rows < 0 || (!segments.empty() && segments.back() >= rows) || rows > kMaxRows) {
        throw InvalidArgument("{} segments are too few or too many", rows);
      }
      for (const auto index : indices) {
        if (index < 0 || index >= data.size(0)) {
          throw InvalidArgument("the index {} is not in [0, {})", index, data.size(0));
        }
      }
      auto sizes = data.sizes().vec();
      sizes[0] = static_cast<std::int64_t>(indices.size());
      inputs.check_room(sizes, data);
      sizes[0] = rows;
      inputs.check_room(sizes, data);
      const at::Tensor out = sum_of_rows(data, indices, sizes, segments);
      if (combine == Combine::kSum) return Slots{out};
      std::vector<double> divisors(static_cast<std::size_t>(rows), 0);
      for (const auto row : segments) divisors[static_cast<std::size_t>(row)] += 1;
      for (auto& divisor : divisors) {
        divisor = std::max(divisor, 1.0);
        if (combine == Combine::kSqrtN) divisor = std::sqrt(divisor);
      }
      if (divide_rows(out, divisors)) return Slots{out};
      std::vector<std::int64_t> column(sizes.size(), 1);
      column[0] = rows;
      return Slots{out.div(at::tensor(divisors, at::kDouble).to(data.options()).reshape(column))};
    };
  };
}

// The rows of `data` added up by segment, in any order; one with a negative segment is skipped.
Slots unsorted_segment_sum(const Inputs& inputs) {
  const at::Tensor data = inputs.tensor(0);
  const auto segments = inputs.ints(1);
  const auto rows = inputs.integer(2);
  if (data.dim() < 1 || data.size(0) != static_cast<std::int64_t>(segments.size())) {
    throw InvalidArgument("{} segments for {}: there must be one a row", segments.size(),
                          describe(data));
  }
  auto sizes = data.sizes().vec();
  sizes[0] = rows;
  inputs.check_room(sizes, data);
  std::vector<std::int64_t> places;
  std::vector<std::int64_t> targets;
  for (std::size_t i = 0; i < segments.size(); ++i) {
    if (segments[i] >= rows) {
      throw InvalidArgument("the segment {} is not below {}", segments[i], rows);
    }
    if (segments[i] < 0) continue;
    places.push_back(static_cast<std::int64_t>(i));
    targets.push_back(segments[i]);
  }
  return {sum_of_rows(data, places, sizes, targets)};
}

Slots sparse_to_dense(const Inputs& inputs) {
  const auto sizes = inputs.ints(1);
  inputs.check_room(sizes, inputs.is_strings(2) ? at::kLong : inputs.tensor(2).scalar_type());
  const auto count = graph::element_count(sizes);
  std::vector<std::int64_t> flat;
  const auto found = shape_of(inputs.value(0));
  if (found.size() == 2) {
    const Places places(inputs, 0, sizes);
    for (std::size_t i = 0; i < places.count; ++i) {
      std::int64_t place = 0;
      for (std::size_t axis = 0; axis < places.rank; ++axis) {
        place = place * sizes[axis] + places.at(i, axis);
      }
      flat.push_back(place);
    }
  } else {
    flat = inputs.ints(0);
    for (const auto place : flat) {
      if (sizes.size() != 1 || place < 0 || place >= sizes[0]) {
        throw InvalidArgument("the place {} is outside of the tensor", place);
      }
    }
  }
  constexpr std::size_t kValues[] = {2, 3};
  return rearrange(inputs, kValues, [&](const Tensors& in) {
    at::Tensor out = in[1].reshape({}).expand({*count}).contiguous().clone();
    const auto places = tensor_of(flat).to(out.device());
    out.index_copy_(0, places, in[0].reshape({-1}).expand({places.numel()}));
    return Tensors{out.reshape(sizes)};
  });
}

// One column of a cross: for each row the fingerprints of its strings, or its numbers.
using CrossRows = std::vector<std::vector<std::uint64_t>>;

std::vector<std::uint64_t> fingerprints(const Inputs& inputs, std::size_t index) {
  std::vector<std::uint64_t> out;
  if (inputs.is_strings(index)) {
    for (const auto& text : inputs.strings(index).values()) out.push_back(fingerprint64(text));
  } else {
    for (const auto number : inputs.ints(index)) out.push_back(static_cast<std::uint64_t>(number));
  }
  return out;
}

CrossRows sparse_rows(const Inputs& inputs, std::size_t column, std::size_t columns) {
  const Places places(inputs, column, inputs.ints(2 * columns + column));
  const auto values = fingerprints(inputs, columns + column);
  if (places.rank != 2 || values.size() != places.count || places.shape[0] < 0 ||
      places.shape[0] > kMaxRows) {
    throw InvalidArgument("column {} of the cross is no sparse matrix", column);
  }
  inputs.check_room(places.shape[0], sizeof(CrossRows::value_type));
  CrossRows rows(static_cast<std::size_t>(places.shape[0]));
  for (std::size_t i = 0; i < places.count; ++i) {
    rows[static_cast<std::size_t>(places.at(i, 0))].push_back(values[i]);
  }
  return rows;
}

CrossRows dense_rows(const Inputs& inputs, std::size_t index) {
  const auto values = fingerprints(inputs, index);
  const auto shape = shape_of(inputs.value(index));
  if (shape.size() != 2) throw InvalidArgument("input {} of the cross is no matrix", index);
  inputs.check_room(shape[0], sizeof(CrossRows::value_type));
  CrossRows rows(static_cast<std::size_t>(shape[0]));
  for (std::size_t i = 0; i < values.size(); ++i) {
    rows[i / static_cast<std::size_t>(shape[1])].push_back(values[i]);
  }
  return rows;
}

// How many combinations a row has, and how many hashes they take. Throws ResourceExhausted.
struct CrossCount {
  CrossCount(std::span<const CrossRows> columns, std::size_t row) {
    for (const auto& column : columns) {
      const auto values = static_cast<std::int64_t>(column[row].size());
      combinations =
          graph::element_count(std::array{combinations, values}).value_or(kMaxCrosses + 1);
      hashes += combinations;
      if (hashes > kMaxCrosses) {
        throw ResourceExhausted("a row has more than {} combinations", kMaxCrosses);
      }
    }
  }

  std::int64_t combinations = 1;
  std::int64_t hashes = 0;
};

// Every combination of the values of one row, those of the last column varying fastest. Without
// recursion: a graph may cross any number of columns.
void cross_row(std::span<const CrossRows> columns, std::size_t row, std::uint64_t key,
               std::uint64_t buckets, std::vector<std::int64_t>& out) {
  std::vector<std::size_t> chosen(columns.size(), 0);
  // The hash of the values chosen in the columns before each.
  std::vector<std::uint64_t> hashes(columns.size() + 1, key);
  std::size_t column = 0;
  while (true) {
    if (column < columns.size() && chosen[column] < columns[column][row].size()) {
      const auto value = columns[column][row][chosen[column]];
      hashes[column + 1] = concatenate_fingerprints(hashes[column], value);
      ++column;
      continue;
    }
    if (column == columns.size()) {
      out.push_back(static_cast<std::int64_t>(hashes[column] % buckets));
    } else {
      chosen[column] = 0;
    }
    if (column == 0) return;
    ++chosen[--column];
  }
}

Kernel sparse_cross(const KernelContext& context) {
  const auto& node = context.node;
  const auto count = graph::attr<std::int64_t>(node, "N");
  if (count < 0 || 3 * static_cast<std::size_t>(count) > node.inputs.size()) {
    throw InvalidArgument("N is {}, but there are {} inputs", count, node.inputs.size());
  }
  const auto sparse = static_cast<std::size_t>(count);
  if (!graph::attr<bool>(node, "hashed_output")) throw Unimplemented("crosses without a hash");
  const auto given = graph::attr<std::int64_t>(node, "num_buckets");
  if (given < 0) throw InvalidArgument("num_buckets must not be negative: {}", given);
  const auto buckets =
      static_cast<std::uint64_t>(given == 0 ? std::numeric_limits<std::int64_t>::max() : given);
  const auto key = static_cast<std::uint64_t>(graph::attr<std::int64_t>(node, "hash_key"));
  return [=](const Inputs& inputs) {
    std::vector<CrossRows> columns;
    columns.reserve(inputs.size());
    for (std::size_t i = 0; i < sparse; ++i) columns.push_back(sparse_rows(inputs, i, sparse));
    for (std::size_t i = 3 * sparse; i < inputs.size(); ++i) {
      columns.push_back(dense_rows(inputs, i));
    }
    const std::size_t rows = columns.empty() ? 0 : columns[0].size();
    std::vector<std::int64_t> places;
    std::vector<std::int64_t> values;
    std::int64_t longest = 0;
    for (const auto& column : columns) {
      if (column.size() != rows) throw InvalidArgument("the columns differ in their rows");
    }
    std::int64_t total = 0;
    std::int64_t hashes = 0;
    for (std::size_t row = 0; row < rows; ++row) {
      const CrossCount of_row(columns, row);
      total += of_row.combinations;
      hashes += of_row.hashes;
      if (hashes > kMaxCrosses) {
        throw ResourceExhausted("there are more than {} combinations", kMaxCrosses);
      }
    }
    // A value and its place, once while they are collected and once as tensors.
    inputs.check_room(total, 6 * sizeof(std::int64_t));
    for (std::size_t row = 0; row < rows; ++row) {
      inputs.budget().check_time();
      const auto begin = values.size();
      cross_row(columns, row, key, buckets, values);
      const auto made = static_cast<std::int64_t>(values.size() - begin);
      longest = std::max(longest, made);
      for (std::int64_t i = 0; i < made; ++i) {
        places.push_back(static_cast<std::int64_t>(row));
        places.push_back(i);
      }
    }
    const auto found = static_cast<std::int64_t>(values.size());
    return Slots{viewed(tensor_of(places), {found, 2}), tensor_of(values),
                 tensor_of(std::array{static_cast<std::int64_t>(rows), longest})};
  };
}

KernelFactory plain(Kernel kernel) {
  return [kernel = std::move(kernel)](const KernelContext&) { return kernel; };
}

}  // namespace

void add_sparse_ops(OpTable& table) {
  table.add("SparseReshape", Op{plain(sparse_reshape), {"output_indices", "output_shape"}});
  table.add("SparseFillEmptyRows",
            Op{plain(fill_empty_rows),
               {"output_indices", "output_values", "empty_row_indicator", "reverse_index_map"}});
  table.add("SparseSegmentSum", segment(Combine::kSum));
  table.add("SparseSegmentMean", segment(Combine::kMean));
  table.add("SparseSegmentSqrtN", segment(Combine::kSqrtN));
  table.add("SparseSegmentSumWithNumSegments", segment(Combine::kSum));
  table.add("SparseSegmentMeanWithNumSegments", segment(Combine::kMean));
  table.add("SparseSegmentSqrtNWithNumSegments", segment(Combine::kSqrtN));
  table.add_plain("SparseToDense", sparse_to_dense);
  table.add_plain("UnsortedSegmentSum", unsorted_segment_sum);
  table.add("SparseCross", Op{sparse_cross, {"output_indices", "output_values", "output_shape"}});
}

}  // namespace muster::executor
