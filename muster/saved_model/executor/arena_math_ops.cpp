// Element-wise operations on values in an arena: one rounding each, as libtorch has them.
#include <algorithm>
#include <charconv>

#include "muster/saved_model/executor/arena_kernels_internal.h"
#include "muster/saved_model/executor/value.h"
#include "muster/saved_model/executor/whole_arithmetic_internal.h"

namespace muster::executor::arena {
namespace {

using graph::DataType;

/// Two inputs of one shape, or with a single element on one side, and the shape of the result.
struct Pair {
  const ArenaValue& left;
  const ArenaValue& right;
  const ArenaValue* larger = nullptr;

  explicit Pair(const ArenaCall& call) : left(call.in(0)), right(call.in(1)) {
    if (left.type != right.type) return;
    const bool one_left = left.count == 1 && left.rank <= right.rank;
    const bool one_right = right.count == 1 && right.rank <= left.rank;
    if (one_right || left.has_shape_of(right)) {
      larger = &left;
    } else if (one_left) {
      larger = &right;
    }
  }
};

/// to[i] = compute(left[i], right[i]), where a side may be one element for all.
template <typename T, typename To, typename Compute>
void each(const Pair& pair, To* to, const Compute& compute) {
  const T* const a = pair.left.as<T>();
  const T* const b = pair.right.as<T>();
  const std::int64_t count = pair.larger->count;
  if (pair.right.count == 1) {
    const T one = *b;
    for (std::int64_t i = 0; i < count; ++i) to[i] = compute(a[i], one);
  } else if (pair.left.count == 1) {
    const T one = *a;
    for (std::int64_t i = 0; i < count; ++i) to[i] = compute(one, b[i]);
  } else {
    for (std::int64_t i = 0; i < count; ++i) to[i] = compute(a[i], b[i]);
  }
}

template <typename Compare>
bool compare(ArenaCall& call) {
  const Pair pair(call);
  if (pair.larger == nullptr) return false;
  bool* const to = call.make<bool>(ArenaType::kBool, pair.larger->shape());
  if (to == nullptr) return false;
  for_arena_type(pair.left.type, [&](auto kind) { each<decltype(kind)>(pair, to, Compare{}); });
  return true;
}

template <typename Compare>
ArenaOp ordering(const ArenaNode&) {
  return {[](ArenaCall& call) {
    return call.in(0).type != ArenaType::kStrings && compare<Compare>(call);
  }};
}

template <typename Compare>
ArenaOp equality(const ArenaNode&) {
  return {compare<Compare>};
}

template <typename Compute>
ArenaOp arithmetic(const ArenaNode&) {
  return {[](ArenaCall& call) {
    const Pair pair(call);
    if (pair.larger == nullptr) return false;
    return for_arena_type(pair.left.type, [&](auto kind) {
      using T = decltype(kind);
      if constexpr (!std::is_arithmetic_v<T> || std::is_same_v<T, bool>) {
        return false;
      } else {
        T* const to = call.make<T>(pair.left.type, pair.larger->shape());
        if (to == nullptr) return false;
        // Whole numbers wrap around, as libtorch's do.
        using Wide = typename std::conditional_t<std::is_integral_v<T>, std::make_unsigned<T>,
                                                 std::type_identity<T>>::type;
        each<T>(pair, to, [](T a, T b) {
          return static_cast<T>(Compute{}(static_cast<Wide>(a), static_cast<Wide>(b)));
        });
        return true;
      }
    });
  }};
}

template <typename Compute>
ArenaOp logical(const ArenaNode&) {
  return {[](ArenaCall& call) {
    const Pair pair(call);
    if (pair.larger == nullptr || pair.left.type != ArenaType::kBool) return false;
    bool* const to = call.make<bool>(ArenaType::kBool, pair.larger->shape());
    if (to != nullptr) each<bool>(pair, to, Compute{});
    return to != nullptr;
  }};
}

template <typename From, typename To>
bool convert(const ArenaValue& in, To* to) {
  std::transform(in.as<From>(), in.as<From>() + in.count, to, converted<To, From>);
  return true;
}

bool cast(ArenaCall& call, ArenaType type) {
  const ArenaValue& in = call.in(0);
  if (in.type == type) return call.pass_in_shape(in.shape());
  if (in.type == ArenaType::kStrings) return false;
  void* const memory = call.make(type, in.shape());
  if (memory == nullptr) return false;
  return for_arena_type(in.type, [&](auto from) {
    return for_arena_type(type, [&](auto to) {
      using From = decltype(from);
      using To = decltype(to);
      if constexpr (std::is_arithmetic_v<From> && std::is_arithmetic_v<To>) {
        return convert<From>(in, static_cast<To*>(memory));
      } else {
        return false;
      }
    });
  });
}

ArenaOp cast(const ArenaNode& of) {
  const auto type = arena_type(graph::attr<DataType>(*of.node, "DstT"));
  if (!type) return {};
  return {[wanted = *type](ArenaCall& call) { return cast(call, wanted); }};
}

/// How many boundaries each number reaches; one that is none reaches all.
template <typename T, typename Wide>
void bucketize(const ArenaValue& in, const std::vector<float>& boundaries, std::int32_t* to) {
  const T* const from = in.as<T>();
  for (std::int64_t i = 0; i < in.count; ++i) {
    const auto value = static_cast<Wide>(from[i]);
    const auto above = std::partition_point(boundaries.begin(), boundaries.end(),
                                            [&](float limit) { return !(limit > value); });
    to[i] = static_cast<std::int32_t>(above - boundaries.begin());
  }
}

ArenaOp bucketize(const ArenaNode& of) {
  return {
      [boundaries = graph::attr<graph::AttrList>(*of.node, "boundaries").floats](ArenaCall& call) {
        const ArenaValue& in = call.in(0);
        if (in.type != ArenaType::kFloat && in.type != ArenaType::kInt32) return false;
        auto* const to = call.make<std::int32_t>(ArenaType::kInt32, in.shape());
        if (to == nullptr) return false;
        if (in.type == ArenaType::kFloat) {
          bucketize<float, float>(in, boundaries, to);
        } else {
          bucketize<std::int32_t, double>(in, boundaries, to);
        }
        return true;
      }};
}

/// The decimal text of whole numbers.
bool write_numbers(ArenaCall& call) {
  const ArenaValue& in = call.in(0);
  constexpr std::size_t kMostDigits = 20;
  auto* const to = call.make<std::string_view>(ArenaType::kStrings, in.shape());
  char* text = call.take<char>(in.count * static_cast<std::int64_t>(kMostDigits));
  if (to == nullptr || text == nullptr) return false;
  for (std::int64_t i = 0; i < in.count; ++i) {
    char* const end = std::to_chars(text, text + kMostDigits, in.whole(i)).ptr;
    to[i] = std::string_view(text, static_cast<std::size_t>(end - text));
    text = end;
  }
  return true;
}

ArenaOp as_string(const ArenaNode& of) {
  // A width is filled up; the rest is for fractions.
  if (graph::attr_or<std::int64_t>(*of.node, "width", -1) > 0 ||
      graph::attr_or<std::string>(*of.node, "fill", "").size() > 1) {
    return {};
  }
  return {[](ArenaCall& call) { return call.in(0).is_whole_numbers() && write_numbers(call); }};
}

struct And {
  bool operator()(bool a, bool b) const { return a && b; }
};
struct Or {
  bool operator()(bool a, bool b) const { return a || b; }
};

}  // namespace

ArenaFactories math_ops() {
  using Op = ArenaEntry;
  static constexpr std::array kOps{
      Op{"Add", 2, arithmetic<std::plus<>>},
      Op{"AddV2", 2, arithmetic<std::plus<>>},
      Op{"AsString", 1, as_string},
      Op{"Bucketize", 1, bucketize},
      Op{"Cast", 1, cast},
      Op{"Equal", 2, equality<std::equal_to<>>},
      Op{"Greater", 2, ordering<std::greater<>>},
      Op{"GreaterEqual", 2, ordering<std::greater_equal<>>},
      Op{"Less", 2, ordering<std::less<>>},
      Op{"LessEqual", 2, ordering<std::less_equal<>>},
      Op{"LogicalAnd", 2, logical<And>},
      Op{"LogicalOr", 2, logical<Or>},
      Op{"Mul", 2, arithmetic<std::multiplies<>>},
      Op{"NotEqual", 2, equality<std::not_equal_to<>>},
      Op{"Sub", 2, arithmetic<std::minus<>>},
  };
  return kOps;
}

}  // namespace muster::executor::arena
