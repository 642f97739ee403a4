#include "muster/nn/optim/norm_shards.h"

#include <ATen/ops/cat.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "muster/nn/optim/tensor_kernels_internal.h"

namespace muster {
namespace {

/// Elements of a record that have a block's sum, which is a double.
constexpr std::int64_t kSumSize = sizeof(double) / sizeof(float);

}  // namespace

NormShards::NormShards(const Variables& variables, std::vector<FlatRange> ranges)
    : variables_(variables), sizes_(ranges.size(), 0) {
  // As their ranges lie.
  std::vector<std::size_t> holders(ranges.size());
  std::iota(holders.begin(), holders.end(), std::size_t{0});
  std::ranges::sort(holders, {}, [&](std::size_t holder) { return ranges[holder].first; });
  for (std::size_t i = 0; i < variables.all().size(); ++i) {
    if (variables.all()[i].dense()) add_blocks(i, holders, ranges);
  }
}

void NormShards::add_blocks(std::size_t index, const std::vector<std::size_t>& holders,
                            const std::vector<FlatRange>& ranges) {
  const Variable& variable = variables_.all()[index];
  const std::int64_t end = variable.offset + variable.value.numel();
  std::int64_t number = 0;
  for (std::int64_t first = variable.offset; first < end; first += kNormBlock) {
    const std::int64_t last = std::min(end, first + kNormBlock);
    Block block{.variable = index, .number = number++};
    for (const std::size_t holder : holders) {
      const FlatRange elements{std::max(first, ranges[holder].first),
                               std::min(last, ranges[holder].last)};
      if (elements.first < elements.last) {
        block.pieces.push_back({holder, elements, sizes_[holder]});
      }
    }
    for (const Piece& piece : block.pieces) {
      sizes_[piece.holder] +=
          block.is_summed_by_holder() ? kSumSize : piece.elements.last - piece.elements.first;
    }
    blocks_.push_back(std::move(block));
  }
}

void NormShards::write(const Gradients& gradients, std::size_t holder,
                       const at::Tensor& record) const {
  for (const Block& block : blocks_) {
    for (const Piece& piece : block.pieces) {
      if (piece.holder != holder) continue;
      const at::Tensor values = gradients.within(piece.elements.first, piece.elements.last);
      if (block.is_summed_by_holder()) {
        const double sum = internal::sum_of_squares(values);
        std::memcpy(record.data_ptr<float>() + piece.place, &sum, sizeof(sum));
      } else {
        record.narrow(0, piece.place, values.numel()).copy_(values);
      }
    }
  }
}

SquareSums NormShards::sums(const Gradients& gradients, const RecordOf& record_of) const {
  SquareSums sums(variables_);
  std::vector<at::Tensor> records;
  records.reserve(sizes_.size());
  for (std::size_t holder = 0; holder < sizes_.size(); ++holder) {
    records.push_back(record_of(holder));
  }
  for (const Block& block : blocks_) {
    double sum = 0;
    if (block.is_summed_by_holder()) {
      const Piece& piece = block.pieces.front();
      std::memcpy(&sum, records[piece.holder].data_ptr<float>() + piece.place, sizeof(sum));
    } else {
      std::vector<at::Tensor> values;
      values.reserve(block.pieces.size());
      for (const Piece& piece : block.pieces) {
        values.push_back(records[piece.holder].narrow(0, piece.place,
                                                      piece.elements.last - piece.elements.first));
      }
      sum = internal::sum_of_squares(at::cat(values));
    }
    sums.set(block.variable, block.number, sum);
  }
  for (const VariablePart& part : variables_.whole()) {
    if (variables_.all()[part.variable].sparse()) sums.add(gradients, part);
  }
  return sums;
}

}  // namespace muster
