// Shapes, slices and joins of values in an arena.
#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "muster/saved_model/executor/arena_kernels_internal.h"

namespace muster::executor::arena {
namespace {

using graph::DataType;

/// An axis counted from the front; nothing where there is none.
std::optional<std::size_t> axis_of(std::int64_t axis, std::size_t rank) {
  const auto axes = static_cast<std::int64_t>(rank);
  if (axis < -axes || axis >= axes) return std::nullopt;
  return static_cast<std::size_t>(axis < 0 ? axis + axes : axis);
}

std::optional<std::size_t> axis_of(const ArenaValue& axis, std::size_t rank) {
  if (!axis.is_whole_numbers() || axis.count != 1) return std::nullopt;
  return axis_of(axis.whole(0), rank);
}

ArenaOp shape(const ArenaNode& of) {
  const auto wanted = graph::attr_or<DataType>(*of.node, "out_type", DataType::kInt32);
  const bool wide = wanted == DataType::kInt64;
  if (!wide && wanted != DataType::kInt32) return {};
  return {[wide](ArenaCall& call) {
    const ArenaValue& in = call.in(0);
    const std::array<std::int64_t, 1> sizes{in.rank};
    const auto write = [&](auto* to) {
      if (to == nullptr) return false;
      for (std::size_t i = 0; i < in.rank; ++i) {
        to[i] = static_cast<std::remove_reference_t<decltype(*to)>>(in.sizes[i]);
      }
      return true;
    };
    return wide ? write(call.make<std::int64_t>(ArenaType::kInt64, sizes))
                : write(call.make<std::int32_t>(ArenaType::kInt32, sizes));
  }};
}

ArenaOp expand_dims(const ArenaNode&) {
  return {[](ArenaCall& call) {
    const ArenaValue& in = call.in(0);
    const auto axis = axis_of(call.in(1), in.rank + 1U);
    if (!axis || in.rank == ArenaValue::kMostAxes) return false;
    Axes sizes = in.sizes;
    std::copy_backward(sizes.begin() + static_cast<std::ptrdiff_t>(*axis), sizes.end() - 1,
                       sizes.end());
    sizes[*axis] = 1;
    return call.pass_in_shape({sizes.data(), in.rank + 1U});
  }};
}

ArenaOp reshape(const ArenaNode&) {
  return {[](ArenaCall& call) {
    const ArenaValue& in = call.in(0);
    Axes sizes{};
    if (!read_shape(call.in(1), sizes)) return false;
    const std::span<std::int64_t> shape(sizes.data(), static_cast<std::size_t>(call.in(1).count));
    const auto open = std::ranges::find(shape, -1);
    if (open == shape.end()) return call.pass_in_shape(shape);
    *open = 1;
    ArenaValue known;
    if (!known.set_shape(shape) || known.count == 0 || in.count % known.count != 0) return false;
    *open = in.count / known.count;
    return call.pass_in_shape(shape);
  }};
}

ArenaOp identity(const ArenaNode&) {
  return {[](ArenaCall& call) { return call.pass_in_shape(call.in(0).shape()); }};
}

/// Copies elements of kBytes that lie as far apart as the strides say, in elements.
template <std::size_t kBytes>
void copy_strided(const char* from, const Axes& sizes, const Axes& strides, char* to) {
  for (std::int64_t a = 0; a < sizes[0]; ++a) {
    for (std::int64_t b = 0; b < sizes[1]; ++b) {
      for (std::int64_t c = 0; c < sizes[2]; ++c) {
        const char* next = from + static_cast<std::int64_t>(kBytes) *
                                      (a * strides[0] + b * strides[1] + c * strides[2]);
        for (std::int64_t d = 0; d < sizes[3]; ++d, to += kBytes) {
          std::memcpy(to, next, kBytes);
          next += static_cast<std::int64_t>(kBytes) * strides[3];
        }
      }
    }
  }
}

/// Some elements of a value by their places: of each of the last axes a size and a stride.
void copy_strided(const ArenaValue& in, std::int64_t first, const Axes& sizes, const Axes& strides,
                  void* to) {
  const std::size_t bytes = size_of(in.type);
  const char* const from = in.as<char>() + first * static_cast<std::int64_t>(bytes);
  auto* const target = static_cast<char*>(to);
  if (bytes == 1) return copy_strided<1>(from, sizes, strides, target);
  if (bytes == 4) return copy_strided<4>(from, sizes, strides, target);
  if (bytes == 8) return copy_strided<8>(from, sizes, strides, target);
  copy_strided<16>(from, sizes, strides, target);
}

/// The masks of a StridedSlice without ellipsis and new axes.
struct SliceMask {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t shrink = 0;

