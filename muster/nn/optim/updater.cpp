#include "muster/nn/optim/updater.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/types.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "muster/base/error.h"
#include "muster/nn/kernels/parallel_for.h"
#include "muster/nn/model/name_pattern.h"
#include "muster/nn/optim/cuda_launch_internal.h"
#include "muster/nn/optim/custom_update_internal.h"
#include "muster/nn/optim/device_update_internal.h"
#include "muster/nn/optim/flat_kernels_internal.h"
#include "muster/nn/optim/host_update_internal.h"
#include "muster/nn/optim/slot_count.h"
#include "muster/nn/optim/tensor_kernels_internal.h"
#include "muster/nn/optim/update_rule_internal.h"

namespace muster {
namespace {

constexpr std::size_t kMaxSlots = 3;

/// Dense variables that lie side by side and have one optimizer: updated in one go. One variable,
/// where the optimizer updates whole ones.
struct Run {
  std::int64_t offset = 0;
  at::Tensor values{};
  bool is_whole = false;
  /// For the elements that are held; those of a whole variable have their own shapes.
  std::vector<at::Tensor> slots{};
  FlatRange held{};
  std::vector<Variable> variables{};
};

struct Table {
  Variable variable;
  std::vector<at::Tensor> slots;
};

std::array<float*, kMaxSlots> pointers_of(std::span<const at::Tensor> slots, std::int64_t first) {
  std::array<float*, kMaxSlots> pointers{};
  for (std::size_t i = 0; i < slots.size(); ++i) pointers[i] = slots[i].data_ptr<float>() + first;
  return pointers;
}

/// A rule in device memory: every optimizer has this many words.
constexpr std::size_t kRuleWords = 4;
static_assert(sizeof(internal::UpdateRule) <= (kRuleWords + 1) * sizeof(std::int64_t));
static_assert(internal::kCudaGroupElements == 16, "variables.cpp aligns them so");

void write_rule(const internal::UpdateRule& any_rule, std::span<std::int64_t> words) {
  std::visit([&](const auto& rule) { std::memcpy(words.data(), &rule, sizeof(rule)); }, any_rule);
}

internal::CudaUpdate cuda_update_of(const Run& run, const at::Tensor& flat) {
  internal::CudaUpdate update{.count = run.values.numel(),
                              .values = run.values.data_ptr<float>(),
                              .gradients = flat.data_ptr<float>() + run.offset};
  for (std::size_t i = 0; i < run.slots.size(); ++i) {
    update.slots[i] = run.slots[i].data_ptr<float>();
  }
  return update;
}

// An update of now, whose constants are brought to the device on the way.
void update_on_gpu(const internal::UpdateRule& rule, const Run& run, const at::Tensor& flat) {
  const at::Tensor words = at::zeros({kRuleWords}, at::kLong);
  write_rule(rule, {words.data_ptr<std::int64_t>(), kRuleWords});
  const at::Tensor constants = words.to(run.values.device());
  internal::CudaUpdate update = cuda_update_of(run, flat);
  update.rule = static_cast<int>(rule.index());
  update.constants = constants.data_ptr();
  internal::launch_update(update, run.values.device());
}

/// Rule of one optimizer for a step.
using StepRule = std::variant<internal::UpdateRule, internal::CustomRule>;

std::int64_t block_count(const Run& run) {
  return (run.values.numel() + internal::kCudaBlockElements - 1) / internal::kCudaBlockElements;
}

void set_decay(internal::CudaUpdate& update, const DeviceArguments& from, std::int64_t offset) {
  if (!from.decayed.defined()) return;
  update.decay = static_cast<float>(from.decay);
  update.decayed = from.decayed.data_ptr<std::uint8_t>() + offset / internal::kCudaGroupElements;
}

void launch(const internal::CudaUpdate& update, c10::Device device) {
  if (device.is_cpu()) return internal::host_update(update);
  internal::launch_update(update, device);
}

// Updates the elements of the run that are in `range` too.
void update_run(const StepRule& any_rule, const Run& run, const Gradients& gradients_of_run,
                const FlatRange& range) {
  const at::Tensor& flat = gradients_of_run.flat;
  // Where the run begins in `flat`.
  const std::int64_t offset = run.offset - gradients_of_run.first;
  const std::int64_t size = run.values.numel();
  const FlatRange& held = run.held;
  const std::int64_t first = std::max(held.first, range.first - run.offset);
  const std::int64_t last = std::min(held.last, range.last - run.offset);
  if (first >= last) return;
  if (run.is_whole) {
    const Variable& variable = run.variables.front();
    const std::int64_t count = variable.value.numel();
    if (first > 0 || last < count) {
      throw Internal("elements [{}, {}) of {} are updated, which is updated as a whole", first,
                     last, variable.spec.name);
    }
    return internal::custom_update_whole(std::get<internal::CustomRule>(any_rule), variable,
                                         flat.narrow(0, offset, count), run.slots);
  }
  if (const auto* custom = std::get_if<internal::CustomRule>(&any_rule)) {
    const std::int64_t count = held.last - held.first;
    return internal::custom_update(*custom, run.values.narrow(0, held.first, count),
                                   flat.narrow(0, offset + held.first, count), run.slots,
                                   {first - held.first, last - held.first});
  }
  const auto& rule = std::get<internal::UpdateRule>(any_rule);
  if (!run.values.is_cpu()) {
    if (first != 0 || last != size) {
      throw Unimplemented("a part of the variables on {} is updated", run.values.device().str());
    }
    if (run.values.is_cuda()) {
      update_on_gpu(rule, run, flat);
    } else {
      internal::device_update(rule, run.values, flat.narrow(0, offset, size), run.slots);
    }
    return;
  }
  float* values = run.values.data_ptr<float>();
  const float* gradients = flat.data_ptr<float>();
  kernels::parallel_for(first, last, internal::kGrainElements,
                        [&](std::int64_t begin, std::int64_t end) {
                          const auto slots = pointers_of(run.slots, begin - held.first);
                          internal::update(rule, static_cast<std::size_t>(end - begin),
                                           values + begin, gradients + (offset + begin), slots);
                        });
}

void update_table(const StepRule& any_rule, const Table& table, const RowGradient& gradient) {
  if (gradient.empty()) return;
  const at::Tensor& values = table.variable.value;
  if (const auto* custom = std::get_if<internal::CustomRule>(&any_rule)) {
    return internal::custom_update_rows(*custom, gradient, values, table.slots);
  }
  const auto& rule = std::get<internal::UpdateRule>(any_rule);
  if (!values.is_cpu()) {
    internal::device_update_rows(rule, gradient, values, table.slots);
    return;
  }
  const auto width = values.size(1);
  const std::span all(gradient.rows.data_ptr<std::int64_t>(),
                      static_cast<std::size_t>(gradient.rows.numel()));
  const float* gradients = gradient.values.data_ptr<float>();
  const std::int64_t grain =
      std::max<std::int64_t>(1, internal::kGrainElements / std::max<std::int64_t>(1, width));
  kernels::parallel_for(0, gradient.rows.numel(), grain, [&](std::int64_t begin, std::int64_t end) {
    internal::update_rows(rule, all.subspan(begin, end - begin), static_cast<std::size_t>(width),
                          values.data_ptr<float>(), gradients + begin * width,
                          pointers_of(table.slots, 0));
  });
}

std::vector<at::Tensor> make_slots(const Optimizer& optimizer, const at::Tensor& like) {
  std::vector<at::Tensor> slots;
  for (const auto& spec : internal::slots_of(optimizer)) {
    slots.push_back(torch::full_like(like, spec.initial));
  }
  return slots;
}

std::vector<std::int64_t> slot_shape(const OptimizerSlot& slot,
                                     std::span<const std::int64_t> variable) {
  if (slot.shape_of != nullptr) return slot.shape_of(variable);
  return {variable.begin(), variable.end()};
}

std::vector<at::Tensor> make_whole_slots(const Optimizer& optimizer, const Variable& variable) {
  std::vector<at::Tensor> slots;
  for (const auto& spec : internal::slots_of(optimizer)) {
    slots.push_back(
        at::full(slot_shape(spec, variable.spec.shape), spec.initial, variable.value.options())
            .view({-1}));
  }
  return slots;
}

// Makes slots for the run's elements that are in `range`.
void hold_in(Run& run, const FlatRange& range, const Optimizer& optimizer) {
  const std::int64_t size = run.values.numel();
  const std::int64_t first = std::clamp<std::int64_t>(range.first - run.offset, 0, size);
  const std::int64_t last = std::clamp<std::int64_t>(range.last - run.offset, first, size);
  run.held = {first, last};
  // First what is held no longer goes.
  run.slots.clear();
  if (run.is_whole) {
    const Variable& variable = run.variables.front();
    if (last == first) return;
    if (first > 0 || last < variable.value.numel()) {
      throw Internal("a part of {} is held, which is updated as a whole", variable.spec.name);
    }
    run.slots = make_whole_slots(optimizer, variable);
    return;
  }
  run.slots = make_slots(optimizer, run.values.narrow(0, first, last - first));
}

bool is_pattern(std::string_view prefix) { return prefix.find('*') != std::string_view::npos; }

/// Whether an entry is for a variable rather than another that is for it too.
bool goes_before(std::string_view prefix, std::string_view other) {
  if (is_pattern(prefix) != is_pattern(other)) return is_pattern(prefix);
  return prefix.size() > other.size();
}

/// The optimizer of each name: of the patterns that match, or else of the prefixes, the longest.
std::optional<std::size_t> owner_of(const OptimizersByPrefix& optimizers, std::string_view name) {
  std::optional<std::size_t> owner;
  for (std::size_t i = 0; i < optimizers.size(); ++i) {
    const std::string& prefix = optimizers[i].prefix;
    if (is_pattern(prefix) ? !matches_name(prefix, name) : !name.starts_with(prefix)) continue;
    if (!owner || goes_before(prefix, optimizers[*owner].prefix)) owner = i;
  }
  return owner;
}

void check_prefixes(const OptimizersByPrefix& optimizers) {
  std::set<std::string_view> prefixes;
  for (const OptimizerFor& entry : optimizers) {
    if (!prefixes.insert(entry.prefix).second) {
      throw InvalidArgument("two optimizers have the prefix `{}`", entry.prefix);
    }
  }
}

/// The owner of every variable; variables that are not trained have none.
std::vector<std::optional<std::size_t>> owners_of(const Variables& variables,
                                                  const OptimizersByPrefix& optimizers) {
  std::vector<std::optional<std::size_t>> owners;
  std::vector<std::string> orphans;
  std::vector<bool> used(optimizers.size(), false);
  for (const Variable& variable : variables.all()) {
    owners.push_back(variable.spec.trainable ? owner_of(optimizers, variable.spec.name)
                                             : std::nullopt);
    if (owners.back()) used[*owners.back()] = true;
    if (variable.spec.trainable && !owners.back()) orphans.push_back(variable.spec.name);
  }
  if (!orphans.empty()) {
    throw InvalidArgument("no optimizer's prefix matches `{}`: add one, or one with prefix \"\"",
                          fmt::join(orphans, "`, `"));
  }
  const auto idle = std::ranges::find(used, false);
  if (idle != used.end()) {
    throw InvalidArgument("the optimizer with prefix `{}` has no variable of its own",
                          optimizers[static_cast<std::size_t>(idle - used.begin())].prefix);
  }
  return owners;
}

bool updates_whole(const Optimizer& optimizer) {
  const CustomOptions* custom = internal::custom_of(optimizer);
  return custom != nullptr && custom->whole_variables;
}

// Throws where an optimizer that updates whole variables cannot train one of its own.
void check_whole(const Variables& variables, const OptimizersByPrefix& optimizers,
                 const std::vector<std::optional<std::size_t>>& owners) {
  for (std::size_t i = 0; i < owners.size(); ++i) {
    if (!owners[i]) continue;
    const VariableSpec& spec = variables.all()[i].spec;
    const CustomOptions* custom = internal::custom_of(optimizers[*owners[i]].optimizer);
    if (custom == nullptr) continue;
    if (custom->whole_variables && spec.sparse) {
      throw InvalidArgument(
          "{} updates whole variables, and `{}` is a table of which a step touches some rows: give "
          "it another optimizer by its prefix, such as {{\"{}\", adam()}}",
          custom->name, spec.name, spec.name);
    }
    const std::string obstacle = custom->obstacle ? custom->obstacle(spec.shape) : "";
    if (!obstacle.empty()) {
      throw InvalidArgument("{}: `{}` of shape [{}] {}", custom->name, spec.name,
                            fmt::join(spec.shape, ", "), obstacle);
    }
  }
}

/// The dense variables in flat order, cut where the owner changes, and around whole ones.
std::vector<std::pair<std::size_t, Run>> runs_of(
    const Variables& variables, const OptimizersByPrefix& optimizers,
    const std::vector<std::optional<std::size_t>>& owners) {
  std::vector<std::pair<std::size_t, Run>> runs;
  for (std::size_t i = 0; i < owners.size(); ++i) {
    const Variable& variable = variables.all()[i];
    if (!variable.dense()) continue;
    const bool is_whole = updates_whole(optimizers[*owners[i]].optimizer);
    if (runs.empty() || runs.back().first != *owners[i] || is_whole) {
      runs.push_back({*owners[i], Run{.offset = variable.offset, .is_whole = is_whole}});
    }
    runs.back().second.variables.push_back(variable);
  }
  for (std::size_t i = 0; i < runs.size(); ++i) {
    Run& run = runs[i].second;
    const std::int64_t end =
        i + 1 < runs.size() ? runs[i + 1].second.offset : variables.flat().numel();
    run.values = variables.flat().narrow(0, run.offset, end - run.offset);
  }
  return runs;
}

/// The scalars of an Adam; of the second one of a scope on, their names are numbered.
std::vector<NamedTensor> make_powers(const Optimizer& optimizer, const std::string& scope,
                                     std::map<std::string, int>& adam_counts) {
  const auto first = internal::first_powers(optimizer);
  if (!first) return {};
  const int before = adam_counts[scope]++;
  const std::string number = before == 0 ? "" : fmt::format("_{}", before);
  return {{scope + "beta1_power" + number, torch::full({}, first->beta1, at::kFloat)},
          {scope + "beta2_power" + number, torch::full({}, first->beta2, at::kFloat)}};
}

}  // namespace

std::size_t slot_elements(const OptimizersByPrefix& optimizers, std::string_view variable,
                          std::span<const std::int64_t> shape) {
  const auto owner = owner_of(optimizers, variable);
  if (!owner) return 0;
  std::size_t elements = 0;
  for (const OptimizerSlot& slot : internal::slots_of(optimizers[*owner].optimizer)) {
    elements += static_cast<std::size_t>(c10::multiply_integers(slot_shape(slot, shape)));
  }
  return elements;
}

bool is_kept_whole(const OptimizersByPrefix& optimizers, std::string_view variable) {
  const auto owner = owner_of(optimizers, variable);
  return owner && updates_whole(optimizers[*owner].optimizer);
}

std::optional<EvaluationOffset> evaluation_offset(const OptimizersByPrefix& optimizers,
                                                  std::string_view variable) {
  const auto owner = owner_of(optimizers, variable);
  if (!owner) return std::nullopt;
  const CustomOptions* custom = internal::custom_of(optimizers[*owner].optimizer);
  if (custom == nullptr || !custom->evaluated) return std::nullopt;
  return EvaluationOffset{
      fmt::format("{}/{}{}", variable, optimizers[*owner].scopes.slots, custom->evaluated->slot),
      custom->evaluated->factor};
}

bool has_evaluation_offset(const OptimizersByPrefix& optimizers) {
  return std::ranges::any_of(optimizers, [](const OptimizerFor& entry) {
    const CustomOptions* custom = internal::custom_of(entry.optimizer);
    return custom != nullptr && custom->evaluated;
  });
}

namespace {

/// ElementUpdate::rate_share by step: a function of the schedule, whose sum up to the last step
/// that was asked for is kept.
class RateShares {
 public:
  double at(const LearningRate& schedule, std::int64_t step) {
    if (step < next_ - 1) *this = {};
    for (; next_ <= step; ++next_) {
      largest_ = std::max(largest_, schedule.at(next_));
      sum_ += largest_ * largest_;
    }
    return sum_ > 0 ? largest_ * largest_ / sum_ : 0.0;
  }

