// Crosses of feature columns in an arena.
#include <algorithm>
#include <limits>

#include "muster/base/fingerprint.h"
#include "muster/saved_model/executor/arena_kernels_internal.h"

namespace muster::executor::arena {
namespace {

/// More columns than this are left to the operation's own kernel.
constexpr std::size_t kMostColumns = 8;
/// And more hashes: they take time, not memory.
constexpr std::int64_t kMostHashes = 1 << 16;

/// One column of a cross: fingerprints of strings, or numbers, row after row.
struct CrossColumn {
  const std::uint64_t* values = nullptr;
  std::int64_t count = 0;
  std::int64_t rows = 0;
  /// The places of a sparse column, [count, 2]; null for a dense one, of this many values a row.
  const std::int64_t* places = nullptr;
  std::int64_t width = 0;
  /// The values of the row that is looked at.
  std::int64_t begin = 0;
  std::int64_t end = 0;

  void go_to(std::int64_t row) {
    begin = end;
    if (places == nullptr) {
      end += width;
    } else {
      while (end < count && places[2 * end] == row) ++end;
    }
  }
};

const std::uint64_t* fingerprints(ArenaCall& call, const ArenaValue& from) {
  auto* const to = call.take<std::uint64_t>(from.count);
  if (to == nullptr) return nullptr;
  if (from.type == ArenaType::kStrings) {
    std::transform(from.as<std::string_view>(), from.as<std::string_view>() + from.count, to,
                   [](std::string_view text) { return fingerprint64(text); });
    return to;
  }
  if (!from.is_whole_numbers()) return nullptr;
  for (std::int64_t i = 0; i < from.count; ++i) {
    to[i] = static_cast<std::uint64_t>(from.whole(i));
  }
  return to;
}

/// Whether all places are inside, in the order of their rows.
bool are_in_order(const ArenaValue& places, std::int64_t rows, std::int64_t columns) {
  const auto* const at = places.as<std::int64_t>();
  std::int64_t before = 0;
  for (std::int64_t i = 0; i < places.count; i += 2) {
    if (at[i] < before || at[i] >= rows || at[i + 1] < 0 || at[i + 1] >= columns) return false;
    before = at[i];
  }
  return true;
}

bool read_sparse(ArenaCall& call, std::size_t column, std::size_t columns, CrossColumn& to) {
  const ArenaValue& places = call.in(column);
  const ArenaValue& values = call.in(columns + column);
  const ArenaValue& shape = call.in(2 * columns + column);
  if (places.type != ArenaType::kInt64 || places.rank != 2 || places.sizes[1] != 2 ||
      values.count != places.sizes[0] || !shape.is_whole_numbers() || shape.count != 2) {
    return false;
  }
  // Rows take time, though nothing need be in them.
  if (shape.whole(0) < 0 || shape.whole(0) > kMostHashes ||
      !are_in_order(places, shape.whole(0), shape.whole(1))) {
    return false;
  }
  to = {.values = fingerprints(call, values),
        .count = values.count,
        .rows = shape.whole(0),
        .places = places.as<std::int64_t>()};
  return to.values != nullptr;
}

bool read_dense(ArenaCall& call, std::size_t input, CrossColumn& to) {
  const ArenaValue& values = call.in(input);
  if (values.rank != 2) return false;
  to = {.values = fingerprints(call, values),
        .count = values.count,
        .rows = values.sizes[0],
        .width = values.sizes[1]};
  return to.values != nullptr;
}

/// A SparseCross with a hash.
struct Cross {
  std::size_t sparse = 0;
  std::uint64_t key = 0;
  std::uint64_t buckets = 1;

