#include <array>

#include "muster/export/translation_internal.h"

namespace muster::exporting {
namespace {

using graph::DataType;
using graph::TensorValue;

// The numbers of each row's ids, added up.
std::string sum_by_row(Call& call, const std::string& numbers, const std::string& rows) {
  return call.to.add(
      "UnsortedSegmentSum", "UnsortedSegmentSum", {numbers, rows, call.to.builder().batch_size()},
      {{"T", call.type()}, {"Tindices", DataType::kInt32}, {"Tnumsegments", DataType::kInt32}});
}

std::string as_column(Call& call, const std::string& vector) {
  return call.to.add("ExpandDims", "ExpandDims", {vector, call.to.builder().int_scalar(1)},
                     {{"T", call.type()}, {"Tdim", DataType::kInt32}});
}

std::string binary(Call& call, const char* op, const std::string& a, const std::string& b) {
  return call.to.add(op, op, {a, b}, {{"T", call.type()}});
}

// Rows longer than the limit are scaled down to it.
std::string with_limited_norms(Call& call, const std::string& rows, double max_norm) {
  const auto squares = call.to.add("Square", "Square", {rows}, {{"T", call.type()}});
  const auto sum =
      call.to.add("Sum", "Sum", {squares, call.to.ints({1})},
                  {{"T", call.type()}, {"Tidx", DataType::kInt32}, {"keep_dims", true}});
  const auto norm = call.to.add("Sqrt", "Sqrt", {sum}, {{"T", call.type()}});
  const auto limit = call.to.constant(TensorValue::scalar(static_cast<float>(max_norm)));
  const auto scale = binary(call, "RealDiv", limit, binary(call, "Maximum", norm, limit));
  return binary(call, "Mul", rows, scale);
}

// With weights, or rows that are shortened: what TensorFlow's embedding_lookup_sparse writes.
void weighted_lookup(Call& call, const ColumnNodes& ids, const std::string& combiner) {
  auto rows = call.to.add("GatherV2", "GatherV2",
                          {call.tensor(0), ids.ids, call.to.builder().int_scalar(0)},
                          {{"Tparams", call.type()},
                           {"Tindices", DataType::kInt64},
                           {"Taxis", DataType::kInt32},
                           {"batch_dims", 0}});
  if (!call.is_none(5)) rows = with_limited_norms(call, rows, call.number(5));
  std::string weights = ids.weights;
  const bool mean = combiner != "sum";
  if (mean && weights.empty()) {
    const auto ones = call.to.add("OnesLike", "OnesLike", {ids.ids}, {{"T", DataType::kInt64}});
    weights = call.to.cast(ones, DataType::kInt64, call.type());
  } else if (mean) {
    weights = binary(call, "Maximum", weights, call.to.constant(TensorValue::scalar(0.0F)));
  }
  if (!weights.empty()) rows = binary(call, "Mul", rows, as_column(call, weights));
  const auto sums = sum_by_row(call, rows, ids.rows);
  if (!mean) return call.give(sums);
  auto terms = weights;
  if (combiner == "sqrtn") {
    terms = call.to.add("Square", "Square", {weights}, {{"T", call.type()}});
  }
  auto divisor = sum_by_row(call, terms, ids.rows);
  if (combiner == "sqrtn") {
    divisor = call.to.add("Sqrt", "Sqrt", {divisor}, {{"T", call.type()}});
  }
  call.give(binary(call, "DivNoNan", sums, as_column(call, divisor)));
}

// lookup(table, ids, row_splits, weights, combiner, max_norm)
void lookup(Call& call) {
  const ColumnNodes& ids = call.to.ids(call.id(1));
  const std::string combiner = call.text(4);
  if (!ids.weights.empty() || !call.is_none(5)) return weighted_lookup(call, ids, combiner);
  const char* op = combiner == "sum"    ? "SparseSegmentSumWithNumSegments"
                   : combiner == "mean" ? "SparseSegmentMeanWithNumSegments"
                                        : "SparseSegmentSqrtNWithNumSegments";
  call.give(call.to.add(
      "lookup", op, {call.tensor(0), ids.ids, ids.rows, call.to.builder().batch_size()},
      {{"T", call.type()}, {"Tidx", DataType::kInt64}, {"Tnumsegments", DataType::kInt32}}));
}

constexpr std::array kColumnsTranslations{
    OpTranslation{"muster::lookup",
                  "SparseSegmentSumWithNumSegments and its siblings, or GatherV2, Mul, "
                  "UnsortedSegmentSum, DivNoNan",
                  lookup},
};

}  // namespace

std::span<const OpTranslation> column_translations() { return kColumnsTranslations; }

}  // namespace muster::exporting
