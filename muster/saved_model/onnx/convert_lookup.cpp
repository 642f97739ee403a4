#include <array>
#include <limits>

#include "muster/saved_model/onnx/conversion_internal.h"

// Rows of a table, combined for each example: what embedding and linear columns do with ids.
namespace muster::onnx {
namespace {

using graph::TensorValue;

/// Where rows go: the number of each one's segment, and how many segments there are.
struct Segments {
  /// [n, 1]
  std::string numbers;
  /// [1]
  std::string count;
};

Segments segments(Call& call, std::size_t numbers, std::size_t count) {
  const auto one = call.to.ints({1});
  const auto zero = call.to.ints({0});
  return {.numbers = call.add("Unsqueeze", {call.to.get_wide(call.tensor(numbers)), one}),
          .count = call.add("Unsqueeze", {call.to.get_wide(call.tensor(count)), zero})};
}

std::string zero_of(Call& call) {
  call.require(call.type() == graph::DataType::kFloat, "only tables of float are converted");
  return call.to.constant(TensorValue::scalar(0.0F));
}

// The sums of `rows` in each segment. `like` has the axes of a row after its first.
std::string summed(Call& call, const std::string& rows, const std::string& like,
                   const Segments& into) {
  const std::int64_t end = std::numeric_limits<std::int32_t>::max();
  const auto sizes = call.add("Shape", {like});
  const auto row = call.add("Slice", {sizes, call.to.ints({1}), call.to.ints({end})});
  const auto shape = call.add("Concat", {into.count, row}, {{"axis", std::int64_t{0}}});
  const auto start = call.add("Expand", {zero_of(call), shape});
  return call.add("ScatterND", {start, into.numbers, rows}, {{"reduction", std::string("add")}});
}

// How many rows each segment has, at least 1: [segments, 1, ...] of the table's rank.
std::string counts(Call& call, const Segments& into, std::size_t rank) {
  const auto one = call.to.constant(TensorValue::scalar(1.0F));
  const auto shape = call.add("Shape", {into.numbers});
  const auto each = call.add("Expand", {one, shape});  // [n, 1]
  const auto width = call.to.ints({1});
  const auto sizes = call.add("Concat", {into.count, width}, {{"axis", std::int64_t{0}}});
  const auto start = call.add("Expand", {zero_of(call), sizes});
  auto found =
      call.add("ScatterND", {start, into.numbers, each}, {{"reduction", std::string("add")}});
  std::vector<std::int64_t> axes;
  for (std::size_t i = 2; i < rank; ++i) axes.push_back(static_cast<std::int64_t>(i));
  if (!axes.empty()) found = call.add("Unsqueeze", {found, call.to.ints(axes)});
  return call.add("Max", {found, one});
}

enum class Combiner { kSum, kMean, kSqrtN };

// (table, ids [n], segments [n], number of segments)
template <Combiner kCombiner>
void sparse_segment(Call& call) {
  const auto rank = call.held(0).rank;
  call.require(rank && *rank >= 1, "the rank of its table is unknown");
  const auto table = call.input(0);
  const auto into = segments(call, 2, 3);
  const auto rows = call.add("Gather", {table, call.input(1)}, {{"axis", std::int64_t{0}}});
  auto result = summed(call, rows, table, into);
  if constexpr (kCombiner != Combiner::kSum) {
    call.require(*rank >= 2, "a table without columns is not converted");
    auto divisor = counts(call, into, *rank);
    if constexpr (kCombiner == Combiner::kSqrtN) divisor = call.add("Sqrt", {divisor});
    result = call.last("Div", {result, divisor});
  }
  call.give(result, call.type(), rank);
}

// (rows, segments [n], number of segments)
void unsorted_segment_sum(Call& call) {
  call.require(call.held(1).rank == std::size_t{1}, "its segments must be a vector");
  const auto rank = call.held(0).rank;
  const auto rows = call.input(0);
  call.give(summed(call, rows, rows, segments(call, 1, 2)), call.type(), rank);
}

// (indices, updates, shape)
void scatter_nd(Call& call) {
  const auto start = call.add("Expand", {zero_of(call), call.to.get_wide(call.tensor(2))});
  call.give(call.last("ScatterND", {start, call.to.get_wide(call.tensor(0)), call.input(1)},
                      {{"reduction", std::string("add")}}),
            call.type());
}

constexpr std::array kLookupConversions{
    OpConversion{"ScatterNd", "Expand, ScatterND", scatter_nd},
    OpConversion{"SparseSegmentMeanWithNumSegments", "Gather, ScatterND, Div",
                 sparse_segment<Combiner::kMean>},
    OpConversion{"SparseSegmentSqrtNWithNumSegments", "Gather, ScatterND, Sqrt, Div",
                 sparse_segment<Combiner::kSqrtN>},
    OpConversion{"SparseSegmentSumWithNumSegments", "Gather, ScatterND",
                 sparse_segment<Combiner::kSum>},
    OpConversion{"UnsortedSegmentSum", "ScatterND", unsorted_segment_sum},
};

}  // namespace

std::span<const OpConversion> lookup_conversions() { return kLookupConversions; }

}  // namespace muster::onnx