  bool operator()(ArenaCall& call) const;
  /// The combinations of one row, those of the last column varying fastest; where they end.
  std::int64_t* cross_row(std::span<const CrossColumn> columns, std::int64_t* to) const;
};

/// How many combinations all rows have, and how many the longest; nothing where they are too many.
struct CrossSizes {
  std::int64_t total = 0;
  std::int64_t longest = 0;
};
std::optional<CrossSizes> sizes_of(std::span<const CrossColumn> columns) {
  std::array<CrossColumn, kMostColumns> at;
  std::ranges::copy(columns, at.begin());
  CrossSizes sizes;
  for (std::int64_t row = 0; row < columns[0].rows; ++row) {
    std::int64_t made = 1;
    for (std::size_t i = 0; i < columns.size(); ++i) {
      at[i].go_to(row);
      made *= at[i].end - at[i].begin;
      if (made > kMostHashes) return std::nullopt;
    }
    sizes.longest = std::max(sizes.longest, made);
    sizes.total += made;
    if (sizes.total > kMostHashes) return std::nullopt;
  }
  return sizes;
}

std::int64_t* Cross::cross_row(std::span<const CrossColumn> columns, std::int64_t* to) const {
  std::array<std::int64_t, kMostColumns> chosen{};
  // The hash of the values chosen in the columns before each.
  std::array<std::uint64_t, kMostColumns + 1> hashes{key};
  for (std::size_t i = 0; i < columns.size(); ++i) {
    if (columns[i].begin == columns[i].end) return to;
    chosen[i] = columns[i].begin;
  }
  std::size_t column = 0;
  while (true) {
    for (; column < columns.size(); ++column) {
      hashes[column + 1] =
          concatenate_fingerprints(hashes[column], columns[column].values[chosen[column]]);
    }
    *to++ = static_cast<std::int64_t>(hashes[column] % buckets);
    while (column > 0 && ++chosen[column - 1] == columns[column - 1].end) {
      --column;
      chosen[column] = columns[column].begin;
    }
    if (column == 0) return to;
    --column;
  }
}

bool Cross::operator()(ArenaCall& call) const {
  if (call.size() < 3 * sparse) return false;
  const std::size_t count = sparse + call.size() - 3 * sparse;
  if (count == 0 || count > kMostColumns) return false;
  std::array<CrossColumn, kMostColumns> all;
  for (std::size_t i = 0; i < count; ++i) {
    const bool read = i < sparse ? read_sparse(call, i, sparse, all[i])
                                 : read_dense(call, 2 * sparse + i, all[i]);
    if (!read || all[i].rows != all[0].rows) return false;
  }
  const std::span<CrossColumn> columns(all.data(), count);
  const auto sizes = sizes_of(columns);
  if (!sizes) return false;
  using Shape = std::array<std::int64_t, 2>;
  auto* places = call.make<std::int64_t>(ArenaType::kInt64, Shape{sizes->total, 2}, 0);
  auto* values =
      call.make<std::int64_t>(ArenaType::kInt64, std::array<std::int64_t, 1>{sizes->total}, 1);
  auto* shape = call.make<std::int64_t>(ArenaType::kInt64, std::array<std::int64_t, 1>{2}, 2);
  if (places == nullptr || values == nullptr || shape == nullptr) return false;
  for (std::int64_t row = 0; row < all[0].rows; ++row) {
    for (CrossColumn& column : columns) column.go_to(row);
    const std::int64_t* const end = cross_row(columns, values);
    for (std::int64_t i = 0; values < end; ++values, ++i) {
      *places++ = row;
      *places++ = i;
    }
  }
  shape[0] = all[0].rows;
  shape[1] = sizes->longest;
  return true;
}

ArenaOp sparse_cross(const ArenaNode& of) {
  const auto& node = *of.node;
  const auto count = graph::attr<std::int64_t>(node, "N");
  const auto buckets = graph::attr<std::int64_t>(node, "num_buckets");
  if (count < 0 || buckets < 0 || !graph::attr<bool>(node, "hashed_output")) return {};
  return {Cross{.sparse = static_cast<std::size_t>(count),
                .key = static_cast<std::uint64_t>(graph::attr<std::int64_t>(node, "hash_key")),
                .buckets = static_cast<std::uint64_t>(
                    buckets == 0 ? std::numeric_limits<std::int64_t>::max() : buckets)},
          /*outputs=*/3};
}

}  // namespace

ArenaFactories cross_ops() {
  using Op = ArenaEntry;
  static constexpr std::array kOps{Op{"SparseCross", 1, sparse_cross}};
  return kOps;
}

}  // namespace muster::executor::arena
