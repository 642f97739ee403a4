// Values in an arena that are repeated, chosen among or made of a shape.
#include <algorithm>
#include <cstring>

#include "muster/saved_model/executor/arena_kernels_internal.h"

namespace muster::executor::arena {
namespace {

void copy_element(char* to, const ArenaValue& from, std::int64_t index) {
  const std::size_t bytes = size_of(from.type);
  std::memcpy(to, from.as<char>() + static_cast<std::size_t>(index) * bytes, bytes);
}

/// One of two values for each element, or for each row where `by_row` and the condition is a
/// vector.
bool select(ArenaCall& call, bool by_row) {
  const ArenaValue& condition = call.in(0);
  const ArenaValue& first = call.in(1);
  const ArenaValue& second = call.in(2);
  if (condition.type != ArenaType::kBool || first.type != second.type ||
      !first.has_shape_of(second)) {
    return false;
  }
  std::int64_t each = 1;
  if (by_row && condition.rank == 1 && first.rank > 1 && condition.count == first.sizes[0]) {
    each = condition.count == 0 ? 1 : first.count / condition.count;
  } else if (!condition.has_shape_of(first)) {
    return false;
  }
  auto* to = call.make<char>(first.type, first.shape());
  if (to == nullptr) return false;
  const std::size_t bytes = size_of(first.type);
  for (std::int64_t i = 0; i < first.count; ++i, to += bytes) {
    copy_element(to, condition.as<bool>()[i / each] ? first : second, i);
  }
  return true;
}

template <bool kByRow>
ArenaOp select(const ArenaNode&) {
  return {[](ArenaCall& call) { return select(call, kByRow); }};
}

ArenaOp tile(const ArenaNode&) {
  return {[](ArenaCall& call) {
    const ArenaValue& in = call.in(0);
    const ArenaValue& multiples = call.in(1);
    if (!multiples.is_whole_numbers() || multiples.count != in.rank || in.rank == 0) return false;
    Axes sizes{};
    for (std::size_t i = 0; i < in.rank; ++i) {
      const std::int64_t times = multiples.whole(static_cast<std::int64_t>(i));
      constexpr auto kMost = static_cast<std::int64_t>(Arena::kMostBytes);
      if (times < 0 || times > kMost || in.sizes[i] > kMost) return false;
      sizes[i] = in.sizes[i] * times;
    }
    auto* to = call.make<char>(in.type, {sizes.data(), in.rank});
    if (to == nullptr) return false;
    const std::size_t bytes = size_of(in.type);
    for (std::int64_t i = 0; i < call.out().count; ++i, to += bytes) {
      std::int64_t rest = i;
      std::int64_t place = 0;
      std::int64_t stride = 1;
      for (std::size_t axis = in.rank; axis-- > 0;) {
        place += rest % sizes[axis] % in.sizes[axis] * stride;
        rest /= sizes[axis];
        stride *= in.sizes[axis];
      }
      copy_element(to, in, place);
    }
    return true;
  }};
}

ArenaOp fill(const ArenaNode&) {
  return {[](ArenaCall& call) {
    const ArenaValue& wanted = call.in(0);
    const ArenaValue& value = call.in(1);
    Axes sizes{};
    if (value.count != 1 || !read_shape(wanted, sizes)) return false;
    auto* to = call.make<char>(value.type, {sizes.data(), static_cast<std::size_t>(wanted.count)});
    if (to == nullptr) return false;
    const std::size_t bytes = size_of(value.type);
    for (std::int64_t i = 0; i < call.out().count; ++i, to += bytes) copy_element(to, value, 0);
    return true;
  }};
}

/// Along a new last axis.
ArenaOp one_hot(const ArenaNode& of) {
  const auto axis = graph::attr_or<std::int64_t>(*of.node, "axis", -1);
  return {[axis](ArenaCall& call) {
    const ArenaValue& in = call.in(0);
    const ArenaValue& depth = call.in(1);
    const ArenaValue& on = call.in(2);
    const ArenaValue& off = call.in(3);
    if ((axis != -1 && axis != in.rank) || in.rank == ArenaValue::kMostAxes ||
        !in.is_whole_numbers() || !depth.is_whole_numbers() || depth.count != 1 || on.rank != 0 ||
        off.rank != 0 || on.type != off.type || on.type == ArenaType::kStrings) {
      return false;
    }
    Axes sizes = in.sizes;
    sizes[in.rank] = depth.whole(0);
    auto* to = call.make<char>(on.type, {sizes.data(), in.rank + 1U});
    if (to == nullptr) return false;
    const std::size_t bytes = size_of(on.type);
    for (std::int64_t i = 0; i < in.count; ++i) {
      const std::int64_t hot = in.whole(i);
      for (std::int64_t k = 0; k < depth.whole(0); ++k, to += bytes) {
        copy_element(to, k == hot ? on : off, 0);
      }
    }
    return true;
  }};
}

/// The product of a vector of whole numbers, such as a shape.
ArenaOp product_of_sizes(const ArenaNode& of) {
  if (graph::attr_or<bool>(*of.node, "keep_dims", false)) return {};
  return {[](ArenaCall& call) {
    const ArenaValue& in = call.in(0);
    const ArenaValue& axes = call.in(1);
    if (!in.is_whole_numbers() || in.rank != 1 || !axes.is_whole_numbers() || axes.count != 1 ||
        (axes.whole(0) != 0 && axes.whole(0) != -1)) {
      return false;
    }
    std::uint64_t all = 1;
    for (std::int64_t i = 0; i < in.count; ++i) all *= static_cast<std::uint64_t>(in.whole(i));
    if (in.type == ArenaType::kInt64) {
      auto* const to = call.make<std::int64_t>(in.type, {});
      if (to != nullptr) *to = static_cast<std::int64_t>(all);
      return to != nullptr;
    }
    auto* const to = call.make<std::int32_t>(in.type, {});
    if (to != nullptr) *to = static_cast<std::int32_t>(all);
    return to != nullptr;
  }};
}

/// One after the other, each sum rounded once.
ArenaOp add_n(const ArenaNode&) {
  return {[](ArenaCall& call) {
    const ArenaValue& first = call.in(0);
    if (first.type != ArenaType::kFloat) return false;
    auto* const to = call.make<float>(ArenaType::kFloat, first.shape());
    if (to == nullptr) return false;
    std::copy_n(first.as<float>(), first.count, to);
    for (std::size_t i = 1; i < call.size(); ++i) {
      const ArenaValue& more = call.in(i);
      if (more.type != ArenaType::kFloat || !more.has_shape_of(first)) return false;
      for (std::int64_t k = 0; k < first.count; ++k) to[k] += more.as<float>()[k];
    }
    return true;
  }};
}

}  // namespace

ArenaFactories choice_ops() {
  using Op = ArenaEntry;
  static constexpr std::array kOps{
      Op{"AddN", 1, add_n},          Op{"Fill", 2, fill},
      Op{"OneHot", 4, one_hot},      Op{"Prod", 2, product_of_sizes},
      Op{"Select", 3, select<true>}, Op{"SelectV2", 3, select<false>},
      Op{"Tile", 2, tile},
  };
  return kOps;
}

}  // namespace muster::executor::arena
