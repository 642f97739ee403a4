#include <algorithm>
#include <array>
#include <initializer_list>
#include <string_view>

#include "muster/export/translation_internal.h"

namespace muster::exporting {
namespace {

using graph::DataType;

std::string gathered(Call& call, const std::string& from, const std::string& indices,
                     DataType index_type, std::int64_t axis, std::int64_t batch_dims = 0) {
  return call.to.add("GatherV2", "GatherV2", {from, indices, call.int32(axis)},
                     {{"Tparams", call.type()},
                      {"Tindices", index_type},
                      {"Taxis", DataType::kInt32},
                      {"batch_dims", batch_dims}});
}

DataType type_of(Call& call, std::size_t index) { return graph_type(call.value(index).dtype); }

// embedding(table, ids, ...)
void embedding(Call& call) {
  call.give(gathered(call, call.tensor(0), call.tensor(1), type_of(call, 1), 0));
}

// index_select(x, axis, indices)
void index_select(Call& call) {
  const Order order = call.to.order_of(call.id(0));
  const auto place = place_of(order, call.axis(1, call.rank(0)));
  call.give(
      gathered(call, call.tensor(0, order), call.operand(2, at::kLong), DataType::kInt64, place),
      order);
}

// gather(x, axis, indices): element by element along one axis, which TensorFlow has for the last.
void gather(Call& call) {
  const std::size_t rank = call.rank(0);
  const std::int64_t axis = call.axis(1, rank);
  const auto& from = call.value(0).sizes;
  const auto& indices = call.value(2).sizes;
  for (std::size_t i = 0; i < rank; ++i) {
    call.require(static_cast<std::int64_t>(i) == axis || from[i] == indices[i],
                 "it takes a part of an axis that it does not gather along");
  }
  const Order order = with_axis_last(rank, axis);
  const auto last = static_cast<std::int64_t>(rank) - 1;
  call.give(
      gathered(call, call.tensor(0, order), call.tensor(2, order), type_of(call, 2), last, last),
      order);
}

bool is_number(const Argument& argument, std::int64_t value) {
  const auto* size = std::get_if<Size>(&argument);
  return size != nullptr && *size == Size{value};
}

// The ids that stand for one row, where bags are rows of a matrix: then EmbeddingBag writes an
// arange with this step for where they begin.
std::int64_t bag_size(Call& call) {
  const auto& operations = call.to.program().operations;
  const auto made = std::find_if(operations.begin(), operations.end(), [&](const auto& operation) {
    return std::find(operation.outputs.begin(), operation.outputs.end(), call.id(2)) !=
           operation.outputs.end();
  });
  const Size ids = call.value(1).sizes.at(0);
  const Size bags = call.value(2).sizes.at(0);
  const bool regular = made != operations.end() && made->kind == "aten::arange" &&
                       made->arguments.size() == 7 && bags.follows_batch() && ids.follows_batch() &&
                       is_number(made->arguments[0], 0) &&
                       is_number(made->arguments[2], ids.per_row / bags.per_row);
  call.require(regular, "only bags that are rows of a matrix of ids are translated");
  return ids.per_row / bags.per_row;
}

// embedding_bag(table, ids, offsets, scale_by_frequency, mode, sparse, weights,
//               include_last_offset, padding_index)
void embedding_bag(Call& call) {
  constexpr std::array kModes{"Sum", "Mean", "Max"};
  call.require(!call.truth(7), "include_last_offset is not translated");
  call.require(call.count() < 9 || call.is_none(8) || call.integer(8) == -1,
               "padding_idx is not translated");
  const std::int64_t together = bag_size(call);
  const auto mode = static_cast<std::size_t>(call.integer(4));
  call.require(mode < kModes.size(), "its mode is unknown");
  const Size rows = call.result().sizes[0];
  const auto table = call.value(0).sizes;
  auto found = gathered(call, call.tensor(0), call.tensor(1), type_of(call, 1), 0);
  found = call.reshaped(found, {rows, Size{together}, table[1]});
  if (!call.is_none(6)) {
    const auto weights = call.reshaped(call.tensor(6), {rows, Size{together}, Size{1}});
    found = call.node("Mul", {found, weights});
  }
  call.give(call.to.add(kModes[mode], kModes[mode], {found, call.to.ints({1})},
                        {{"T", call.type()}, {"Tidx", DataType::kInt32}, {"keep_dims", false}}));
}

// one_hot(ids, classes)
void one_hot(Call& call) {
  const auto classes = call.result().sizes.back();
  call.require(call.integer(1) > 0, "it needs the number of classes");
  call.give(
      call.to.add("one_hot", "OneHot",
                  {call.tensor(0), call.int32(classes.constant), call.scalar(1), call.scalar(0)},
                  {{"T", call.type()}, {"TI", type_of(call, 0)}, {"axis", -1}}));
}

// index(x, [indices]), which is x[indices] with rows by number
void index(Call& call) {
  const auto indices = call.ids(1);
  const auto type = call.to.value(indices.at(0)).dtype;
  call.require(indices.size() == 1 && at::isIntegralType(type, /*includeBool=*/false),
               "only whole numbers of entries of the first axis are translated");
  call.give(gathered(call, call.tensor(0), call.to.get(indices[0]), graph_type(type), 0));
}

// Whether an operation of these kinds made the argument, perhaps in another type.
bool is_made_by(Call& call, std::size_t index, std::initializer_list<std::string_view> kinds) {
  if (!call.is_tensor(index)) return false;
  const Operation* made = call.to.producer(call.id(index));
  while (made != nullptr && made->kind == "aten::to") {
    const auto* from = std::get_if<ValueId>(&made->arguments.at(0));
    made = from != nullptr ? call.to.producer(*from) : nullptr;
  }
  return made != nullptr && std::ranges::find(kinds, made->kind) != kinds.end();
}

// scatter(x, axis, indices, source), as packed sequences invert an order of rows: where each number
// stands in it, which is the order of the order.
void scatter(Call& call) {
  call.require(call.rank(0) == 1 && is_made_by(call, 0, {"aten::empty_like"}) &&
                   is_made_by(call, 2, {"aten::sort", "aten::argsort"}) &&
                   is_made_by(call, 3, {"aten::arange"}),
               "only the inverse of an order of rows is translated");
  const DataType type = type_of(call, 2);
  const auto negated = call.to.add("Neg", "Neg", {call.tensor(2)}, {{"T", type}});
  const auto count = call.to.count(call.value(2).sizes.at(0));
  const auto top =
      call.to.add("TopKV2", "TopKV2", {negated, count}, {{"T", type}, {"sorted", true}});
  call.give(call.to.cast(top + ":1", DataType::kInt32, call.type()));
}

constexpr std::array kGathersTranslations{
    OpTranslation{"aten::embedding", "GatherV2", embedding},
    OpTranslation{"aten::embedding_bag", "GatherV2, Reshape, Mul, Sum, Mean or Max", embedding_bag},
    OpTranslation{"aten::gather", "GatherV2", gather},
    OpTranslation{"aten::index", "GatherV2", index},
    OpTranslation{"aten::index_select", "GatherV2", index_select},
    OpTranslation{"aten::one_hot", "OneHot", one_hot},
    OpTranslation{"aten::scatter", "Neg, TopKV2, Cast", scatter},
};

}  // namespace

std::span<const OpTranslation> gather_translations() { return kGathersTranslations; }

}  // namespace muster::exporting
