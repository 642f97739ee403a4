#include "muster/saved_model/executor/gradient_path_internal.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>
#include <c10/util/Exception.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <span>
#include <utility>

#include "muster/base/error.h"
#include "muster/saved_model/executor/explain_ops_internal.h"
#include "muster/saved_model/executor/in_node_internal.h"

namespace muster::executor {
namespace {

const at::Tensor* numbers_in(const Slot& slot) {
  const auto* tensor = std::get_if<at::Tensor>(&slot);
  return tensor != nullptr && tensor->defined() && tensor->is_floating_point() ? tensor : nullptr;
}

// A list may hold numbers.
bool has_numbers(const Slot& slot) {
  return numbers_in(slot) != nullptr || std::holds_alternative<TensorList>(slot);
}

void add_origins(const std::vector<std::size_t>& more, std::vector<std::size_t>& to) {
  std::vector<std::size_t> both;
  std::ranges::set_union(to, more, std::back_inserter(both));
  to = std::move(both);
}

void propagate(const at::Tensor& number) {
  try {
    number.backward();
  } catch (const c10::Error& error) {
    throw Unimplemented("the gradients cannot be computed: {}", error.what_without_backtrace());
  }
}

/// Values of steps that a budget holds, until they are released.
struct Held {
  explicit Held(Budget& of) : budget(of) {}
  ~Held() {
    for (const Slots& slots : values) budget.release(slots);
  }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;

  Budget& budget;
  std::vector<Slots> values{};
};

}  // namespace

/// The inputs of a step, together.
struct GradientPath::Reading {
  bool frozen = false;
  bool pooled = false;
  bool switched = false;
  bool smooth = false;
  // Whether all inputs that depend on the request are made of what one of them is made of.
  bool is_one_feature = true;
  // Whether the second input depends on the request.
  bool filter_depends = false;
  std::vector<std::size_t> origins{};

