#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>

#include "muster/saved_model/executor/plan_internal.h"

namespace muster::executor {
namespace {

// Operations whose outputs depend on their inputs and attributes alone, and that graphs of feature
// columns do again and again. A lookup is one of them as long as nothing fills its table.
constexpr std::array<std::string_view, 38> kFunctions{"Add",
                                                      "AddV2",
                                                      "AsString",
                                                      "BroadcastTo",
                                                      "Bucketize",
                                                      "Cast",
                                                      "Concat",
                                                      "ConcatV2",
                                                      "Equal",
                                                      "ExpandDims",
                                                      "Fill",
                                                      "GatherNd",
                                                      "GatherV2",
                                                      "Greater",
                                                      "GreaterEqual",
                                                      "Less",
                                                      "LessEqual",
                                                      "LogicalAnd",
                                                      "LookupTableFindV2",
                                                      "Maximum",
                                                      "Mul",
                                                      "NotEqual",
                                                      "OneHot",
                                                      "OnesLike",
                                                      "Pack",
                                                      "Prod",
                                                      "Reshape",
                                                      "ScatterNd",
                                                      "Shape",
                                                      "Size",
                                                      "Slice",
                                                      "Squeeze",
                                                      "StridedSlice",
                                                      "StringToHashBucketFast",
                                                      "Sub",
                                                      "Sum",
                                                      "Where",
                                                      "ZerosLike"};

bool may_fill_table(std::string_view op) {
  return op.starts_with("InitializeTable") ||
         (op.starts_with("LookupTable") && !op.starts_with("LookupTableFind"));
}

bool passes_on(std::string_view op) {
  return op == "Identity" || op == "StopGradient" || op == "PreventGradient" || op == "Snapshot";
}

// Constants up to this many bytes are compared: scalars, shapes and axes.
constexpr std::int64_t kMaxComparedBytes = 64;

// Key that tells a small constant from others; nothing for large ones and for values of other
// kinds.
std::optional<std::string> key_of_constant(const Slot& slot) {
  if (const auto* strings = std::get_if<StringTensor>(&slot)) {
    if (strings->values().size() != 1 || strings->values()[0].size() > kMaxComparedBytes) {
      return std::nullopt;
    }
    return fmt::format("strings {} {}", fmt::join(strings->shape(), ","), strings->values()[0]);
  }
  const auto* tensor = std::get_if<at::Tensor>(&slot);
  if (tensor == nullptr || !tensor->defined() || !tensor->is_cpu() || !tensor->is_contiguous() ||
      static_cast<std::int64_t>(tensor->nbytes()) > kMaxComparedBytes) {
    return std::nullopt;
  }
  std::string key =
      fmt::format("{} {} ", c10::toString(tensor->scalar_type()), fmt::join(tensor->sizes(), ","));
  if (tensor->nbytes() > 0)
    key.append(static_cast<const char*>(tensor->data_ptr()), tensor->nbytes());
  return key;
}

// The first constant that is the same, for each constant.
std::vector<std::size_t> first_equals(const Slots& constants) {
  std::map<std::string, std::size_t> firsts;
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < constants.size(); ++i) {
    const auto key = key_of_constant(constants[i]);
    out.push_back(key ? firsts.emplace(*key, i).first->second : i);
  }
  return out;
}

// Whether two nodes of one operation compute the same of the same inputs.
bool same_attributes(const graph::NodeDef& left, const graph::NodeDef& right) {
  const auto relevant = [](const graph::Attrs& attrs) {
    graph::Attrs kept;
    for (const auto& [name, value] : attrs) {
      if (!name.starts_with('_')) kept.emplace(name, value);
    }
    return kept;
  };
  return relevant(left.attrs) == relevant(right.attrs);
}

}  // namespace

bool may_be_merged(std::string_view op) { return std::ranges::binary_search(kFunctions, op); }

bool Plan::may_fill_tables() const {
  return std::ranges::any_of(steps_, [](const Step& step) { return may_fill_table(step.op); });
}

void Plan::merge() {
  // A conditional decides which steps are computed; an assignment, what they read.
  if (has_dead_ || may_assign()) return;
  const bool tables_stay = !may_fill_tables();
  using Key = std::tuple<std::string_view, std::vector<std::pair<std::size_t, std::size_t>>>;
  std::map<Key, std::vector<std::size_t>> known;
  const auto same_constants = first_equals(folded_);
  // Source to read instead of an output of each step.
  std::vector<std::optional<Source>> reads(steps_.size() + 1);
  std::vector<bool> is_gone(steps_.size() + 1, false);
  const auto resolved = [&](const Source& source) -> Source {
    if (source.place == kFolded) return {kFolded, same_constants[source.output]};
    if (!reads[source.place]) return source;
    const Source& first = *reads[source.place];
    return {first.place, first.output + source.output};
  };
  const auto is_value = [&](const Source& source) {
    if (source.place == kFolded) {
      return !std::holds_alternative<std::shared_ptr<Variable>>(folded_[source.output]);
    }
    return source.place == 0 || !steps_[source.place - 1].op.starts_with("Var");
  };
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    Step& step = steps_[i];
    for (Source& source : step.inputs) source = resolved(source);
    if (passes_on(step.op) && step.inputs.size() == 1 && is_value(step.inputs[0])) {
      reads[i + 1] = step.inputs[0];
      is_gone[i + 1] = true;
      continue;
    }
    if (step.node == nullptr || !may_be_merged(step.op)) continue;
    if (!tables_stay && step.op.starts_with("LookupTable")) continue;
    Key key{step.op, {}};
    for (const Source& source : step.inputs) {
      std::get<1>(key).emplace_back(source.place, source.output);
    }
    auto& same = known[key];
    const auto twin = std::ranges::find_if(same, [&](std::size_t place) {
      return same_attributes(*steps_[place - 1].node, *step.node);
    });
    if (twin == same.end()) {
      same.push_back(i + 1);
    } else {
      reads[i + 1] = Source{*twin, 0};
      is_gone[i + 1] = true;
    }
  }
  for (Source& fetch : fetches_) fetch = resolved(fetch);
  drop(is_gone);
}

}  // namespace muster::executor
