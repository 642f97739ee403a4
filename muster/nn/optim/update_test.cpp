#include "muster/nn/optim/update.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "muster/nn/optim/norm_shards.h"
#include "muster/nn/optim/tensor_part.h"

namespace muster {
namespace {

constexpr std::int64_t kSteps = 3;

/// Dense variables alone, one of them of several blocks, or with a table.
Variables variables_with(bool has_table) {
  std::vector<VariableSpec> specs{{.name = "a/kernel", .shape = {300, 250}},
                                  {.name = "a/bias", .shape = {7}},
                                  {.name = "b/kernel", .shape = {5, 3}}};
  if (has_table) {
    specs.push_back({.name = "b/table", .shape = {2 * kNormRowBlock + 5, 3}, .sparse = true});
  }
  return Variables(specs);
}

OptimizersByPrefix optimizers() {
  return {{"a", adam({.learning_rate = 0.1})}, {"b", momentum({.learning_rate = 0.1})}};
}

/// Small multiples of 1/8: sums of their squares are exact, whatever the order. Another order of
/// norms is all that a device may have.
at::Tensor eighths(at::IntArrayRef shape, std::int64_t seed) {
  const at::Tensor flat = at::arange(at::ones(shape).numel(), at::kLong);
  return ((flat * 7 + seed * 5) % 23 - 11).to(at::kFloat).div(8).reshape(shape);
}

Gradients gradients_of(const Variables& variables, std::int64_t step) {
  Gradients gradients = variables.make_gradients();
  for (const Variable& variable : variables.all()) {
    if (variable.dense()) gradients.of(variable).copy_(eighths(variable.spec.shape, step + 1));
  }
  if (!gradients.rows.empty()) {
    // Rows of both servers.
    gradients.rows[0] = {torch::tensor({1, 70, 5000, 8195}, at::kLong), eighths({4, 3}, step + 2)};
  }
  return gradients;
}

/// A holder of the variables: what every kind of update begins with.
struct Holder {
  explicit Holder(bool has_table, std::optional<FlatRange> held = std::nullopt)
      : variables(variables_with(has_table)), updater(variables, optimizers(), held) {}

  // Values that the norms of a step are exact with; slots resume from the step before.
  void set_values(std::int64_t step) {
    for (const Variable& variable : variables.all()) {
      variable.value.copy_(eighths(variable.spec.shape, step));
    }
  }

  Variables variables;
  Updater updater;
};

/// The values and slots after some steps, and what they said.
struct Result {
  std::vector<NamedTensor> tensors{};
  std::vector<double> decay_losses{};
  std::vector<bool> made{};
};

void add_tensors(const Holder& holder, Result& result) {
  result.tensors = holder.variables.tensors();
  const auto slots = holder.updater.tensors();
  result.tensors.insert(result.tensors.end(), slots.begin(), slots.end());
}

/// Kind of gradients that a step has, and its loss.
struct Input {
  bool has_table = false;
  double loss_scale = 1.0;
  /// The step whose loss or gradient is NaN.
  std::int64_t bad_loss = -1;
  std::int64_t bad_gradient = -1;

  Gradients gradients(const Variables& variables, std::int64_t step) const {
    Gradients made = gradients_of(variables, step);
    if (step == bad_gradient) made.of(variables.all()[0]).fill_(std::nanf(""));
    made.flat.mul_(loss_scale);
    for (RowGradient& rows : made.rows) rows.values = rows.values * loss_scale;
    return made;
  }
  std::vector<at::Tensor> losses(std::int64_t step) const {
    return {at::full({}, step == bad_loss ? std::numeric_limits<float>::infinity() : 1.0f),
            at::Tensor()};
  }
};

Result on_host(const UpdateRules& rules, const Input& input) {
  Holder holder(input.has_table);
  HostUpdate update(holder.variables, holder.updater, rules);
  Result result;
  for (std::int64_t step = 0; step < kSteps; ++step) {
    holder.set_values(step);
    Gradients gradients = input.gradients(holder.variables, step);
    result.made.push_back(all_finite(input.losses(step)));
    if (!result.made.back()) continue;
    result.decay_losses.push_back(update.prepare(gradients, input.loss_scale));
    const SquareSums norms = update.norms(gradients);
    result.made.back() = update.is_finite(gradients, norms);
    if (result.made.back()) update.apply(gradients, step, norms);
  }
  add_tensors(holder, result);
  return result;
}

/// Share of the first or the second of two servers: variables are cut between blocks.
struct Half {
  Half(const Variables& variables, bool is_first) {
    for (const VariablePart& whole : variables.whole()) {
      const Variable& variable = variables.all()[whole.variable];
      const std::int64_t cut = std::min(whole.last, variable.dense() ? kNormBlock : kNormRowBlock);
      const VariablePart part = is_first ? VariablePart{whole.variable, 0, cut}
                                         : VariablePart{whole.variable, cut, whole.last};
      if (part.first == part.last) continue;
      parts.push_back(part);
      if (variable.dense()) {
        flat.push_back({variable.offset + part.first, variable.offset + part.last});
      }
    }
  }

