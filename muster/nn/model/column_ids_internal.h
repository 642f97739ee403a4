#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "muster/data/features/feature_column.h"
#include "muster/data/features/features.h"
#include "muster/nn/model/table_kernels_internal.h"

namespace muster::internal {

/// The ids of one column as loops read them: contiguous, on the CPU, inside their table.
struct TableIds {
  RaggedColumn ids{};
  /// How much of its table's row each id adds; empty where all are 1.
  std::vector<float> factors{};

  IdsView view() const;
};

/// Throws OutOfRange, naming the column, for an id that its table does not have.
TableIds column_ids(const RaggedColumn& ids, Combiner combiner, std::int64_t row_count,
                    std::string_view column);

/// Zeros [rows, width] on the device of `like`, by operations that a trace replays for any number
/// of rows.
at::Tensor zero_rows(const FeatureValue& piece, std::int64_t width, const at::Tensor& like);

/// The same sums as tensor operations, for other devices, gradients of libtorch's own, and tracing:
/// out [rows, width] and for each id of row i out[i] += factor * table_rows[id's place].
at::Tensor add_by_row(const at::Tensor& out, const RaggedColumn& ids, Combiner combiner,
                      const at::Tensor& table_rows);

/// The rows of a table that the ids name, [ids, width]; gradients come as sparse tensors.
at::Tensor table_rows(const at::Tensor& table, const RaggedColumn& ids);

/// Table rows that the ids of each row name, combined: [rows, width]. A trace records it as one
/// operation, `muster::lookup`, so the number of ids, which follows the data, meets no traced size.
at::Tensor lookup(const at::Tensor& table, const RaggedColumn& ids, Combiner combiner,
                  std::optional<double> max_norm = {});

/// Rows of a table, those longer than `max_norm` scaled down to it.
at::Tensor with_limited_norms(const at::Tensor& rows, double max_norm);

/// Whether a trace is being recorded.
bool is_tracing();
/// Whether a trace is being recorded or tensors are where loops of ours cannot reach.
bool needs_tensor_operations(const at::Tensor& parameter);

}  // namespace muster::internal
