// Sparse tensors in an arena, as TensorFlow's own feature columns handle them.
#include <algorithm>
#include <cstring>

#include "muster/saved_model/executor/arena_kernels_internal.h"

namespace muster::executor::arena {
namespace {

/// Sizes may be anything: what has more elements than this is left to the operation's own kernel.
constexpr std::int64_t kMostElements = std::int64_t{1} << 40;

/// The shape of a sparse tensor, and its places, which are inside of it.
struct SparsePlaces {
  Axes sizes{};
  std::size_t rank = 0;
  std::int64_t elements = 1;
  const std::int64_t* places = nullptr;
  std::int64_t count = 0;
};

/// How many elements these sizes have; nothing where one is negative or they are too many.
std::optional<std::int64_t> elements_of(std::span<const std::int64_t> sizes) {
  std::int64_t elements = 1;
  for (const std::int64_t size : sizes) {
    if (size < 0 || size > kMostElements) return std::nullopt;
    if (size != 0 && elements > kMostElements / size) return std::nullopt;
    elements *= size;
  }
  return elements;
}

std::optional<SparsePlaces> read_places(const ArenaValue& places, const ArenaValue& shape) {
  SparsePlaces made;
  if (shape.rank != 1 || !read_shape(shape, made.sizes) || places.type != ArenaType::kInt64 ||
      places.rank != 2) {
    return std::nullopt;
  }
  made.rank = static_cast<std::size_t>(shape.count);
  const auto elements = elements_of({made.sizes.data(), made.rank});
  if (made.rank == 0 || places.sizes[1] != shape.count || !elements) return std::nullopt;
  made.elements = *elements;
  made.places = places.as<std::int64_t>();
  made.count = places.sizes[0];
  for (std::int64_t i = 0; i < made.count; ++i) {
    for (std::size_t axis = 0; axis < made.rank; ++axis) {
      const std::int64_t at = made.places[i * shape.count + static_cast<std::int64_t>(axis)];
      if (at < 0 || at >= made.sizes[axis]) return std::nullopt;
    }
  }
  return made;
}

/// Where a place is among all elements.
std::int64_t flat_place(const SparsePlaces& of, std::int64_t i) {
  std::int64_t flat = 0;
  for (std::size_t axis = 0; axis < of.rank; ++axis) {
    flat = flat * of.sizes[axis] +
           of.places[i * static_cast<std::int64_t>(of.rank) + static_cast<std::int64_t>(axis)];
  }
  return flat;
}

/// Puts in the size that is left open (-1). False where the shape does not have as many elements.
bool infer(std::int64_t elements, std::span<std::int64_t> sizes) {
  if (const auto open = std::ranges::find(sizes, -1); open != sizes.end()) {
    *open = 1;
    const auto known = elements_of(sizes);
    if (!known) return false;
    *open = *known > 0 ? elements / *known : 0;
  }
  return elements_of(sizes) == elements;
}

ArenaOp sparse_reshape(const ArenaNode&) {
  return {[](ArenaCall& call) {
            const auto from = read_places(call.in(0), call.in(1));
            Axes sizes{};
            if (!from || call.in(2).rank != 1 || !read_shape(call.in(2), sizes)) return false;
            const std::span<std::int64_t> to(sizes.data(),
                                             static_cast<std::size_t>(call.in(2).count));
            if (!infer(from->elements, to)) return false;
            const auto rank = static_cast<std::int64_t>(to.size());
            auto* const places = call.make<std::int64_t>(
                ArenaType::kInt64, std::array<std::int64_t, 2>{from->count, rank}, 0);
            auto* const shape =
                call.make<std::int64_t>(ArenaType::kInt64, std::array<std::int64_t, 1>{rank}, 1);
            if (places == nullptr || shape == nullptr) return false;
            for (std::int64_t i = 0; i < from->count; ++i) {
              std::int64_t flat = flat_place(*from, i);
              for (std::size_t axis = to.size(); axis-- > 0;) {
                places[i * rank + static_cast<std::int64_t>(axis)] = flat % to[axis];
                flat /= to[axis];
              }
            }
            std::ranges::copy(to, shape);
            return true;
          },
          /*outputs=*/2};
}

/// The outputs of a SparseFillEmptyRows, of which the first two are longer than the inputs.
struct FilledRows {
  std::int64_t* places;
  char* values;
  bool* is_empty;
  std::int64_t* reverse;
};

std::optional<FilledRows> make_filled(ArenaCall& call, const SparsePlaces& from,
                                      std::int64_t filled, ArenaType type) {
  using One = std::array<std::int64_t, 1>;
  const auto rank = static_cast<std::int64_t>(from.rank);
  const FilledRows made{
      call.make<std::int64_t>(ArenaType::kInt64, std::array<std::int64_t, 2>{filled, rank}, 0),
      call.make<char>(type, One{filled}, 1),
      call.make<bool>(ArenaType::kBool, One{from.sizes[0]}, 2),
      call.make<std::int64_t>(ArenaType::kInt64, One{from.count}, 3)};
  if (made.places == nullptr || made.values == nullptr || made.is_empty == nullptr ||
      made.reverse == nullptr) {
    return std::nullopt;
  }
  return made;
}

/// How many rows have nothing; nothing where the places are not in the order of their rows.
std::optional<std::int64_t> count_empty(const SparsePlaces& from) {
  std::int64_t with_values = 0;
  std::int64_t before = -1;
  for (std::int64_t i = 0; i < from.count; ++i) {
    const std::int64_t row = from.places[i * static_cast<std::int64_t>(from.rank)];
    if (row < before) return std::nullopt;
    with_values += row != before ? 1 : 0;
    before = row;
  }
  return from.sizes[0] - with_values;
}

bool fill_empty_rows(ArenaCall& call) {
  const auto from = read_places(call.in(0), call.in(2));
  const ArenaValue& values = call.in(1);
  const ArenaValue& otherwise = call.in(3);
  if (!from || values.count != from->count || otherwise.count != 1 ||
      otherwise.type != values.type || from->sizes[0] > kMostElements >> 20) {
    return false;
  }
  const auto empty = count_empty(*from);
  if (!empty) return false;
  const auto to = make_filled(call, *from, from->count + *empty, values.type);
  if (!to) return false;
  const std::size_t bytes = size_of(values.type);
  const auto rank = static_cast<std::int64_t>(from->rank);
  std::int64_t next = 0;
  std::int64_t made = 0;
  for (std::int64_t row = 0; row < from->sizes[0]; ++row) {
    to->is_empty[row] = next == from->count || from->places[next * rank] != row;
    if (to->is_empty[row]) {
      std::fill_n(to->places + made * rank, rank, 0);
      to->places[made * rank] = row;
      std::memcpy(to->values + static_cast<std::size_t>(made++) * bytes, otherwise.data, bytes);
    }
    for (; next < from->count && from->places[next * rank] == row; ++next, ++made) {
      std::copy_n(from->places + next * rank, rank, to->places + made * rank);
      std::memcpy(to->values + static_cast<std::size_t>(made) * bytes,
                  values.as<char>() + static_cast<std::size_t>(next) * bytes, bytes);
      to->reverse[next] = made;
    }
  }
  return true;
}

ArenaOp fill_empty_rows(const ArenaNode&) {
  return {[](ArenaCall& call) { return fill_empty_rows(call); }, /*outputs=*/4};
}

ArenaOp sparse_to_dense(const ArenaNode&) {
  return {[](ArenaCall& call) {
    const auto from = read_places(call.in(0), call.in(1));
    const ArenaValue& values = call.in(2);
    const ArenaValue& otherwise = call.in(3);
    if (!from || (values.count != from->count && values.count != 1) || otherwise.count != 1 ||
        otherwise.type != values.type) {
      return false;
    }
    auto* const to = call.make<char>(values.type, {from->sizes.data(), from->rank});
    if (to == nullptr) return false;
    const std::size_t bytes = size_of(values.type);
    for (std::int64_t i = 0; i < call.out().count; ++i) {
      std::memcpy(to + static_cast<std::size_t>(i) * bytes, otherwise.data, bytes);
    }
    std::int64_t before = -1;
    for (std::int64_t i = 0; i < from->count; ++i) {
      const std::int64_t flat = flat_place(*from, i);
      // Which of two values for one place counts is not said here.
      if (flat <= before) return false;
      before = flat;
      const auto source = static_cast<std::size_t>(values.count == 1 ? 0 : i);
      std::memcpy(to + static_cast<std::size_t>(flat) * bytes, values.as<char>() + source * bytes,
                  bytes);
    }
    return true;
  }};
}

/// Numbers the different values in the order in which they first occur; false where they are many.
template <typename T, typename Index>
bool number_values(ArenaCall& call, Index* numbers) {
  constexpr std::int64_t kMostCompared = 256;
  const ArenaValue& in = call.in(0);
  T* const firsts = call.take<T>(in.count);
  if (firsts == nullptr || in.count > kMostCompared) return false;
  std::int64_t found = 0;
  for (std::int64_t i = 0; i < in.count; ++i) {
    const T value = in.as<T>()[i];
    T* const place = std::find(firsts, firsts + found, value);
    numbers[i] = static_cast<Index>(place - firsts);
    if (place == firsts + found) firsts[found++] = value;
  }
  ArenaValue& made = call.out(0);
  if (!made.set_shape(std::array<std::int64_t, 1>{found})) return false;
  made.type = in.type;
  made.data = firsts;
  return true;
}

template <typename T>
bool unique(ArenaCall& call, ArenaType numbers) {
  const std::array<std::int64_t, 1> shape{call.in(0).count};
  if (numbers == ArenaType::kInt64) {
    auto* const to = call.make<std::int64_t>(numbers, shape, 1);
    return to != nullptr && number_values<T>(call, to);
  }
  auto* const to = call.make<std::int32_t>(numbers, shape, 1);
  return to != nullptr && number_values<T>(call, to);
}

ArenaOp unique(const ArenaNode& of) {
  using graph::DataType;
  const auto wanted = graph::attr_or<DataType>(*of.node, "out_idx", DataType::kInt32);
  if (wanted != DataType::kInt32 && wanted != DataType::kInt64) return {};
  const auto numbers = wanted == DataType::kInt64 ? ArenaType::kInt64 : ArenaType::kInt32;
  return {[numbers](ArenaCall& call) {
            const ArenaType type = call.in(0).type;
            if (type == ArenaType::kInt64) return unique<std::int64_t>(call, numbers);
            return type == ArenaType::kInt32 && unique<std::int32_t>(call, numbers);
          },
          /*outputs=*/2};
}

}  // namespace

ArenaFactories sparse_ops() {
  using Op = ArenaEntry;
  static constexpr std::array kOps{
      Op{"SparseFillEmptyRows", 4, fill_empty_rows},
      Op{"SparseReshape", 3, sparse_reshape},
      Op{"SparseToDense", 4, sparse_to_dense},
      Op{"Unique", 1, unique},
  };
  return kOps;
}

}  // namespace muster::executor::arena
