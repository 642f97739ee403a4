// Rows of values in an arena by their places: gathers, scatters and sums of rows.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "muster/saved_model/executor/arena_kernels_internal.h"

namespace muster::executor::arena {
namespace {

/// Which rows of a tensor with these first axes the indices name. Null where one is outside.
template <typename Index>
std::int64_t* row_places(ArenaCall& call, const ArenaValue& indices,
                         std::span<const std::int64_t> shape) {
  const std::int64_t count = indices.count / static_cast<std::int64_t>(shape.size());
  auto* const places = call.take<std::int64_t>(count);
  if (places == nullptr) return nullptr;
  const Index* next = indices.as<Index>();
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t place = 0;
    for (const std::int64_t size : shape) {
      const auto index = static_cast<std::int64_t>(*next++);
      if (index < 0 || index >= size) return nullptr;
      place = place * size + index;
    }
    places[i] = place;
  }
  return places;
}

std::int64_t* row_places(ArenaCall& call, const ArenaValue& indices,
                         std::span<const std::int64_t> shape) {
  if (indices.type == ArenaType::kInt64) return row_places<std::int64_t>(call, indices, shape);
  if (indices.type == ArenaType::kInt32) return row_places<std::int32_t>(call, indices, shape);
  return nullptr;
}

template <std::size_t kBytes>
void copy_elements(const char* from, const std::int64_t* places, std::int64_t count, char* to) {
  for (std::int64_t i = 0; i < count; ++i, to += kBytes) {
    std::memcpy(to, from + places[i] * static_cast<std::int64_t>(kBytes), kBytes);
  }
}

void copy_rows(const char* from, const std::int64_t* places, std::int64_t count, std::size_t bytes,
               char* to) {
  if (bytes == 4) return copy_elements<4>(from, places, count, to);
  if (bytes == 8) return copy_elements<8>(from, places, count, to);
  if (bytes == 16) return copy_elements<16>(from, places, count, to);
  if (bytes == 0) return;
  for (std::int64_t i = 0; i < count; ++i, to += bytes) {
    std::memcpy(to, from + static_cast<std::size_t>(places[i]) * bytes, bytes);
  }
}

std::int64_t product(std::span<const std::int64_t> sizes) {
  std::int64_t all = 1;
  for (const std::int64_t size : sizes) all *= size;
  return all;
}

/// The shape of what is gathered: that of the indices, then what is left of the tensor.
std::optional<std::size_t> join_shapes(std::span<const std::int64_t> indices,
                                       std::span<const std::int64_t> rest, Axes& shape) {
  if (indices.size() + rest.size() > shape.size()) return std::nullopt;
  std::ranges::copy(rest, std::ranges::copy(indices, shape.begin()).out);
  return indices.size() + rest.size();
}

/// Rows of the first input, by places in its first axes.
bool gather_rows(ArenaCall& call, std::size_t depth, const ArenaValue& indices,
                 std::span<const std::int64_t> outer) {
  const ArenaValue& from = call.in(0);
  const auto rest = from.shape().subspan(depth);
  Axes shape{};
  const auto rank = join_shapes(outer, rest, shape);
  if (!rank) return false;
  const std::int64_t* const places = row_places(call, indices, from.shape().first(depth));
  if (places == nullptr) return false;
  void* const to = call.make(from.type, {shape.data(), *rank});
  if (to == nullptr) return false;
  const std::int64_t count = indices.count / static_cast<std::int64_t>(depth);
  copy_rows(from.as<char>(), places, count,
            static_cast<std::size_t>(product(rest)) * size_of(from.type), static_cast<char*>(to));
  return true;
}

ArenaOp gather_nd(const ArenaNode&) {
  return {[](ArenaCall& call) {
    const ArenaValue& indices = call.in(1);
    if (indices.rank == 0) return false;
    const auto depth = static_cast<std::size_t>(indices.sizes[indices.rank - 1U]);
    if (depth == 0 || depth > call.in(0).rank) return false;
    return gather_rows(call, depth, indices, indices.shape().first(indices.rank - 1U));
  }};
}

ArenaOp gather(const ArenaNode& of) {
  if (graph::attr_or<std::int64_t>(*of.node, "batch_dims", 0) != 0) return {};
  return {[](ArenaCall& call) {
    const bool by_first = call.size() < 3 || (call.in(2).is_whole_numbers() &&
                                              call.in(2).count == 1 && call.in(2).whole(0) == 0);
    return by_first && call.in(0).rank > 0 && gather_rows(call, 1, call.in(1), call.in(1).shape());
  }};
}

/// Calls act(T{}) for numbers that can be added. False for others.
template <typename Act>
bool for_sums(ArenaType type, const Act& act) {
  return for_arena_type(type, [&](auto kind) {
    using T = decltype(kind);
    if constexpr (std::is_arithmetic_v<T> && !std::is_same_v<T, bool>) {
      act(kind);
      return true;
    } else {
      return false;
    }
  });
}

/// Whole numbers wrap around.
template <typename T>
T sum(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    using Wide = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<Wide>(a) + static_cast<Wide>(b));
  } else {
    return a + b;
  }
}

