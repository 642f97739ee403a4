#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string_view>
#include <tuple>

#include "muster/executor/plan_internal.h"

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

void Plan::merge() {
  // A conditional decides which steps are computed; an assignment, what they read.
  if (has_dead_ || may_assign()) return;
  const bool tables_stay =
      std::ranges::none_of(steps_, [](const Step& step) { return may_fill_table(step.op); });
  using Key = std::tuple<std::string_view, std::vector<std::pair<std::size_t, std::size_t>>>;
  std::map<Key, std::vector<std::size_t>> known;
  // What to read in the place of an output of each step.
  std::vector<std::optional<Source>> reads(steps_.size() + 1);
  std::vector<bool> is_gone(steps_.size() + 1, false);
  const auto resolved = [&](const Source& source) -> Source {
    if (source.place == kFolded || !reads[source.place]) return source;
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
