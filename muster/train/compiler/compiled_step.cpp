#include "muster/train/compiler/compiled_step.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/where.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <deque>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "muster/base/log.h"
#include "muster/train/compiler/interpreter.h"
#include "muster/train/compiler/torch_dispatch.h"

namespace muster::compiler {
namespace {

using Tensors = std::vector<at::Tensor>;

/// Results of a step: its outputs, and the memory that it changed.
struct Outcome {
  Tensors outputs;
  /// As float64 or as they are; by output, then by changed memory.
  Tensors values{};
};

Tensors views_of_changed(const Graph& graph) {
  Tensors views;
  std::vector<ValueId> seen;
  for (const Node& node : graph.nodes) {
    for (const ValueId value : node.writes) {
      const Storage& storage = graph.storage(graph.storage_of(value));
      if (storage.kind != Storage::Kind::kExternal || std::ranges::count(seen, value) > 0) continue;
      seen.push_back(value);
      const Geometry& geometry = graph.geometry(value);
      views.push_back(tensor_of(storage.memory, keys_of(geometry.device), geometry.type,
                                geometry.sizes, geometry.strides, geometry.offset));
    }
  }
  return views;
}

Outcome outcome_of(Tensors outputs, const Tensors& changed) {
  const BelowAutograd below;
  Outcome outcome{.outputs = std::move(outputs)};
  for (const at::Tensor& output : outcome.outputs) {
    if (output.defined()) outcome.values.push_back(output.clone());
  }
  for (const at::Tensor& one : changed) outcome.values.push_back(one.clone());
  return outcome;
}

// Elements that are not finite, as after a bad batch, must be so in the same places.
double distance(const at::Tensor& one, const at::Tensor& other) {
  if (at::equal(one, other)) return 0;
  if (!at::isFloatingType(one.scalar_type())) return 1;
  const at::Tensor is_finite = other.isfinite();
  if (!at::equal(one.isfinite(), is_finite)) return std::numeric_limits<double>::infinity();
  const at::Tensor wanted = at::where(is_finite, other.to(at::kDouble), 0.0);
  const double off =
      (at::where(is_finite, one.to(at::kDouble), 0.0) - wanted).norm().item<double>();
  const double size = wanted.norm().item<double>();
  return off == 0 ? 0 : off / std::max(size, 1e-12);
}

/// By value, the relative errors.
std::vector<double> distances(const Outcome& ours, const Outcome& wanted) {
  const BelowAutograd below;
  std::vector<double> all;
  for (std::size_t i = 0; i < wanted.values.size(); ++i) {
    all.push_back(distance(ours.values[i], wanted.values[i]));
  }
  return all;
}

/// The value that is furthest from what it may be, if one is further.
struct TooFar {
  std::size_t value = 0;
  double off = 0;
  double allowed = 0;
};

// NaN is too far, too.
std::optional<TooFar> too_far(const std::vector<double>& off, const std::vector<double>& allowed) {
  std::optional<TooFar> worst;
  for (std::size_t i = 0; i < off.size(); ++i) {
    const double most = worst ? worst->off / worst->allowed : 1.0;
    if (!(off[i] <= most * allowed[i])) worst = TooFar{i, off[i], allowed[i]};
  }
  return worst;
}

std::string text_of(const TooFar& off) {
  return fmt::format("value {} is off by {:.3g}, and may be by {:.3g}", off.value, off.off,
                     off.allowed);
}

std::vector<Geometry> layout_of(const Tensors& inputs) {
  std::vector<Geometry> layout;
  for (const at::Tensor& input : inputs) layout.push_back(geometry_of(input));
  return layout;
}

at::Tensor bytes_of(const Storage& storage) {
  const auto size = static_cast<std::int64_t>(storage.memory.nbytes());
  return tensor_of(storage.memory, keys_of(storage.memory.device()), at::kByte, {size}, {1}, 0);
}

// Constants that libtorch makes for every step, such as those of masks, are of other memory too.
bool is_same_constant(const Graph& graph, StorageId storage, const Storage& other) {
  const BelowAutograd below;
  const Storage& one = graph.storage(storage);
  const bool is_changed = std::ranges::any_of(graph.nodes, [&](const Node& node) {
    return std::ranges::any_of(node.writes,
                               [&](ValueId value) { return graph.storage_of(value) == storage; });
  });
  return !is_changed && one.memory.device() == other.memory.device() &&
         one.memory.nbytes() == other.memory.nbytes() && at::equal(bytes_of(one), bytes_of(other));
}

// Two recordings whose lines are the same may be of other memory, such as a state that the model
// keeps in a tensor of its own.
std::optional<std::string> other_memory(const Graph& first, const Graph& second) {
  if (first.storages.size() != second.storages.size()) return "it is of more or less memory";
  for (std::size_t i = 0; i < first.storages.size(); ++i) {
    const Storage& one = first.storages[i];
    const Storage& other = second.storages[i];
    if (one.kind != Storage::Kind::kExternal || other.kind != Storage::Kind::kExternal) continue;
    if (one.memory.unsafeGetStorageImpl() == other.memory.unsafeGetStorageImpl()) continue;
    if (is_same_constant(first, static_cast<StorageId>(i), other)) continue;
    return fmt::format("external {} is other memory than in its first", i);
  }
  return std::nullopt;
}

/// Seconds since it was made, or since the last time that it was asked.
class Lap {
 public:
  double seconds() {
    const auto before = std::exchange(begin_, Clock::now());
    return std::chrono::duration<double>(begin_ - before).count();
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point begin_ = Clock::now();
};

bool draws(const Graph& graph) { return std::ranges::any_of(graph.nodes, &Node::random); }

std::string describe(const std::vector<Geometry>& layout) {
  std::string text;
  for (const Geometry& one : layout) text += (text.empty() ? "" : ", ") + describe(one);
  return text;
}

}  // namespace

struct CompiledStep::Impl {
  /// One layout of inputs.
  struct Plan {
    std::vector<Geometry> layout;
    /// Why it runs eagerly; empty where it does not.
    std::string obstacle{};
    std::optional<Graph> recorded{};
    std::optional<Interpreter> compiled{};
    std::vector<PassReport> passes{};
    int steps = 0;
    bool draws = false;
  };

