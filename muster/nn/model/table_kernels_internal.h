#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

/// Loops over the rows of tables on the CPU. Every operation is rounded alone and the order of sums
/// is that of the batch, so bits depend on neither threads nor processor.
namespace muster::internal {

/// The ids of a batch: row i has ids[splits[i]] up to ids[splits[i + 1]].
struct IdsView {
  const std::int64_t* ids = nullptr;
  /// [rows + 1].
  const std::int64_t* splits = nullptr;
  /// One an id; null where all are 1.
  const float* factors = nullptr;
  std::size_t rows = 0;

  std::size_t count() const { return static_cast<std::size_t>(splits[rows]); }
};

/// The place of the first id that is not in [0, row_count), or the number of ids.
std::size_t find_outside(const IdsView& ids, std::int64_t row_count);

/// out[i] += factor * table[id] for each id of row i, in their order. `out` has rows of `stride`.
void add_table_rows(const IdsView& ids, const float* table, std::size_t width, float* out,
                    std::size_t stride);

/// out[i] += numbers[i] * weights, for numbers [rows, inputs] in rows of `number_stride`, weights
/// [inputs, units] and out [rows, units].
void add_product(const float* numbers, std::size_t number_stride, const float* weights,
                 std::size_t rows, std::size_t inputs, std::size_t units, float* out);

/// weights += transposed(numbers) * gradient, shapes as above.
void add_weight_gradient(const float* numbers, std::size_t number_stride, const float* gradient,
                         std::size_t rows, std::size_t inputs, std::size_t units, float* weights);

/// sums[k] += gradient[i][k], for a gradient [rows, units].
void add_columns(const float* gradient, std::size_t rows, std::size_t units, float* sums);

/// factor * gradient[0 ... width) is to be added to a row of a table's gradient.
struct RowTerm {
  std::int64_t row = 0;
  const float* gradient = nullptr;
  float factor = 1;
};

/// Sums terms by row, rows rising, the terms of a row in their order. The time depends on the
/// number of terms, not on the table. One object is used again and again for the sake of its
/// memory.
class RowSum {
 public:
  /// How many different rows the terms have. The rows are in [0, row_count), `terms` stays valid
  /// until write().
  std::size_t plan(std::span<const RowTerm> terms, std::int64_t row_count);
  /// rows [plan()'s answer], values [the same, width].
  void write(std::size_t width, std::int64_t* rows, float* values) const;

 private:
  void sort(int row_bits);

  std::span<const RowTerm> terms_;
  /// A term's row and, in the lower bits, its place.
  std::vector<std::uint64_t> keys_;
  std::vector<std::uint64_t> spare_;
  std::vector<std::uint32_t> counts_;
  int place_bits_ = 0;
};

}  // namespace muster::internal
