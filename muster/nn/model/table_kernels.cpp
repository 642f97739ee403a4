#include <algorithm>
#include <bit>
#include <utility>

#include "muster/nn/model/table_kernels_internal.h"

namespace muster::internal {
namespace {

constexpr int kMaxDigitBits = 11;
/// The rows of a large table are rarely in the cache: this many ids before its turn one is asked
/// for.
constexpr std::int64_t kIdsAhead = 16;

void add_scaled(float factor, const float* __restrict source, std::size_t width,
                float* __restrict target) {
  for (std::size_t k = 0; k < width; ++k) target[k] += factor * source[k];
}

void set_scaled(float factor, const float* __restrict source, std::size_t width,
                float* __restrict target) {
  if (width == 1) {
    *target = factor * *source;
    return;
  }
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
  const auto row_of = [&](std::int64_t place) {
    return table + static_cast<std::size_t>(ids.ids[place]) * width;
  };
  const std::int64_t count = ids.splits[ids.rows];
  for (std::size_t row = 0; row < ids.rows; ++row, out += stride) {
    for (auto place = ids.splits[row]; place < ids.splits[row + 1]; ++place) {
      if (place + kIdsAhead < count) __builtin_prefetch(row_of(place + kIdsAhead));
      const float factor = ids.factors == nullptr ? 1.0F : ids.factors[place];
      if (width == 1) {
        *out += factor * *row_of(place);
      } else {
        add_scaled(factor, row_of(place), width, out);
      }
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
  const int place_bits = place_bits_ = std::bit_width(terms.size());
  keys_.resize(terms.size());
  std::uint64_t* const keys = keys_.data();
  for (std::size_t i = 0; i < terms.size(); ++i) {
    keys[i] = static_cast<std::uint64_t>(terms[i].row) << place_bits | i;
  }
  sort(std::bit_width(static_cast<std::uint64_t>(row_count)));
  std::size_t unique = keys_.empty() ? 0 : 1;
  for (std::size_t i = 1; i < keys_.size(); ++i) {
    unique += keys_[i] >> place_bits != keys_[i - 1] >> place_bits;
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
  const int place_bits = place_bits_;
  const std::uint64_t place_mask = (std::uint64_t{1} << place_bits) - 1;
  std::uint64_t last = ~std::uint64_t{0};
  float* target = values - width;
  for (const std::uint64_t key : keys_) {
    const RowTerm& term = terms_[key & place_mask];
    const std::uint64_t row = key >> place_bits;
    if (row != last) {
      last = row;
      *rows++ = term.row;
      target += width;
      set_scaled(term.factor, term.gradient, width, target);
    } else if (width == 1) {
      *target += term.factor * *term.gradient;
    } else {
      add_scaled(term.factor, term.gradient, width, target);
    }
  }
}

}  // namespace muster::internal