  static bool has(std::int64_t mask, std::size_t entry) { return ((mask >> entry) & 1) != 0; }
};

/// Part of one axis that a slice takes.
struct AxisPart {
  std::int64_t first = 0;
  std::int64_t step = 1;
  std::int64_t size = 0;
};

std::optional<AxisPart> part_of(const SliceMask& mask, std::size_t entry, std::int64_t size,
                                const ArenaCall& call) {
  const auto at = static_cast<std::int64_t>(entry);
  const std::int64_t begin = call.in(1).whole(at);
  const std::int64_t step = call.in(3).whole(at);
  if (SliceMask::has(mask.shrink, entry)) {
    if (begin < -size || begin >= size) return std::nullopt;
    return AxisPart{.first = begin < 0 ? begin + size : begin, .step = 1, .size = 1};
  }
  if (step <= 0) return std::nullopt;
  const auto bound = [&](std::int64_t value) {
    return std::clamp(value < 0 ? value + size : value, std::int64_t{0}, size);
  };
  const std::int64_t from = SliceMask::has(mask.begin, entry) ? 0 : bound(begin);
  const std::int64_t to = SliceMask::has(mask.end, entry) ? size : bound(call.in(2).whole(at));
  const std::int64_t taken = to <= from ? 0 : (to - from - 1) / step + 1;
  return AxisPart{.first = from, .step = taken > 1 ? step : 1, .size = taken};
}

bool strided_slice(ArenaCall& call, const SliceMask& mask) {
  const ArenaValue& in = call.in(0);
  const auto entries = static_cast<std::size_t>(call.in(1).count);
  for (const std::size_t i : {1U, 2U, 3U}) {
    if (!call.in(i).is_whole_numbers() || call.in(i).count != call.in(1).count) return false;
  }
  if (entries > in.rank) return false;
  Axes sizes{1, 1, 1, 1};
  Axes strides{};
  Axes left{};
  std::size_t axes_left = 0;
  std::int64_t first = 0;
  std::int64_t stride = 1;
  constexpr std::size_t kLast = ArenaValue::kMostAxes - 1;
  for (std::size_t axis = in.rank; axis-- > 0;) {
    std::optional<AxisPart> part = AxisPart{.first = 0, .step = 1, .size = in.sizes[axis]};
    if (axis < entries) part = part_of(mask, axis, in.sizes[axis], call);
    if (!part) return false;
    const std::size_t place = kLast - (in.rank - 1U - axis);
    sizes[place] = part->size;
    strides[place] = stride * part->step;
    first += stride * part->first;
    stride *= in.sizes[axis];
    const bool is_gone = axis < entries && SliceMask::has(mask.shrink, axis);
    if (!is_gone) left[kLast - axes_left++] = part->size;
  }
  void* const to = call.make(in.type, {left.data() + left.size() - axes_left, axes_left});
  if (to == nullptr) return false;
  if (call.out().count > 0) copy_strided(in, first, sizes, strides, to);
  return true;
}

ArenaOp strided_slice(const ArenaNode& of) {
  const auto mask = [&](const char* name) {
    return graph::attr_or<std::int64_t>(*of.node, name, 0);
  };
  if (mask("ellipsis_mask") != 0 || mask("new_axis_mask") != 0) return {};
  const SliceMask masks{
      .begin = mask("begin_mask"), .end = mask("end_mask"), .shrink = mask("shrink_axis_mask")};
  return {[masks](ArenaCall& call) { return strided_slice(call, masks); }};
}

ArenaOp slice(const ArenaNode&) {
  return {[](ArenaCall& call) {
    const ArenaValue& in = call.in(0);
    Axes begin{};
    Axes wanted{};
    if (!read_shape(call.in(1), begin) || !read_shape(call.in(2), wanted) ||
        call.in(1).count != in.rank || call.in(2).count != in.rank) {
      return false;
    }
    Axes sizes{1, 1, 1, 1};
    Axes strides{};
    std::int64_t first = 0;
    std::int64_t stride = 1;
    for (std::size_t axis = in.rank; axis-- > 0;) {
      if (begin[axis] < 0 || begin[axis] > in.sizes[axis]) return false;
      if (wanted[axis] < 0) wanted[axis] = in.sizes[axis] - begin[axis];
      if (wanted[axis] > in.sizes[axis] - begin[axis]) return false;
      const std::size_t place = ArenaValue::kMostAxes - in.rank + axis;
      sizes[place] = wanted[axis];
      strides[place] = stride;
      first += stride * begin[axis];
      stride *= in.sizes[axis];
    }
    void* const to = call.make(in.type, {wanted.data(), in.rank});
    if (to == nullptr) return false;
    if (call.out().count > 0) copy_strided(in, first, sizes, strides, to);
    return true;
  }};
}

ArenaOp squeeze(const ArenaNode& of) {
  auto wanted = graph::attr_or<graph::AttrList>(*of.node, "squeeze_dims", {}).ints;
  if (wanted.empty()) wanted = graph::attr_or<graph::AttrList>(*of.node, "axis", {}).ints;
  return {[wanted](ArenaCall& call) {
    const ArenaValue& in = call.in(0);
    std::array<bool, ArenaValue::kMostAxes> drop{};
    if (wanted.empty()) drop.fill(true);
    for (const auto one : wanted) {
      const auto axis = axis_of(one, in.rank);
      if (!axis || in.sizes[*axis] != 1) return false;
      drop[*axis] = true;
    }
    Axes sizes{};
    std::size_t rank = 0;
    for (std::size_t i = 0; i < in.rank; ++i) {
      if (!drop[i] || in.sizes[i] != 1) sizes[rank++] = in.sizes[i];
    }
    return call.pass_in_shape({sizes.data(), rank});
  }};
}

ArenaOp broadcast_to(const ArenaNode&) {
  return {[](ArenaCall& call) {
    const ArenaValue& in = call.in(0);
    Axes wanted{};
    if (!read_shape(call.in(1), wanted)) return false;
    const auto rank = static_cast<std::size_t>(call.in(1).count);
    if (in.rank > rank) return false;
    Axes sizes{1, 1, 1, 1};
    Axes strides{};
    std::int64_t stride = 1;
    for (std::size_t i = 0; i < rank; ++i) {
      const std::size_t place = ArenaValue::kMostAxes - 1 - i;
      const std::int64_t size = wanted[rank - 1 - i];
      sizes[place] = size;
      if (size < 1) return false;
      if (i >= in.rank) continue;
      const std::int64_t given = in.sizes[in.rank - 1 - i];
      if (given != 1 && given != size) return false;
      strides[place] = given == 1 ? 0 : stride;
      stride *= given;
    }
    void* const to = call.make(in.type, {wanted.data(), rank});
    if (to == nullptr) return false;
    copy_strided(in, 0, sizes, strides, to);
    return true;
  }};
}

void copy_piece(char* to, const char* from, std::size_t bytes) {
  // Sizes of the pieces that columns of one number are made of.
  if (bytes == 4) {
    std::memcpy(to, from, 4);
  } else if (bytes == 8) {
    std::memcpy(to, from, 8);
  } else if (bytes > 0) {
    std::memcpy(to, from, bytes);
  }
}

/// The first `parts` inputs one after the other along an axis; `is_new` where none has it yet.
bool join(ArenaCall& call, std::size_t parts, std::size_t axis, bool is_new) {
  const ArenaValue& first = call.in(0);
  std::int64_t length = 0;
  for (std::size_t i = 0; i < parts; ++i) {
    const ArenaValue& part = call.in(i);
    if (part.type != first.type || part.rank != first.rank) return false;
    for (std::size_t k = 0; k < part.rank; ++k) {
      if ((is_new || k != axis) && part.sizes[k] != first.sizes[k]) return false;
    }
    length += is_new ? 1 : part.sizes[axis];
  }
  const std::size_t rank = first.rank + (is_new ? 1U : 0U);
  if (rank > ArenaValue::kMostAxes) return false;
  Axes sizes = first.sizes;
  if (is_new) {
    std::copy_backward(sizes.begin() + static_cast<std::ptrdiff_t>(axis), sizes.end() - 1,
                       sizes.end());
  }
  sizes[axis] = length;
  std::int64_t outer = 1;
  for (std::size_t i = 0; i < axis; ++i) outer *= sizes[i];
  auto* to = static_cast<char*>(call.make(first.type, {sizes.data(), rank}));
  if (to == nullptr) return false;
  std::size_t inner = size_of(first.type);
  for (std::size_t i = axis + 1; i < rank; ++i) inner *= static_cast<std::size_t>(sizes[i]);
  const std::size_t whole = inner * static_cast<std::size_t>(length);
  // Part by part: each is read from its beginning to its end.
  for (std::size_t i = 0; i < parts; ++i) {
    const ArenaValue& part = call.in(i);
    const std::size_t bytes = inner * (is_new ? 1 : static_cast<std::size_t>(part.sizes[axis]));
    const char* from = part.as<char>();
    for (std::int64_t row = 0; row < outer; ++row, from += bytes) {
      copy_piece(to + static_cast<std::size_t>(row) * whole, from, bytes);
    }
    to += bytes;
  }
  return true;
}

ArenaOp pack(const ArenaNode& of) {
  const auto wanted = graph::attr_or<std::int64_t>(*of.node, "axis", 0);
  return {[wanted](ArenaCall& call) {
    if (call.size() == 0) return false;
    const auto axis = axis_of(wanted, call.in(0).rank + 1U);
    return axis && join(call, call.size(), *axis, /*is_new=*/true);
  }};
}

ArenaOp concat(const ArenaNode&) {
  return {[](ArenaCall& call) {
    if (call.size() < 2) return false;
    const auto axis = axis_of(call.in(call.size() - 1), call.in(0).rank);
    return axis && join(call, call.size() - 1, *axis, /*is_new=*/false);
  }};
}

ArenaOp filled_like(int value) {
  return {[value](ArenaCall& call) {
    const ArenaValue& like = call.in(0);
    if (like.type == ArenaType::kStrings) return false;
    void* const to = call.make(like.type, like.shape());
    if (to == nullptr) return false;
    for_arena_type(like.type, [&](auto kind) {
      using T = decltype(kind);
      if constexpr (std::is_arithmetic_v<T>) {
        std::fill_n(static_cast<T*>(to), like.count, static_cast<T>(value));
      }
    });
    return true;
  }};
}

/// The places of what is not 0, row by row.
template <typename T>
bool places_of_true(ArenaCall& call) {
  const ArenaValue& in = call.in(0);
  const T* const data = in.as<T>();
  const std::int64_t found =
      std::count_if(data, data + in.count, [](T value) { return value != T{}; });
  auto* to =
      call.make<std::int64_t>(ArenaType::kInt64, std::array<std::int64_t, 2>{found, in.rank});
  if (to == nullptr) return false;
  for (std::int64_t i = 0; i < in.count; ++i) {
    if (data[i] == T{}) continue;
    std::int64_t rest = i;
    for (std::size_t axis = in.rank; axis-- > 0;) {
      // Most are columns of one element.
      const std::int64_t size = in.sizes[axis];
      to[axis] = size == 1 ? 0 : rest % size;
      rest = size == 1 ? rest : rest / size;
    }
    to += in.rank;
  }
  return true;
}

ArenaOp where(const ArenaNode&) {
  return {[](ArenaCall& call) {
    const ArenaType type = call.in(0).type;
    if (type == ArenaType::kBool) return places_of_true<bool>(call);
    if (type == ArenaType::kFloat) return places_of_true<float>(call);
    return type == ArenaType::kInt64 && places_of_true<std::int64_t>(call);
  }};
}

}  // namespace

ArenaFactories array_ops() {
  using Op = ArenaEntry;
  static constexpr std::array kOps{
      Op{"BroadcastTo", 2, broadcast_to},
      Op{"ConcatV2", 2, concat},
      Op{"ExpandDims", 2, expand_dims},
      Op{"Identity", 1, identity},
      Op{"OnesLike", 1, [](const ArenaNode&) { return filled_like(1); }},
      Op{"Pack", 1, pack},
      Op{"Reshape", 2, reshape},
      Op{"Shape", 1, shape},
      Op{"Slice", 3, slice},
      Op{"Squeeze", 1, squeeze},
      Op{"StridedSlice", 4, strided_slice},
      Op{"Where", 1, where},
      Op{"ZerosLike", 1, [](const ArenaNode&) { return filled_like(0); }},
  };
  return kOps;
}

}  // namespace muster::executor::arena
