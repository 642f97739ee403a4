#include <algorithm>
#include <array>

#include "muster/export/translation_internal.h"

namespace muster::exporting {
namespace {

using graph::DataType;
using Axes = std::vector<std::int64_t>;

/// Axes of a reduction, in whatever order the input stands.
struct Reduction {
  Order order;
  /// The reduced axes in that order.
  Axes places;
  /// The order of what is left.
  Order left;
  bool keep;
};

// Axes as traced; all of them where none are given.
Reduction reduction_of(Call& call, Axes axes, bool keep) {
  const std::size_t rank = call.rank(0);
  for (auto& axis : axes) {
    if (axis < 0) axis += static_cast<std::int64_t>(rank);
  }
  if (axes.empty()) axes = identity_order(rank);
  const auto reduced = [&](std::int64_t axis) {
    return std::find(axes.begin(), axes.end(), axis) != axes.end();
  };
  Reduction over{.order = call.to.order_of(call.id(0)), .places = {}, .left = {}, .keep = keep};
  for (std::size_t i = 0; i < rank; ++i) {
    const std::int64_t axis = over.order[i];
    if (reduced(axis)) over.places.push_back(static_cast<std::int64_t>(i));
    if (keep) {
      over.left.push_back(axis);
    } else if (!reduced(axis)) {
      const auto before =
          std::count_if(axes.begin(), axes.end(), [&](std::int64_t other) { return other < axis; });
      over.left.push_back(axis - before);
    }
  }
  return over;
}

std::string reduce(Call& call, const char* op, const std::string& input, const Reduction& over,
                   bool keep) {
  graph::Attrs attrs{{"Tidx", DataType::kInt32}, {"keep_dims", keep}};
  // All and Any have no type.
  if (call.result().dtype != at::kBool) attrs.emplace("T", call.type());
  return call.to.add(op, op, {input, call.to.ints(over.places)}, std::move(attrs));
}

std::string input_of(Call& call, const Reduction& over) {
  return call.operand(0, call.result().dtype, over.order);
}

// f(x), f(x, dtype), f(x, axis, keep, dtype) or f(x, axes, keep, dtype)
template <const char* kOp>
void reduction(Call& call) {
  const bool with_axes = call.count() > 2;
  const bool all = !with_axes || call.is_none(1);
  const auto over = reduction_of(call, all ? Axes{} : call.integers(1), with_axes && call.truth(2));
  call.give(reduce(call, kOp, input_of(call, over), over, over.keep), over.left);
}

std::string place_of_extreme(Call& call, const char* op, std::int64_t axis, bool keep) {
  auto found = call.to.add(op, op, {call.tensor(0), call.int32(axis)},
                           {{"T", graph_type(call.value(0).dtype)},
                            {"Tidx", DataType::kInt32},
                            {"output_type", DataType::kInt64}});
  if (keep) {
    found = call.to.add("ExpandDims", "ExpandDims", {found, call.int32(axis)},
                        {{"T", DataType::kInt64}, {"Tdim", DataType::kInt32}});
  }
  return found;
}

template <const char* kOp>
void arg(Call& call) {
  call.require(!call.is_none(1), "it needs an axis");
  call.give(place_of_extreme(call, kOp, call.axis(1, call.rank(0)), call.truth(2)));
}

// max(x), max(x, other) or values and places of max(x, axis, keep)
template <const char* kOp, const char* kArgOp, const char* kBinaryOp>
void extreme(Call& call) {
  const auto type = call.result().dtype;
  if (call.count() == 2) {
    return call.give(call.node(kBinaryOp, {call.operand(0, type), call.operand(1, type)}));
  }
  const bool with_axis = call.count() > 2;
  const auto over =
      reduction_of(call, with_axis ? call.integers(1) : Axes{}, with_axis && call.truth(2));
  call.give(reduce(call, kOp, input_of(call, over), over, over.keep), over.left);
  if (call.results() < 2) return;
  call.give_one(1, place_of_extreme(call, kArgOp, call.axis(1, call.rank(0)), call.truth(2)));
}

// var(x, unbiased), var(x, axes, unbiased, keep) or var(x, axes, correction, keep)
std::pair<std::string, Reduction> variance(Call& call) {
  const bool with_axes = call.count() > 2;
  const std::size_t correction_at = with_axes ? 2 : 1;
  const bool all = !with_axes || call.is_none(1);
  const auto over = reduction_of(call, all ? Axes{} : call.integers(1), with_axes && call.truth(3));
  const double correction = call.is_none(correction_at) ? 1 : call.number(correction_at);
  double count = 1;
  for (const std::int64_t place : over.places) {
    const auto axis = static_cast<std::size_t>(over.order[static_cast<std::size_t>(place)]);
    const Size size = call.value(0).sizes[axis];
    call.require(!size.follows_batch() || correction == 0,
                 "variances over the rows of a batch are translated without correction only");
    count *= static_cast<double>(size.constant);
  }
  const auto input = input_of(call, over);
  const auto mean = reduce(call, "Mean", input, over, /*keep=*/true);
  const auto squares = call.node("SquaredDifference", {input, mean});
  const auto biased = reduce(call, "Mean", squares, over, over.keep);
  if (correction == 0) return {biased, over};
  call.require(count > correction, "there are too few numbers for a variance");
  return {call.node("Mul", {biased, call.scalar(count / (count - correction))}), over};
}

void var(Call& call) {
  const auto [node, over] = variance(call);
  call.give(node, over.left);
}

void standard_deviation(Call& call) {
  const auto [node, over] = variance(call);
  call.give(call.node("Sqrt", {node}), over.left);
}

// logsumexp(x, axes, keep)
void logsumexp(Call& call) {
  const auto over = reduction_of(call, call.integers(1), call.truth(2));
  const auto input = input_of(call, over);
  const auto largest = reduce(call, "Max", input, over, /*keep=*/true);
  const auto powers = call.node("Exp", {call.node("Sub", {input, largest})});
  const auto sum = call.node("Log", {reduce(call, "Sum", powers, over, over.keep)});
  const auto again = over.keep ? largest : reduce(call, "Max", input, over, /*keep=*/false);
  call.give(call.node("AddV2", {sum, again}), over.left);
}

// norm(x, p), norm(x, p, axes, keep, dtype) or linalg_vector_norm(x, p, axes, keep, dtype)
void norm(Call& call) {
  const double p = call.is_none(1) ? 2 : call.number(1);
  call.require(p == 1 || p == 2, "only norms 1 and 2 are translated");
  const bool with_axes = call.count() > 3;
  const bool all = !with_axes || call.is_none(2);
  const auto over = reduction_of(call, all ? Axes{} : call.integers(2), with_axes && call.truth(3));
  const auto input = input_of(call, over);
  const auto sizes = call.node(p == 1 ? "Abs" : "Square", {input});
  const auto sum = reduce(call, "Sum", sizes, over, over.keep);
  call.give(p == 1 ? sum : call.node("Sqrt", {sum}), over.left);
}

// cumsum(x, axis, dtype)
void cumsum(Call& call) {
  const Order order = call.to.order_of(call.id(0));
  const auto place = place_of(order, call.axis(1, call.rank(0)));
  call.give(call.to.add("Cumsum", "Cumsum",
                        {call.operand(0, call.result().dtype, order), call.int32(place)},
                        {{"T", call.type()},
                         {"Tidx", DataType::kInt32},
                         {"exclusive", false},
                         {"reverse", false}}),
            order);
}

/// The `count` largest or smallest along an axis and where they are.
struct Ranked {
  std::string values;
  std::string places;
  Order order;
};

Ranked ranked(Call& call, std::int64_t axis, const std::string& count, bool largest) {
  const auto dtype = call.value(0).dtype;
  call.require(largest || (dtype != at::kByte && dtype != at::kBool),
               "the smallest of unsigned numbers are not translated");
  const Order order = with_axis_last(call.rank(0), axis);
  const graph::Attrs attrs{{"T", graph_type(dtype)}};
  auto input = call.tensor(0, order);
  if (!largest) input = call.to.add("Neg", "Neg", {input}, attrs);
  const auto top =
      call.to.add("TopKV2", "TopKV2", {input, count}, {{"T", graph_type(dtype)}, {"sorted", true}});
  return {.values = largest ? top : call.to.add("Neg", "Neg", {top}, attrs),
          .places = call.to.cast(top + ":1", DataType::kInt32, DataType::kInt64),
          .order = order};
}

// topk(x, k, axis, largest, sorted)
void topk(Call& call) {
  const auto found =
      ranked(call, call.axis(2, call.rank(0)), call.int32(call.integer(1)), call.truth(3));
  call.give(found.values, found.order);
  if (call.results() > 1) call.give_one(1, found.places, found.order);
}

Ranked sorted(Call& call, std::size_t axis_at) {
  const std::int64_t axis = call.axis(axis_at, call.rank(0));
  const Size size = call.value(0).sizes[static_cast<std::size_t>(axis)];
  const auto count = size.follows_batch() ? call.to.count(size) : call.int32(size.constant);
  return ranked(call, axis, count, call.truth(axis_at + 1));
}

// sort(x, axis, descending) or sort(x, stable, axis, descending)
void sort(Call& call) {
  const auto found = sorted(call, call.count() == 3 ? 1 : 2);
  call.give(found.values, found.order);
  if (call.results() > 1) call.give_one(1, found.places, found.order);
}

void argsort(Call& call) {
  const auto found = sorted(call, call.count() == 3 ? 1 : 2);
  call.give(found.places, found.order);
}

constexpr char kAll[] = "All", kAny[] = "Any", kArgMax[] = "ArgMax", kArgMin[] = "ArgMin",
               kMax[] = "Max", kReduceMaximum[] = "Maximum", kMean[] = "Mean", kMin[] = "Min",
               kReduceMinimum[] = "Minimum", kProd[] = "Prod", kSum[] = "Sum";

constexpr std::array kReductionsTranslations{
    OpTranslation{"aten::all", "All", reduction<kAll>},
    OpTranslation{"aten::amax", "Max", reduction<kMax>},
    OpTranslation{"aten::amin", "Min", reduction<kMin>},
    OpTranslation{"aten::any", "Any", reduction<kAny>},
    OpTranslation{"aten::argmax", "ArgMax, ExpandDims", arg<kArgMax>},
    OpTranslation{"aten::argmin", "ArgMin, ExpandDims", arg<kArgMin>},
    OpTranslation{"aten::argsort", "Neg, TopKV2, Cast", argsort},
    OpTranslation{"aten::cumsum", "Cumsum", cumsum},
    OpTranslation{"aten::linalg_vector_norm", "Square or Abs, Sum, Sqrt", norm},
    OpTranslation{"aten::logsumexp", "Max, Sub, Exp, Sum, Log, AddV2", logsumexp},
    OpTranslation{"aten::max", "Max, ArgMax, ExpandDims, or Maximum",
                  extreme<kMax, kArgMax, kReduceMaximum>},
    OpTranslation{"aten::mean", "Mean", reduction<kMean>},
    OpTranslation{"aten::min", "Min, ArgMin, ExpandDims, or Minimum",
                  extreme<kMin, kArgMin, kReduceMinimum>},
    OpTranslation{"aten::norm", "Square or Abs, Sum, Sqrt", norm},
    OpTranslation{"aten::prod", "Prod", reduction<kProd>},
    OpTranslation{"aten::sort", "Neg, TopKV2, Cast", sort},
    OpTranslation{"aten::std", "Mean, SquaredDifference, Mul, Sqrt", standard_deviation},
    OpTranslation{"aten::sum", "Sum", reduction<kSum>},
    OpTranslation{"aten::topk", "Neg, TopKV2, Cast", topk},
    OpTranslation{"aten::var", "Mean, SquaredDifference, Mul", var},
};

}  // namespace

std::span<const OpTranslation> reduction_translations() { return kReductionsTranslations; }

}  // namespace muster::exporting