 private:
  /// The sum has the steps before this one.
  std::int64_t next_ = 0;
  double largest_ = 0;
  double sum_ = 0;
};

}  // namespace

/// One optimizer, its variables and its state.
struct Updater::Group {
  std::string prefix;
  Optimizer optimizer;
  SlotScopes scopes{};
  std::vector<Run> runs{};
  std::vector<Table> tables{};
  /// Which kind of rule write_constants() wrote.
  int rule = 0;
  /// [beta1_power, beta2_power] as scalars, for Adam.
  std::vector<NamedTensor> powers{};
  RateShares rate_shares{};

  internal::BetaPowers beta_powers() const {
    if (powers.empty()) return {};
    return {*powers[0].tensor.data_ptr<float>(), *powers[1].tensor.data_ptr<float>()};
  }
  void advance_powers() {
    if (powers.empty()) return;
    const auto next = internal::next_powers(optimizer, beta_powers());
    *powers[0].tensor.data_ptr<float>() = next.beta1;
    *powers[1].tensor.data_ptr<float>() = next.beta2;
  }
  std::string slot_name(const Variable& variable, const std::string& slot) const {
    return variable.spec.name + "/" + scopes.slots + slot;
  }
  void add_slots_of(const Variable& variable, std::span<const at::Tensor> slots, std::int64_t first,
                    std::vector<NamedTensor>& tensors) const {
    const auto specs = internal::slots_of(optimizer);
    for (std::size_t i = 0; i < slots.size(); ++i) {
      const auto shape = slot_shape(specs[i], variable.spec.shape);
      tensors.push_back(
          {slot_name(variable, specs[i].name),
           slots[i].view({-1}).narrow(0, first, c10::multiply_integers(shape)).view(shape)});
    }
  }
  // All of each slot, or nothing.
  void add_whole_parts(const Run& run, std::vector<TensorPart>& parts) const {
    const Variable& variable = run.variables.front();
    for (std::size_t i = 0; const auto& spec : internal::slots_of(optimizer)) {
      const at::Tensor slot =
          run.slots.empty() ? at::empty({0}, variable.value.options()) : run.slots[i];
      parts.push_back({slot_name(variable, spec.name), slot_shape(spec, variable.spec.shape), 0,
                       slot.numel(), slot});
      ++i;
    }
  }
};

Updater::Updater(const Variables& variables, const OptimizersByPrefix& optimizers,
                 std::optional<FlatRange> held)
    : held_(held),
      flat_(variables.flat()),
      flat_size_(variables.flat().numel()),
      sparse_count_(variables.sparse_count()) {
  check_prefixes(optimizers);
  const auto owners = owners_of(variables, optimizers);
  std::map<std::string, int> adam_counts;
  for (const OptimizerFor& entry : optimizers) {
    groups_.push_back(
        {.prefix = entry.prefix, .optimizer = entry.optimizer, .scopes = entry.scopes});
    Group& group = groups_.back();
    group.powers = make_powers(group.optimizer, group.scopes.scalars, adam_counts);
  }
  if (held_ && !flat_.is_cpu()) {
    throw Unimplemented("a part of the variables on {} is held", flat_.device().str());
  }
  check_whole(variables, optimizers, owners);
  for (auto& [owner, run] : runs_of(variables, optimizers, owners)) {
    hold_in(run, held_.value_or(FlatRange{0, flat_size_}), groups_[owner].optimizer);
    groups_[owner].runs.push_back(std::move(run));
  }
  for (std::size_t i = 0; i < owners.size(); ++i) {
    const Variable& variable = variables.all()[i];
    if (!variable.sparse()) continue;
    Group& group = groups_[*owners[i]];
    group.tables.push_back({variable, make_slots(group.optimizer, variable.value)});
  }
}

Updater::Updater(Updater&&) noexcept = default;
Updater& Updater::operator=(Updater&&) noexcept = default;
Updater::~Updater() = default;

void Updater::check(const Gradients& gradients) const {
  const FlatRange updated = held_.value_or(FlatRange{0, flat_size_});
  const bool is_plain = gradients.flat.defined() && gradients.flat.scalar_type() == at::kFloat &&
                        gradients.flat.is_contiguous();
  if (!is_plain || gradients.first < 0 || gradients.first > updated.first ||
      gradients.first + gradients.flat.numel() < updated.last ||
      gradients.first + gradients.flat.numel() > flat_size_) {
    throw InvalidArgument(
        "flat gradients must be contiguous float32 values of the elements [{}, {}) of {}",
        updated.first, updated.last, flat_size_);
  }
  if (gradients.rows.size() != sparse_count_) {
    throw InvalidArgument("there are {} row gradients for {} sparse variables",
                          gradients.rows.size(), sparse_count_);
  }
  for (const Group& group : groups_) {
    for (const Run& run : group.runs) {
      if (run.values.device() != gradients.flat.device()) {
        throw InvalidArgument("gradients are on {}, variables on {}", gradients.flat.device().str(),
                              run.values.device().str());
      }
    }
    for (const Table& table : group.tables) {
      const Variable& variable = table.variable;
      check_row_gradient(gradients.rows[static_cast<std::size_t>(variable.rows_index)],
                         variable.value.size(0), variable.value.size(1), variable.spec.name);
    }
  }
}

void Updater::apply(const Gradients& gradients, std::int64_t step) {
  const FlatRange all{0, flat_size_};
  apply(gradients, step, std::span(&all, 1));
}

void Updater::apply(const Gradients& gradients, std::int64_t step,
                    std::span<const FlatRange> only) {
  check(gradients);
  const at::NoGradGuard no_grad;
  // All rules before the first update: one that a rate does not allow leaves everything as it was.
  std::vector<StepRule> rules;
  rules.reserve(groups_.size());
  for (Group& group : groups_) {
    const double rate = group.optimizer.learning_rate().at(step);
    if (const CustomOptions* custom = internal::custom_of(group.optimizer)) {
      const double share = custom->averages_by_rate
                               ? group.rate_shares.at(group.optimizer.learning_rate(), step)
                               : 0.0;
      rules.emplace_back(internal::CustomRule{*custom, rate, step, share});
    } else {
      rules.emplace_back(internal::rule_of(group.optimizer, rate, group.beta_powers()));
    }
  }
  auto next_rule = rules.begin();
  for (Group& group : groups_) {
    const StepRule& rule = *next_rule++;
    for (const Run& run : group.runs) {
      for (const FlatRange& range : only) update_run(rule, run, gradients, range);
    }
    for (const Table& table : group.tables) {
      update_table(rule, table,
                   gradients.rows[static_cast<std::size_t>(table.variable.rows_index)]);
    }
    group.advance_powers();
  }
}

std::size_t Updater::constants_size() const { return groups_.size() * kRuleWords; }

std::size_t Updater::squares_size() const {
  std::int64_t blocks = 0;
  for (const Group& group : groups_) {
    for (const Run& run : group.runs) blocks += block_count(run);
  }
  return static_cast<std::size_t>(blocks);
}

void Updater::write_constants(std::int64_t step, std::span<std::int64_t> words) {
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    Group& group = groups_[i];
    const auto rule = internal::rule_of(group.optimizer, group.optimizer.learning_rate().at(step),
                                        group.beta_powers());
    group.rule = static_cast<int>(rule.index());
    write_rule(rule, words.subspan(i * kRuleWords, kRuleWords));
  }
  for (Group& group : groups_) group.advance_powers();
}