  Options options;
  std::deque<Plan> plans{};
  bool said_full = false;
  std::size_t revision = 0;

  explicit Impl(Options given) : options(std::move(given)) {}

  Plan* find(const Tensors& inputs) {
    const auto layout = layout_of(inputs);
    const auto found = std::ranges::find(plans, layout, &Plan::layout);
    if (found != plans.end()) return &*found;
    if (plans.size() < options.layouts) return &plans.emplace_back(Plan{.layout = layout});
    if (!std::exchange(said_full, true) && options.says) {
      log::warning("{} has more than {} layouts of inputs: {} is not compiled", options.name,
                   options.layouts, describe(layout));
    }
    return nullptr;
  }

  void refuse(Plan& plan, std::string why) {
    if (options.says) {
      log::warning("{} of {} is not compiled: {}", options.name, describe(plan.layout), why);
    }
    ++revision;
    plan.obstacle = std::move(why);
    plan.compiled.reset();
    plan.recorded.reset();
  }

  static void restore(const Recording& recording) {
    for (const KeptMemory& kept : recording.changed) kept.restore();
  }

  // Outcome of a graph that starts from where the recorded step did.
  static Outcome from_start(const Interpreter& graph, const Recording& recording,
                            const Tensors& inputs, const std::function<void()>& seed) {
    restore(recording);
    if (seed) seed();
    Tensors outputs = graph.run(inputs);
    return outcome_of(std::move(outputs), views_of_changed(recording.graph));
  }

  static void leave(const Outcome& outcome, const Graph& graph) {
    const BelowAutograd below;
    const Tensors changed = views_of_changed(graph);
    const std::size_t first = outcome.values.size() - changed.size();
    for (std::size_t i = 0; i < changed.size(); ++i) changed[i].copy_(outcome.values[first + i]);
  }

  Tensors compile(Plan& plan, const Tensors& inputs, const Step& step,
                  const std::function<void()>& seed) {
    if (seed) seed();
    Lap lap;
    Recording recording = record(step, inputs);
    const double recorded = lap.seconds();
    if (!recording.obstacle.empty()) {
      refuse(plan, recording.obstacle);
      return recording.outputs;
    }
    const Outcome eager = outcome_of(recording.outputs, views_of_changed(recording.graph));
    const Interpreter as_recorded(recording.graph);
    const auto raw = too_far(distances(from_start(as_recorded, recording, inputs, seed), eager),
                             std::vector<double>(eager.values.size(), options.tolerance));
    if (raw) {
      return stay_eager(plan, recording, eager,
                        fmt::format("its operations alone do not leave what it leaves ({}): "
                                    "something else writes",
                                    text_of(*raw)));
    }
    const std::vector<double> allowed = allowed_by(as_recorded, recording, eager, inputs, seed);
    double checked = lap.seconds();
    double kernels = 0;
    Outcome ours;
    try {
      Graph rewritten = recording.graph;
      plan.passes = rewrite(rewritten, pass_options(recording.graph));
      prepare_kernels(rewritten);
      kernels = lap.seconds();
      plan.compiled.emplace(std::move(rewritten));
      ours = from_start(*plan.compiled, recording, inputs, seed);
    } catch (const std::exception& error) {
      return stay_eager(plan, recording, eager, fmt::format("it fails compiled: {}", error.what()));
    }
    const auto off = too_far(distances(ours, eager), allowed);
    if (off) {
      return stay_eager(plan, recording, eager,
                        fmt::format("compiled it leaves other values ({})", text_of(*off)));
    }
    if (options.says) {
      checked += lap.seconds();
      log::info(
          "{} of {} is compiled: {} operations, {} before; {:.2f} s to record, {:.2f} s for "
          "kernels, "
          "{:.2f} s to check",
          options.name, describe(plan.layout), plan.compiled->graph().nodes.size(),
          recording.graph.nodes.size(), recorded, kernels, checked);
    }
    ++revision;
    plan.draws = draws(plan.compiled->graph());
    plan.recorded = std::move(recording.graph);
    return std::move(ours.outputs);
  }

