#include <array>

#include "muster/saved_model/onnx/conversion_internal.h"

// Operations of feature columns on words and numbers before they are ids.
namespace muster::onnx {
namespace {

using graph::DataType;
using graph::TensorValue;

// An axis a place, a row an index: ONNX has them the other way round.
void where(Call& call) {
  const auto found = call.add("NonZero", {call.input(0)});
  call.give(call.last("Transpose", {found}, {{"perm", std::vector<std::int64_t>{1, 0}}}),
            DataType::kInt64, 2);
}

// The bucket is the number of boundaries that are not above.
void bucketize(Call& call) {
  const auto rank = call.held(0).rank;
  const auto& boundaries = graph::attr<graph::AttrList>(call.node, "boundaries").floats;
  const auto last = call.to.ints({-1});
  auto value = call.input(0);
  if (call.type() != DataType::kFloat) {
    value = call.to.cast(call.node.name + "/float", value, DataType::kFloat);
  }
  const auto each = call.add("Unsqueeze", {value, last});
  const auto above =
      call.add("GreaterOrEqual", {each, call.to.constant(TensorValue::vector(boundaries))});
  const auto ones = call.to.cast(call.node.name + "/int32", above, DataType::kInt32);
  call.give(call.last("ReduceSum", {ones, last}, {{"keepdims", std::int64_t{0}}}), DataType::kInt32,
            rank);
}

// Known by its node alone.
void hash_table(Call& call) { call.to.table(call.node.name); }

// (table, keys, what others become)
void lookup(Call& call) {
  const auto& table = call.to.table(call.tensor(0));
  const auto otherwise = call.number(2, "default");
  Attributes attributes{{"values_int64s", table.values.values<std::int64_t>()},
                        {"default_int64", otherwise}};
  if (table.keys.dtype == DataType::kString) {
    attributes.emplace("keys_strings", table.keys.strings);
  } else {
    attributes.emplace("keys_int64s", table.keys.values<std::int64_t>());
  }
  const auto rank = call.held(1).rank;
  call.give(call.last("LabelEncoder", {call.input(1)}, std::move(attributes)), DataType::kInt64,
            rank);
}

constexpr std::array kColumnsConversions{
    OpConversion{"Bucketize", "GreaterOrEqual, Cast, ReduceSum", bucketize},
    OpConversion{"HashTableV2", "the keys and values of LabelEncoder", hash_table},
    OpConversion{"LookupTableFindV2", "LabelEncoder", lookup},
    OpConversion{"Where", "NonZero, Transpose", where},
};

}  // namespace

// ONNX compares no words in this version, but finds them in a list.
bool compares_words(Call& call, bool equal) {
  if (call.type() != DataType::kString) return false;
  const std::size_t word = call.constant(1) != nullptr ? 1 : 0;
  const TensorValue* constant = call.constant(word);
  call.require(constant != nullptr && constant->strings.size() == 1,
               "words are only compared with one constant");
  const auto rank = call.held(1 - word).rank;
  const auto found = call.add("LabelEncoder", {call.input(1 - word)},
                              {{"keys_strings", constant->strings},
                               {"values_int64s", std::vector<std::int64_t>{equal ? 1 : 0}},
                               {"default_int64", std::int64_t{equal ? 0 : 1}}});
  call.give(call.to.cast(call.node.name, found, DataType::kBool), DataType::kBool, rank);
  return true;
}

std::span<const OpConversion> column_conversions() { return kColumnsConversions; }

}  // namespace muster::onnx