void Updater::apply(const Gradients& gradients, const DeviceArguments& from) {
  check(gradients);
  if (sparse_count_ > 0) throw Internal("tables are updated by constants in device memory");
  std::int64_t first_block = 0;
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    for (const Run& run : groups_[i].runs) {
      internal::CudaUpdate update = cuda_update_of(run, gradients.flat);
      update.rule = groups_[i].rule;
      update.constants = from.constants.data_ptr<std::int64_t>() + i * kRuleWords;
      update.losses = from.losses.data_ptr<float>();
      update.loss_count = static_cast<int>(from.losses.numel());
      update.step = from.step.data_ptr<std::int64_t>();
      update.bad_step = from.bad_step.data_ptr<std::int64_t>();
      set_decay(update, from, run.offset);
      if (from.squares.defined()) update.squares = from.squares.data_ptr<double>() + first_block;
      launch(update, run.values.device());
      first_block += block_count(run);
    }
  }
}

void Updater::add_decay(const Gradients& gradients, const DeviceArguments& from) const {
  check(gradients);
  internal::CudaUpdate update{.count = flat_size_, .values = flat_.data_ptr<float>()};
  set_decay(update, from, 0);
  if (from.squares.defined()) update.squares = from.squares.data_ptr<double>();
  float* const added_to = gradients.flat.data_ptr<float>();
  if (flat_.is_cpu()) return internal::host_add_decay(update, added_to);
  internal::launch_decay(update, added_to, flat_.device());
}