template <typename T>
void add_row(const T* from, std::int64_t columns, T* to) {
  for (std::int64_t i = 0; i < columns; ++i) to[i] = sum(to[i], from[i]);
}

ArenaOp scatter_nd(const ArenaNode&) {
  return {[](ArenaCall& call) {
    const ArenaValue& indices = call.in(0);
    const ArenaValue& updates = call.in(1);
    const ArenaValue& wanted = call.in(2);
    Axes sizes{};
    if (indices.rank == 0 || !read_shape(wanted, sizes)) return false;
    const auto depth = static_cast<std::size_t>(indices.sizes[indices.rank - 1U]);
    const auto rank = static_cast<std::size_t>(wanted.count);
    if (depth == 0 || depth > rank) return false;
    void* const to = call.make(updates.type, {sizes.data(), rank});
    if (to == nullptr) return false;
    const std::int64_t columns = product({sizes.data() + depth, rank - depth});
    const std::int64_t rows = indices.count / static_cast<std::int64_t>(depth);
    if (updates.count != rows * columns) return false;
    const std::int64_t* const places = row_places(call, indices, {sizes.data(), depth});
    if (places == nullptr) return false;
    return for_sums(updates.type, [&](auto kind) {
      using T = decltype(kind);
      auto* const target = static_cast<T*>(to);
      std::fill_n(target, call.out().count, T{});
      for (std::int64_t i = 0; i < rows; ++i) {
        add_row(updates.as<T>() + i * columns, columns, target + places[i] * columns);
      }
    });
  }};
}

enum class Combiner { kSum, kMean, kSqrtN };

/// Divides the sum of each segment by the number of its rows, or the root of that.
void divide_rows(const ArenaValue& segments, std::int64_t columns, Combiner combiner, float* to) {
  for (std::int64_t i = 0; i < segments.count;) {
    const std::int64_t row = segments.whole(i);
    double terms = 0;
    for (; i < segments.count && segments.whole(i) == row; ++i) ++terms;
    const auto divisor = static_cast<float>(combiner == Combiner::kMean ? terms : std::sqrt(terms));
    for (std::int64_t k = 0; k < columns; ++k) to[row * columns + k] /= divisor;
  }
}

/// Whether each index is a row and the segments do not fall, and are in [0, rows).
bool are_segments(const ArenaValue& indices, std::int64_t size, const ArenaValue& segments,
                  std::int64_t rows) {
  std::int64_t before = 0;
  for (std::int64_t i = 0; i < indices.count; ++i) {
    const std::int64_t index = indices.whole(i);
    const std::int64_t segment = segments.whole(i);
    if (index < 0 || index >= size || segment < before || segment >= rows) return false;
    before = segment;
  }
  return true;
}