  // Where little is left of a gradient but rounding, compiling moves it as far as rounding does.
  std::vector<double> allowed_by(const Interpreter& graph, const Recording& recording,
                                 const Outcome& eager, const Tensors& inputs,
                                 const std::function<void()>& seed) const {
    restore(recording);
    if (seed) seed();
    Tensors outputs = graph.run_perturbed(inputs);
    std::vector<double> allowed =
        distances(outcome_of(std::move(outputs), views_of_changed(recording.graph)), eager);
    for (double& one : allowed) {
      one = std::isfinite(one) ? std::max(options.tolerance, 4 * one) : options.tolerance;
    }
    return allowed;
  }

  PassOptions pass_options(const Graph& graph) const {
    PassOptions passes = options.passes;
    const bool on_gpu = std::ranges::any_of(
        graph.values, [](const Value& value) { return value.geometry.device.is_cuda(); });
    passes.fuses = passes.fuses || (on_gpu && options.may_fuse);
    return passes;
  }

  Tensors stay_eager(Plan& plan, const Recording& recording, const Outcome& eager,
                     std::string why) {
    leave(eager, recording.graph);
    refuse(plan, std::move(why));
    return eager.outputs;
  }

  // The work of a step may depend on how many came before.
  Tensors check_second(Plan& plan, const Tensors& inputs, const Step& step,
                       const std::function<void()>& seed) {
    if (seed) seed();
    const Recording again = record(step, inputs);
    // Why it cannot be a graph now, though it could before.
    std::optional<std::string> differs;
    if (!again.obstacle.empty()) differs = again.obstacle;
    if (!differs) differs = first_difference(*plan.recorded, again.graph);
    if (!differs) differs = other_memory(*plan.recorded, again.graph);
    plan.recorded.reset();
    if (differs) {
      refuse(plan, "its second step is another one: " + *differs);
      return again.outputs;
    }
    restore(again);
    if (seed) seed();
    return plan.compiled->run(inputs);
  }

  Tensors run(const Tensors& inputs, const Step& step, const std::function<void()>& seed) {
    Plan* const plan = find(inputs);
    if (plan == nullptr || !plan->obstacle.empty()) {
      if (seed) seed();
      return step(inputs);
    }
    // A step that throws does not count.
    if (plan->steps < 2) {
      Tensors outputs = plan->steps == 0 ? compile(*plan, inputs, step, seed)
                                         : check_second(*plan, inputs, step, seed);
      ++plan->steps;
      return outputs;
    }
    if (seed && plan->draws) seed();
    return plan->compiled->run(inputs);
  }
};

CompiledStep::CompiledStep(Options options) : impl_(std::make_unique<Impl>(std::move(options))) {}
CompiledStep::~CompiledStep() = default;
CompiledStep::CompiledStep(CompiledStep&&) noexcept = default;

std::vector<at::Tensor> CompiledStep::run(const std::vector<at::Tensor>& inputs, const Step& step,
                                          const std::function<void()>& seed) {
  return impl_->run(inputs, step, seed);
}

bool CompiledStep::is_compiled(const std::vector<at::Tensor>& inputs) const {
  const auto found = std::ranges::find(impl_->plans, layout_of(inputs), &Impl::Plan::layout);
  return found != impl_->plans.end() && found->compiled;
}

bool CompiledStep::is_settled(const std::vector<at::Tensor>& inputs) const {
  const auto found = std::ranges::find(impl_->plans, layout_of(inputs), &Impl::Plan::layout);
  if (found == impl_->plans.end()) return impl_->plans.size() >= impl_->options.layouts;
  return !found->obstacle.empty() || found->steps >= 2;
}

std::size_t CompiledStep::layouts() const { return impl_->plans.size(); }
std::size_t CompiledStep::revision() const { return impl_->revision; }

std::string CompiledStep::explain() const {
  std::string text;
  for (const Impl::Plan& plan : impl_->plans) {
    text += fmt::format("{} of {}\n", impl_->options.name, describe(plan.layout));
    if (!plan.compiled) {
      text += fmt::format("  not compiled: {}\n", plan.obstacle);
      continue;
    }
    for (const PassReport& pass : plan.passes) {
      text += fmt::format("  {:<24} {:>5} -> {} operations\n", pass.pass, pass.nodes_before,
                          pass.nodes_after);
    }
    std::map<std::string, int> left;
    for (const Node& node : plan.compiled->graph().nodes) ++left[node.name()];
    for (const auto& [name, count] : left) text += fmt::format("  {:>5} {}\n", count, name);
    text += fmt::format("  {} bytes at the fullest point\n", plan.compiled->peak_bytes());
  }
  return text;
}

}  // namespace muster::compiler
