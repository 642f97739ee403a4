#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <utility>

#include "muster/distribution/parameter_server/ps_layout_internal.h"
#include "muster/nn/optim/clipping.h"

namespace muster::internal {
namespace {

std::int64_t elements_of(const Variables& variables) {
  std::int64_t elements = 0;
  for (const Variable& variable : variables.all()) {
    if (variable.spec.trainable) elements += variable.value.numel();
  }
  return elements;
}

// Neighbours, with the padding between them and after the last, as one piece of memory.
std::vector<FlatRange> joined(std::vector<FlatRange> ranges, std::int64_t end) {
  std::ranges::sort(ranges, {}, &FlatRange::first);
  std::vector<FlatRange> pieces;
  for (const FlatRange& range : ranges) {
    if (!pieces.empty() && range.first - pieces.back().last < kVariableAlignment) {
      pieces.back().last = range.last;
    } else {
      pieces.push_back(range);
    }
  }
  if (!pieces.empty() && end - pieces.back().last < kVariableAlignment) pieces.back().last = end;
  return pieces;
}

}  // namespace

PsLayout::PsLayout(const Variables& variables, std::size_t servers)
    : by_server_(servers),
      flat_(servers),
      flat_sizes_(servers, 0),
      rows_(servers, std::vector<std::vector<FlatRange>>(variables.sparse_count())) {
  const std::int64_t fair = elements_of(variables) / static_cast<std::int64_t>(servers) + 1;
  std::vector<std::int64_t> load(servers, 0);
  for (std::size_t v = 0; v < variables.all().size(); ++v) {
    const Variable& variable = variables.all()[v];
    if (!variable.spec.trainable) continue;
    const std::int64_t size = variable.dense() ? variable.value.numel() : variable.value.size(0);
    const std::int64_t width = variable.dense() ? 1 : variable.value.size(1);
    const std::int64_t block = variable.dense() ? kNormBlock : kNormRowBlock;
    const std::int64_t blocks =
        std::max<std::int64_t>(1, fair / (block * std::max<std::int64_t>(1, width)));
    const std::int64_t most =
        variable.spec.whole ? std::max<std::int64_t>(1, size) : blocks * block;
    for (std::int64_t first = 0; first < size; first += most) {
      const std::int64_t last = std::min(size, first + most);
      const auto least = static_cast<std::size_t>(std::ranges::min_element(load) - load.begin());
      load[least] += (last - first) * width;
      by_server_[least].push_back({v, first, last});
      if (variable.dense()) {
        flat_[least].push_back({variable.offset + first, variable.offset + last});
      } else {
        rows_[least][static_cast<std::size_t>(variable.rows_index)].push_back({first, last});
      }
    }
  }
  for (std::size_t server = 0; server < servers; ++server) {
    flat_[server] = joined(std::move(flat_[server]), variables.flat().numel());
    for (const FlatRange& range : flat_[server]) flat_sizes_[server] += range.last - range.first;
  }
}

bool PsLayout::holds_all(std::size_t server) const {
  return servers() == 1 && flat_[server].size() == 1 && flat_[server].front().first == 0;
}

void PsLayout::scatter(std::size_t server, const at::Tensor& gathered,
                       const at::Tensor& flat) const {
  const float* next = gathered.data_ptr<float>();
  for (const FlatRange& range : flat_[server]) {
    const std::int64_t size = range.last - range.first;
    std::copy_n(next, size, flat.data_ptr<float>() + range.first);
    next += size;
  }
}

RowGradient PsLayout::rows_of(std::size_t server, std::size_t table,
                              const RowGradient& rows) const {
  if (rows.empty()) return {};
  const std::int64_t* row = rows.rows.data_ptr<std::int64_t>();
  const std::int64_t count = rows.rows.numel();
  std::vector<at::Tensor> numbers, values;
  for (const FlatRange& range : rows_[server][table]) {
    const std::int64_t begin = std::lower_bound(row, row + count, range.first) - row;
    const std::int64_t end = std::lower_bound(row, row + count, range.last) - row;
    if (begin == end) continue;
    numbers.push_back(rows.rows.narrow(0, begin, end - begin));
    values.push_back(rows.values.narrow(0, begin, end - begin));
  }
  if (numbers.empty()) return {};
  if (numbers.size() == 1) return {numbers[0], values[0]};
  return {at::cat(numbers), at::cat(values)};
}

}  // namespace muster::internal