  bool is_fixed() const { return !frozen && !pooled && !switched && !smooth; }
};

GradientPath::GradientPath(const Plan& plan, Request request, Budget& budget)
    : plan_(plan),
      budget_(budget),
      values_(plan.steps_.size() + 1),
      marks_(plan.steps_.size() + 1),
      names_(std::move(request.names)),
      arguments_(names_.size()) {
  if (plan.has_dead_) {
    throw Unimplemented(
        "the graph has conditionals of TensorFlow 1 (Switch, Merge), through which gradients are "
        "not computed");
  }
  const at::NoGradGuard no_grad;
  values_[0] = std::move(request.arguments);
  budget_.hold_free(values_[0]);
  mark_arguments();
  for (std::size_t i = 0; i < plan_.steps_.size(); ++i) {
    in_node(plan_.steps_[i].name, plan_.steps_[i].op, [&] { record(i); });
  }
  fetch(request);
  is_used_.assign(names_.size(), false);
  for (std::size_t i = 0; i < leaves_.size(); ++i) {
    const Plan::Source& source = leaf_sources_[i];
    const auto& origins = marks_[source.place][source.output].origins;
    for (const std::size_t origin : origins) is_used_[origin] = true;
    leaves_[i].feature = feature_of(origins);
    leaves_[i].is_argument = source.place == 0;
    leaves_[i].value = std::get<at::Tensor>(values_[source.place][source.output]);
    leaves_[i].baseline = at::zeros_like(leaves_[i].value);
  }
  if (request.baseline) set_baselines(std::move(*request.baseline));
}

void GradientPath::mark_arguments() {
  marks_[0].resize(values_[0].size());
  for (std::size_t i = 0; i < values_[0].size(); ++i) {
    marks_[0][i] = {.kind = Kind::kFrozen, .origins = {i}};
    if (numbers_in(values_[0][i]) != nullptr) add_leaf(0, i);
  }
}

void GradientPath::add_leaf(std::size_t place, std::size_t output) {
  marks_[place][output].kind = Kind::kSmooth;
  leaf_sources_.push_back({place, output});
  leaves_.emplace_back();
}

const Slot& GradientPath::at(const std::vector<Slots>& values, const Plan::Source& source) const {
  const Slots& held = source.place == Plan::kFolded ? plan_.folded_ : values[source.place];
  if (source.output < held.size()) return held[source.output];
  throw InvalidArgument("there is no output {} of a step", source.output);
}

Slots GradientPath::run_step(const Plan::Step& step, const std::vector<Slots>& values) {
  std::vector<const Slot*> inputs;
  inputs.reserve(step.inputs.size());
  for (const Plan::Source& source : step.inputs) inputs.push_back(&at(values, source));
  return plan_.run_step(step, SlotRefs(std::span<const Slot* const>(inputs)), budget_);
}

GradientPath::Reading GradientPath::reading_of(const Plan::Step& step) const {
  Reading reading;
  std::size_t most_origins = 0;
  for (std::size_t k = 0; k < step.inputs.size(); ++k) {
    const Plan::Source& source = step.inputs[k];
    if (source.place == Plan::kFolded) continue;
    const Mark& mark = marks_[source.place][source.output];
    if (mark.kind == Kind::kFixed) continue;
    reading.frozen = reading.frozen || mark.kind == Kind::kFrozen;
    reading.pooled = reading.pooled || mark.kind == Kind::kPooled;
    reading.switched = reading.switched || mark.kind == Kind::kSwitch;
    reading.smooth = reading.smooth || mark.kind == Kind::kSmooth;
    reading.filter_depends = reading.filter_depends || k == 1;
    most_origins = std::max(most_origins, mark.origins.size());
    add_origins(mark.origins, reading.origins);
  }
  reading.is_one_feature = reading.origins.size() == most_origins;
  return reading;
}

// Whether the step is computed again at every part of the path.
bool GradientPath::is_on_path(const Plan::Step& step, const Reading& reading, const Slots& made) {
  const bool gives_numbers = std::ranges::any_of(made, has_numbers);
  const GradientRole role = gradient_role(step.op);
  const bool is_smooth = role == GradientRole::kSmooth;
  if (!gives_numbers) {
    return (reading.smooth && role == GradientRole::kSwitch) ||
           (reading.switched && (role == GradientRole::kSwitch || is_smooth));
  }
  if (reading.smooth && is_smooth) {
    if (!reading.filter_depends || !needs_fixed_filter(step.op)) return true;
    throw Unimplemented("a filter that depends on the request has no gradient here");
  }
  if (reading.smooth && role == GradientRole::kStep) return false;
  const bool pools = pools_rows(step.op);
  if (reading.smooth || (role == GradientRole::kUnknown && !pools && reading.pooled) ||
      calls_functions(step.op)) {
    throw Unimplemented("the gradient of the operation {} is not known here", step.op);
  }
  const bool still_pools = pools && reading.is_one_feature && !reading.switched;
  return reading.pooled && is_smooth && !still_pools;
}

GradientPath::Kind GradientPath::kind_of(const Plan::Step& step, const Reading& reading,
                                         bool is_float, bool on_path) {
  if (on_path && is_float) return Kind::kSmooth;
  if (on_path && gradient_role(step.op) == GradientRole::kSwitch) return Kind::kSwitch;
  if (on_path && reading.switched && !reading.smooth) return Kind::kSwitch;
  if (!is_float || reading.smooth || reading.switched) return Kind::kFrozen;
  return pools_rows(step.op) && reading.is_one_feature ? Kind::kPooled : Kind::kFrozen;
}

void GradientPath::record(std::size_t i) {
  const Plan::Step& step = plan_.steps_[i];
  if (step.op.starts_with("Assign")) {
    throw Unimplemented("the graph changes variables while it answers");
  }
  const std::size_t place = i + 1;
  values_[place] = run_step(step, values_);
  marks_[place].resize(values_[place].size());
  const Reading reading = reading_of(step);
  if (reading.is_fixed() || gradient_role(step.op) == GradientRole::kStructure) return;
  const bool on_path = is_on_path(step, reading, values_[place]);
  if (on_path) {
    again_.push_back(i);
    // Pooled numbers are compared as they are.
    if (gradient_role(step.op) == GradientRole::kSmooth) add_pooled_leaves(step);
  }
  for (std::size_t output = 0; output < values_[place].size(); ++output) {
    const bool is_float = numbers_in(values_[place][output]) != nullptr;
    Mark& mark = marks_[place][output];
    mark = {.kind = kind_of(step, reading, is_float, on_path), .origins = reading.origins};
    if (is_float && mark.kind == Kind::kFrozen) add_leaf(place, output);
  }
  name_features(i);
}

void GradientPath::add_pooled_leaves(const Plan::Step& step) {
  for (const Plan::Source& source : step.inputs) {
    if (source.place == Plan::kFolded) continue;
    if (marks_[source.place][source.output].kind == Kind::kPooled) {
      add_leaf(source.place, source.output);
    }
  }
}

// Outputs of a parser are features of their own. Those of examples are sparse indices, values and
// shapes, then dense values, as many as there are keys; those of CSV are fields.
void GradientPath::name_features(std::size_t i) {
  const Plan::Step& step = plan_.steps_[i];
  std::vector<Mark>& marks = marks_[i + 1];
  std::vector<std::string> keys;
  std::size_t sparse = 0;
  const auto add_keys = [&](std::size_t input) {
    const auto* held = std::get_if<StringTensor>(&at(values_, step.inputs[input]));
    if (held != nullptr) keys.insert(keys.end(), held->values().begin(), held->values().end());
  };
  if (step.op == "ParseExample" && step.inputs.size() >= 2) {
    // There are 2 + sparse + 2 dense inputs, and 3 sparse + dense outputs.
    sparse = (2 * marks.size() - (step.inputs.size() - 2)) / 5;
    const std::size_t dense = marks.size() - 3 * sparse;
    for (std::size_t k = 0; k < sparse + dense; ++k) add_keys(2 + k);
  } else if (step.op == "ParseExampleV2" && step.inputs.size() > 3) {
    add_keys(2);
    sparse = keys.size();
    add_keys(3);
  } else if (step.op == "DecodeCSV") {
    const std::string row =
        feature_of(marks.empty() ? std::vector<std::size_t>() : marks[0].origins);
    for (std::size_t k = 0; k < marks.size(); ++k) keys.push_back(fmt::format("{}[{}]", row, k));
  } else {
    return;
  }
  if (marks.size() != 2 * sparse + keys.size()) return;
  const std::size_t first = names_.size();
  names_.insert(names_.end(), keys.begin(), keys.end());
  for (std::size_t output = 0; output < marks.size(); ++output) {
    const bool is_shape = output >= 2 * sparse && output < 3 * sparse;
    const std::size_t key =
        output < 3 * sparse ? output % std::max<std::size_t>(sparse, 1) : output - 2 * sparse;
    if (is_shape) {
      marks[output] = {};
    } else {
      marks[output].origins = {first + key};
    }
  }
}

void GradientPath::fetch(const Request& request) {
  fetched_ = plan_.fetches_.at(request.fetch);
  const at::Tensor* const numbers = numbers_in(at(values_, fetched_));
  if (numbers == nullptr) {
    throw InvalidArgument("the output {} is no tensor of floating-point numbers", request.output);
  }
  output_ = numbers->reshape({-1});
  if (fetched_.place != Plan::kFolded) {
    if (marks_[fetched_.place][fetched_.output].kind == Kind::kPooled) {
      add_leaf(fetched_.place, fetched_.output);
    }
    if (marks_[fetched_.place][fetched_.output].kind == Kind::kSmooth) return;
  }
  throw FailedPrecondition("the output {} does not depend on the request", request.output);
}

std::string GradientPath::feature_of(const std::vector<std::size_t>& origins) const {
  std::vector<std::string> names;
  names.reserve(origins.size());
  for (const std::size_t origin : origins) names.push_back(names_[origin]);
  std::ranges::sort(names);
  return fmt::format("{}", fmt::join(names, " x "));
}

std::vector<std::string> GradientPath::unused() const {
  std::vector<std::string> names;
  // Inputs that are parsed are known by the features in them.
  const bool is_parsed = names_.size() > arguments_;
  for (std::size_t i = is_parsed ? arguments_ : 0; i < names_.size(); ++i) {
    if (!is_used_[i]) names.push_back(names_[i]);
  }
  return names;
}

void GradientPath::set_baselines(Slots arguments) {
  std::vector<Slots> values(values_.size());
  values[0] = std::move(arguments);
  budget_.hold_free(values[0]);
  for (std::size_t i = 0; i < plan_.steps_.size(); ++i) {
    const Plan::Step& step = plan_.steps_[i];
    in_node(step.name, step.op, [&] { values[i + 1] = run_step(step, values); });
  }
  for (std::size_t i = 0; i < leaves_.size(); ++i) {
    Leaf& leaf = leaves_[i];
    leaf.baseline = std::get<at::Tensor>(at(values, leaf_sources_[i]));
    if (leaf.baseline.sizes() == leaf.value.sizes()) continue;
    throw InvalidArgument(
        "the baseline has {} for {} where the request has {}: give it as many values, or leave the "
        "baseline out to begin at 0",
        describe(leaf.baseline), leaf.feature, describe(leaf.value));
  }
}

std::vector<Slots> GradientPath::moved_leaves(double part, std::vector<at::Tensor>* leaves) const {
  std::vector<Slots> values = values_;
  for (std::size_t i = 0; i < leaves_.size(); ++i) {
    const Leaf& leaf = leaves_[i];
    at::Tensor moved = leaf.value.sub(leaf.baseline).mul_(part).add_(leaf.baseline);
    if (leaves != nullptr) leaves->push_back(moved.set_requires_grad(true));
    values[leaf_sources_[i].place][leaf_sources_[i].output] = std::move(moved);
  }
  return values;
}

at::Tensor GradientPath::run_again(std::vector<Slots>& values, std::vector<Slots>& held) {
  held.reserve(again_.size());
  for (const std::size_t i : again_) {
    const Plan::Step& step = plan_.steps_[i];
    held.push_back(in_node(step.name, step.op, [&] { return run_step(step, values); }));
    const Slots& made = held.back();
    for (std::size_t output = 0; output < made.size(); ++output) {
      const Kind kind = marks_[i + 1][output].kind;
      if (kind == Kind::kSmooth || kind == Kind::kSwitch) values[i + 1][output] = made[output];
    }
  }
  return std::get<at::Tensor>(at(values, fetched_)).reshape({-1});
}

double GradientPath::output_at(double part, std::int64_t index) {
  const at::NoGradGuard no_grad;
  budget_.check_time();
  std::vector<Slots> values = moved_leaves(part, nullptr);
  Held held(budget_);
  return number_of(run_again(values, held.values), index).item<double>();
}

at::Tensor GradientPath::number_of(const at::Tensor& output, std::int64_t index) const {
  if (output.numel() == output_.numel()) return output.select(0, index);
  throw Unimplemented("the output has {} numbers on the way to the request, and {} there",
                      output.numel(), output_.numel());
}

std::vector<at::Tensor> GradientPath::gradients_at(double part, std::int64_t index) {
  budget_.check_time();
  std::vector<at::Tensor> leaves;
  leaves.reserve(leaves_.size());
  std::vector<Slots> values;
  {
    const at::NoGradGuard no_grad;
    values = moved_leaves(part, &leaves);
  }
  const at::AutoGradMode with_gradients(true);
  Held held(budget_);
  const std::int64_t before = budget_.live_bytes();
  const at::Tensor number = number_of(run_again(values, held.values), index);
  if (number.requires_grad()) {
    // A gradient for each value.
    const Budget::Step step(budget_);
    budget_.check_room(budget_.live_bytes() - before);
    propagate(number);
  }
  std::vector<at::Tensor> found;
  found.reserve(leaves.size());
  for (const at::Tensor& leaf : leaves) {
    found.push_back(leaf.grad().defined() ? leaf.grad() : at::zeros_like(leaf));
  }
  return found;
}

}  // namespace muster::executor