std::vector<Updater::Rate> Updater::learning_rates(std::int64_t step) const {
  std::vector<Rate> rates;
  for (const Group& group : groups_) {
    rates.push_back({group.prefix, group.optimizer.learning_rate().at(step)});
  }
  return rates;
}

std::vector<std::string> Updater::descriptions() const {
  std::vector<std::string> lines;
  for (const Group& group : groups_) {
    std::size_t count = group.tables.size();
    for (const Run& run : group.runs) count += run.variables.size();
    lines.push_back(fmt::format("optimizer prefix=\"{}\" variables={} {}", group.prefix, count,
                                group.optimizer.description()));
  }
  return lines;
}

std::vector<NamedTensor> Updater::tensors() const {
  std::vector<NamedTensor> tensors;
  for (const Group& group : groups_) {
    for (const Run& run : group.runs) {
      if (held_) continue;
      for (const Variable& variable : run.variables) {
        group.add_slots_of(variable, run.slots, variable.offset - run.offset, tensors);
      }
    }
    for (const Table& table : group.tables) {
      group.add_slots_of(table.variable, table.slots, 0, tensors);
    }
    tensors.insert(tensors.end(), group.powers.begin(), group.powers.end());
  }
  return tensors;
}

void Updater::hold(const FlatRange& range) {
  if (!held_) throw Internal("an updater that holds all elements is to hold some");
  held_ = range;
  for (Group& group : groups_) {
    for (Run& run : group.runs) hold_in(run, range, group.optimizer);
  }
}

std::vector<TensorPart> Updater::parts() const {
  std::vector<TensorPart> parts;
  if (!held_) return parts;
  for (const Group& group : groups_) {
    const auto specs = internal::slots_of(group.optimizer);
    for (const Run& run : group.runs) {
      if (run.is_whole) {
        group.add_whole_parts(run, parts);
        continue;
      }
      for (const Variable& variable : run.variables) {
        const FlatRange held = elements_in(variable, *held_);
        const std::int64_t begin = variable.offset - run.offset + held.first - run.held.first;
        for (std::size_t i = 0; i < run.slots.size(); ++i) {
          parts.push_back(
              {group.slot_name(variable, specs[i].name), variable.spec.shape, held.first, held.last,
               run.slots[i].narrow(0, held == FlatRange{} ? 0 : begin, held.last - held.first)});
        }
      }
    }
  }
  return parts;
}

}  // namespace muster