  // Zero, or not there, where another holds it.
  Gradients of(const Gradients& all, const Variables& variables) const {
    Gradients own = variables.make_gradients();
    for (const VariablePart& part : parts) {
      const Variable& variable = variables.all()[part.variable];
      if (variable.dense()) {
        part.of(own.of(variable), variable).copy_(part.of(all.of(variable), variable));
        continue;
      }
      const RowGradient& rows = all.rows[0];
      const at::Tensor mine = (rows.rows >= part.first).logical_and(rows.rows < part.last);
      const at::Tensor places = mine.nonzero().reshape({-1});
      own.rows[0] = {rows.rows.index_select(0, places), rows.values.index_select(0, places)};
    }
    return own;
  }

  std::vector<VariablePart> parts;
  std::vector<FlatRange> flat;
};

/// Puts the parts that `half` holds of one into the other.
void copy_held(const Half& half, const Holder& from, const Variables& layout, Result& to) {
  Result whole;
  add_tensors(from, whole);
  for (std::size_t i = 0; i < whole.tensors.size(); ++i) {
    const NamedTensor& tensor = whole.tensors[i];
    const Variable* owner = layout.find(tensor.name);
    if (owner == nullptr) owner = layout.owner_of_slot(tensor.name);
    if (owner == nullptr) continue;
    for (const VariablePart& part : half.parts) {
      if (&layout.all()[part.variable] != owner) continue;
      part.of(to.tensors[i].tensor, *owner).copy_(part.of(tensor.tensor, *owner));
    }
  }
}

Result on_shards(const UpdateRules& rules, const Input& input) {
  Holder holders[]{Holder(input.has_table), Holder(input.has_table)};
  const Half halves[]{{holders[0].variables, true}, {holders[1].variables, false}};
  std::vector<HostUpdate> updates;
  for (std::size_t i = 0; i < 2; ++i) {
    updates.emplace_back(holders[i].variables, holders[i].updater, rules,
                         VariableShard{halves[i].parts, halves[i].flat});
  }
  Result result;
  for (std::int64_t step = 0; step < kSteps; ++step) {
    const Gradients all = input.gradients(holders[0].variables, step);
    result.made.push_back(all_finite(input.losses(step)));
    std::vector<Gradients> gradients;
    SquareSums norms(holders[0].variables);
    for (std::size_t i = 0; i < 2; ++i) {
      holders[i].set_values(step);
      gradients.push_back(halves[i].of(all, holders[i].variables));
      if (!result.made.back()) continue;
      updates[i].prepare(gradients[i], input.loss_scale);
      SquareSums own = updates[i].norms(gradients[i]);
      for (std::size_t b = 0; b < own.blocks().size(); ++b) norms.blocks()[b] += own.blocks()[b];
    }
    if (!result.made.back()) continue;
    for (std::size_t i = 0; i < 2; ++i) {
      result.made.back() = updates[i].is_finite(gradients[i], norms);
      if (result.made.back()) updates[i].apply(gradients[i], step, norms);
    }
  }
  add_tensors(holders[0], result);
  copy_held(halves[1], holders[1], holders[0].variables, result);
  return result;
}

// All values of a holder, and the slots that another has none of: the rest of `to` stays.
void copy_range(const Holder& from, const FlatRange& range, Result& to) {
  const auto copy = [&](const std::string& name, const at::Tensor& values, std::int64_t first) {
    for (const NamedTensor& whole : to.tensors) {
      if (whole.name == name) {
        whole.tensor.view({-1}).narrow(0, first, values.numel()).copy_(values);
      }
    }
  };
  for (const TensorPart& part : value_parts(from.variables, range)) {
    copy(part.name, part.values, part.first);
  }
  for (const TensorPart& part : from.updater.parts()) copy(part.name, part.values, part.first);
  // Those of tables, and powers.
  for (const NamedTensor& slot : from.updater.tensors()) copy(slot.name, slot.tensor.view({-1}), 0);
  for (const Variable& table : from.variables.all()) {
    if (table.sparse()) copy(table.spec.name, table.value.view({-1}), 0);
  }
}

// Each of two has all values, and a range of the gradients and slots; a block of the norms is cut.
Result on_ranges(const UpdateRules& rules, const Input& input) {
  constexpr std::int64_t kCut = kNormBlock + 7232;
  const Variables layout = variables_with(input.has_table);
  const std::vector<FlatRange> ranges{{0, kCut}, {kCut, layout.flat().numel()}};
  Holder holders[]{Holder(input.has_table, ranges[0]), Holder(input.has_table, ranges[1])};
  const NormShards shards(layout, ranges);
  std::vector<HostUpdate> updates;
  for (Holder& one : holders) updates.emplace_back(one.variables, one.updater, rules);
  Result result;
  for (std::int64_t step = 0; step < kSteps; ++step) {
    result.made.push_back(all_finite(input.losses(step)));
    std::vector<Gradients> gradients;
    std::vector<at::Tensor> records;
    for (std::size_t i = 0; i < 2; ++i) {
      holders[i].set_values(step);
      Gradients own = input.gradients(layout, step);
      own.flat = own.within(ranges[i].first, ranges[i].last).clone();
      own.first = ranges[i].first;
      gradients.push_back(std::move(own));
      if (!result.made.back()) continue;
      const double decay_loss = updates[i].prepare(gradients[i], input.loss_scale);
      if (i == 0) result.decay_losses.push_back(decay_loss);
      EXPECT_EQ(decay_loss, result.decay_losses.back());
      records.push_back(at::empty({shards.size_of_record(i)}, at::kFloat));
      shards.write(gradients[i], i, records[i]);
    }
    if (!result.made.back()) continue;
    for (std::size_t i = 0; i < 2; ++i) {
      const SquareSums norms =
          shards.sums(gradients[i], [&](std::size_t holder) { return records[holder]; });
      result.made.back() = updates[i].is_finite(gradients[i], norms);
      if (result.made.back()) updates[i].apply(gradients[i], step, norms);
    }
  }
  add_tensors(Holder(input.has_table), result);
  for (std::size_t i = 0; i < 2; ++i) copy_range(holders[i], ranges[i], result);
  return result;
}

// In the memory of the device that is there: the host's, or a GPU's.
Result on_device(const UpdateRules& rules, const Input& input) {
  Holder holder(input.has_table);
  const at::Tensor number = at::zeros({1}, at::kLong);
  const at::Tensor constants =
      at::zeros({static_cast<std::int64_t>(holder.updater.constants_size())}, at::kLong);
  DeviceUpdate update(holder.variables, holder.updater, rules, nullptr, number, constants);
  Result result;
  for (std::int64_t step = 0; step < kSteps; ++step) {
    holder.set_values(step);
    Gradients gradients = input.gradients(holder.variables, step);
    number.fill_(step);
    holder.updater.write_constants(
        step, {constants.data_ptr<std::int64_t>(), static_cast<std::size_t>(constants.numel())});
    update.apply(gradients, input.losses(step), step);
    result.made.push_back(!update.first_bad_step());
    if (result.made.back()) result.decay_losses.push_back(update.decay_loss());
  }
  add_tensors(holder, result);
  return result;
}

void expect_same(const Result& one, const Result& other, const std::string& what) {
  EXPECT_EQ(one.made, other.made) << what;
  ASSERT_EQ(one.tensors.size(), other.tensors.size());
  for (std::size_t i = 0; i < one.tensors.size(); ++i) {
    EXPECT_TRUE(at::equal(one.tensors[i].tensor, other.tensors[i].tensor))
        << what << ": " << one.tensors[i].name;
  }
}

struct NamedRules {
  std::string name{};
  UpdateRules rules{};
};

std::vector<NamedRules> all_rules() {
  const WeightDecay decay{.factor = 0.5,
                          .filter = [](std::string_view name) { return name != "a/bias"; }};
  return {{"plain", {}},
          {"decay", {.weight_decay = decay}},
          {"clip by value", {.weight_decay = decay, .clip = {.value = 0.75}}},
          {"clip by norm", {.weight_decay = decay, .clip = {.norm = 2.0}}},
          {"clip by global norm", {.weight_decay = decay, .clip = {.global_norm = 3.0}}}};
}

TEST(Update, HostShardsAndDeviceMakeTheSameBits) {
  const at::NoGradGuard no_grad;
  for (const auto& [name, rules] : all_rules()) {
    const Result host = on_host(rules, {});
    expect_same(host, on_shards(rules, {}), name + " on shards");
    const Result ranges = on_ranges(rules, {});
    expect_same(host, ranges, name + " on ranges");
    EXPECT_EQ(host.decay_losses, ranges.decay_losses) << name;
    const Result device = on_device(rules, {});
    expect_same(host, device, name + " on a device");
    EXPECT_EQ(host.decay_losses, device.decay_losses) << name;
  }
}

TEST(Update, HostAndShardsMakeTheSameBitsOfTablesAndScaledGradients) {
  const at::NoGradGuard no_grad;
  const Input input{.has_table = true, .loss_scale = 1024};
  for (auto [name, rules] : all_rules()) {
    rules.checks_gradients = true;
    const Result host = on_host(rules, input);
    expect_same(host, on_shards(rules, input), name + " on shards");
    expect_same(host, on_ranges(rules, input), name + " on ranges");
    // The scale is a power of two, so taking it off leaves nothing of it.
    expect_same(host, on_host(rules, {.has_table = true}), name + " unscaled");
  }
}

TEST(Update, EveryRuleChangesSomething) {
  const at::NoGradGuard no_grad;
  std::vector<Result> results;
  for (const auto& [name, rules] : all_rules()) {
    results.push_back(on_host(rules, {}));
    for (std::size_t i = 0; i + 1 < results.size(); ++i) {
      EXPECT_FALSE(at::equal(results[i].tensors[0].tensor, results.back().tensors[0].tensor))
          << name << " is as " << all_rules()[i].name;
    }
  }
}

TEST(Update, ABadGradientVoidsTheUpdateOnHostAndShards) {
  const at::NoGradGuard no_grad;
  const Input input{.bad_gradient = 1};
  for (auto [name, rules] : all_rules()) {
    rules.checks_gradients = true;
    const Result host = on_host(rules, input);
    EXPECT_EQ(host.made, (std::vector<bool>{true, false, true})) << name;
    expect_same(host, on_shards(rules, input), name);
    expect_same(host, on_ranges(rules, input), name + " on ranges");
  }
}

TEST(Update, ABadLossVoidsTheUpdate) {
  const at::NoGradGuard no_grad;
  const Input input{.bad_loss = 1};
  const Result host = on_host({}, input);
  EXPECT_EQ(host.made, (std::vector<bool>{true, false, true}));
  expect_same(host, on_shards({}, input), "shards");
  // The device is not looked at in between: it holds all later ones back too.
  EXPECT_EQ(on_device({}, input).made, (std::vector<bool>{true, false, false}));
}

TEST(Update, ADeviceMakesNoUpdateThatSomebodyHasToLookAt) {
  EXPECT_TRUE(DeviceUpdate::can_make({}, variables_with(false)));
  EXPECT_FALSE(DeviceUpdate::can_make({.checks_gradients = true}, variables_with(false)));
  EXPECT_FALSE(DeviceUpdate::can_make({}, variables_with(true)));
}

}  // namespace
}  // namespace muster
