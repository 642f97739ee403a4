#include <algorithm>
#include <bit>
#include <utility>

#include "muster/model/table_kernels_internal.h"

namespace muster::internal {
namespace {

constexpr int kMaxDigitBits = 11;

void add_scaled(float factor, const float* __restrict source, std::size_t width,
                float* __restrict target) {
  for (std::size_t k = 0; k < width; ++k) target[k] += factor * source[k];
}

void set_scaled(float factor, const float* __restrict source, std::size_t width,
                float* __restrict target) {
  for (std::size_t k = 0; k < width; ++k) target[k] = factor * source[k];
}

}  // namespace

std::size_t find_outside(const IdsView& ids, std::int64_t row_count) {
  const auto limit = static_cast<std::uint64_t>(row_count);
  const std::size_t count = ids.count();
  for (std::size_t i = 0; i < count; ++i) {
    if (static_cast<std::uint64_t>(ids.ids[i]) >= limit) return i;
  }
  return count;
}

void add_table_rows(const IdsView& ids, const float* table, std::size_t width, float* out,
                    std::size_t stride) {
  for (std::size_t row = 0; row < ids.rows; ++row, out += stride) {
    for (auto place = ids.splits[row]; place < ids.splits[row + 1]; ++place) {
      const float factor = ids.factors == nullptr ? 1.0F : ids.factors[place];
      add_scaled(factor, table + static_cast<std::size_t>(ids.ids[place]) * width, width, out);
    }
  }
}

void add_product(const float* numbers, std::size_t number_stride, const float* weights,
                 std::size_t rows, std::size_t inputs, std::size_t units, float* out) {
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t k = 0; k < inputs; ++k) {
      add_scaled(numbers[row * number_stride + k], weights + k * units, units, out + row * units);
    }
  }
}

void add_weight_gradient(const float* numbers, std::size_t number_stride, const float* gradient,
                         std::size_t rows, std::size_t inputs, std::size_t units, float* weights) {
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t k = 0; k < inputs; ++k) {
      add_scaled(numbers[row * number_stride + k], gradient + row * units, units,
                 weights + k * units);
    }
  }
}

void add_columns(const float* gradient, std::size_t rows, std::size_t units, float* sums) {
  for (std::size_t row = 0; row < rows; ++row)
    add_scaled(1.0F, gradient + row * units, units, sums);
}

std::size_t RowSum::plan(std::span<const RowTerm> terms, std::int64_t row_count) {
  terms_ = terms;
  place_bits_ = std::bit_width(terms.size());
  keys_.resize(terms.size());
  for (std::size_t i = 0; i < terms.size(); ++i) {
    keys_[i] = static_cast<std::uint64_t>(terms[i].row) << place_bits_ | i;
  }
  sort(std::bit_width(static_cast<std::uint64_t>(row_count)));
  std::size_t unique = 0;
  for (std::size_t i = 0; i < keys_.size(); ++i) {
    unique += i == 0 || keys_[i] >> place_bits_ != keys_[i - 1] >> place_bits_;
  }
  return unique;
}

// Digit by digit from the lowest where counting pays, which keeps the places of a row in order.
void RowSum::sort(int row_bits) {
  const int passes = std::max(1, (row_bits + kMaxDigitBits - 1) / kMaxDigitBits);
  const int digit_bits = (row_bits + passes - 1) / passes;
  const std::size_t counters = std::size_t{1} << digit_bits;
  if (static_cast<std::size_t>(passes) * counters > 8 * keys_.size()) {
    std::ranges::sort(keys_);
    return;
  }
  spare_.resize(keys_.size());
  for (int pass = 0; pass < passes; ++pass) {
    const int shift = place_bits_ + pass * digit_bits;
    const auto digit = [&](std::uint64_t key) { return key >> shift & (counters - 1); };
    counts_.assign(counters, 0);
    for (const std::uint64_t key : keys_) ++counts_[digit(key)];
    std::uint32_t first = 0;
    for (std::uint32_t& count : counts_) first += std::exchange(count, first);
    for (const std::uint64_t key : keys_) spare_[counts_[digit(key)]++] = key;
    std::swap(keys_, spare_);
  }
}

void RowSum::write(std::size_t width, std::int64_t* rows, float* values) const {
  const std::uint64_t place_mask = (std::uint64_t{1} << place_bits_) - 1;
  float* target = values - width;
  for (std::size_t i = 0; i < keys_.size(); ++i) {
    const RowTerm& term = terms_[keys_[i] & place_mask];
    if (i > 0 && keys_[i] >> place_bits_ == keys_[i - 1] >> place_bits_) {
      add_scaled(term.factor, term.gradient, width, target);
      continue;
    }
    *rows++ = term.row;
    target += width;
    set_scaled(term.factor, term.gradient, width, target);
  }
}

}  // namespace muster::internal