bool sum_segments(ArenaCall& call, Combiner combiner) {
  const ArenaValue& data = call.in(0);
  const ArenaValue& indices = call.in(1);
  const ArenaValue& segments = call.in(2);
  if (data.rank == 0 || !indices.is_whole_numbers() || !segments.is_whole_numbers() ||
      indices.count != segments.count ||
      (combiner != Combiner::kSum && data.type != ArenaType::kFloat)) {
    return false;
  }
  const std::int64_t last = segments.count == 0 ? -1 : segments.whole(segments.count - 1);
  if (last > static_cast<std::int64_t>(Arena::kMostBytes)) return false;
  std::int64_t rows = last + 1;
  if (call.size() > 3) {
    if (!call.in(3).is_whole_numbers() || call.in(3).count != 1) return false;
    rows = call.in(3).whole(0);
  }
  if (!are_segments(indices, data.sizes[0], segments, rows)) return false;
  Axes sizes = data.sizes;
  sizes[0] = rows;
  void* const to = call.make(data.type, {sizes.data(), data.rank});
  if (to == nullptr) return false;
  const std::int64_t columns = product(data.shape().subspan(1));
  return for_sums(data.type, [&](auto kind) {
    using T = decltype(kind);
    auto* const target = static_cast<T*>(to);
    std::fill_n(target, call.out().count, T{});
    for (std::int64_t i = 0; i < indices.count; ++i) {
      add_row(data.as<T>() + indices.whole(i) * columns, columns,
              target + segments.whole(i) * columns);
    }
    if constexpr (std::is_same_v<T, float>) {
      if (combiner != Combiner::kSum) divide_rows(segments, columns, combiner, target);
    }
  });
}

template <Combiner kCombiner>
ArenaOp segments(const ArenaNode&) {
  return {[](ArenaCall& call) { return sum_segments(call, kCombiner); }};
}

ArenaOp unsorted_segment_sum(const ArenaNode&) {
  return {[](ArenaCall& call) {
    const ArenaValue& data = call.in(0);
    const ArenaValue& segments = call.in(1);
    const ArenaValue& wanted = call.in(2);
    if (data.rank == 0 || !segments.is_whole_numbers() || data.sizes[0] != segments.count ||
        !wanted.is_whole_numbers() || wanted.count != 1) {
      return false;
    }
    const std::int64_t rows = wanted.whole(0);
    Axes sizes = data.sizes;
    sizes[0] = rows;
    void* const to = call.make(data.type, {sizes.data(), data.rank});
    if (to == nullptr) return false;
    for (std::int64_t i = 0; i < segments.count; ++i) {
      if (segments.whole(i) >= rows) return false;
    }
    const std::int64_t columns = product(data.shape().subspan(1));
    return for_sums(data.type, [&](auto kind) {
      using T = decltype(kind);
      auto* const target = static_cast<T*>(to);
      std::fill_n(target, call.out().count, T{});
      for (std::int64_t i = 0; i < segments.count; ++i) {
        const std::int64_t row = segments.whole(i);
        if (row >= 0) add_row(data.as<T>() + i * columns, columns, target + row * columns);
      }
    });
  }};
}

}  // namespace

ArenaFactories gather_ops() {
  using Op = ArenaEntry;
  static constexpr std::array kOps{
      Op{"Gather", 2, gather},
      Op{"GatherNd", 2, gather_nd},
      Op{"GatherV2", 2, gather},
      Op{"ScatterNd", 3, scatter_nd},
      Op{"SparseSegmentMean", 3, segments<Combiner::kMean>},
      Op{"SparseSegmentMeanWithNumSegments", 4, segments<Combiner::kMean>},
      Op{"SparseSegmentSqrtN", 3, segments<Combiner::kSqrtN>},
      Op{"SparseSegmentSqrtNWithNumSegments", 4, segments<Combiner::kSqrtN>},
      Op{"SparseSegmentSum", 3, segments<Combiner::kSum>},
      Op{"SparseSegmentSumWithNumSegments", 4, segments<Combiner::kSum>},
      Op{"UnsortedSegmentSum", 3, unsorted_segment_sum},
  };
  return kOps;
}

}  // namespace muster::executor::arena
