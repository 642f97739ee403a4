#include "muster/train/engine/run_terms.h"

#include <c10/util/Type.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <sstream>
#include <typeinfo>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/nn/model/module_variables.h"
#include "muster/train/compiler/compiled_step.h"

namespace muster {
namespace {

// Schedules are functions: they are known by what they give.
constexpr std::int64_t kRateSteps[] = {0, 1, 100, 1'000, 10'000, 100'000};

std::string rate_at(const LearningRate& rate, std::int64_t step) {
  try {
    return fmt::format("{}", rate.at(step));
  } catch (const std::exception&) {
    return "none";  // One that the run may never come to.
  }
}

std::string rates_of(const LearningRate& rate) {
  std::vector<std::string> parts;
  for (const std::int64_t step : kRateSteps) {
    parts.push_back(fmt::format("{} at step {}", rate_at(rate, step), step));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

void add_optimizers(const OptimizersByPrefix& optimizers, std::vector<RunTerm>& terms) {
  for (const OptimizerFor& entry : optimizers) {
    const std::string whose = entry.prefix.empty() ? "" : fmt::format(" of \"{}\"", entry.prefix);
    terms.push_back({"optimizer" + whose, entry.optimizer.description()});
    terms.push_back({"learning rate" + whose, rates_of(entry.optimizer.learning_rate())});
  }
}

std::string describe(const ClipOptions& clip) {
  if (clip.value) return fmt::format("value {}", *clip.value);
  if (clip.norm) return fmt::format("norm {}", *clip.norm);
  if (clip.global_norm) return fmt::format("global_norm {}", *clip.global_norm);
  return "none";
}

std::string describe(const WeightDecay& decay, const std::vector<ModuleVariable>& variables) {
  if (decay.factor == 0) return "none";
  const auto count = std::ranges::count_if(variables, [&](const ModuleVariable& variable) {
    return variable.trainable && (!decay.filter || decay.filter(variable.name));
  });
  return fmt::format("{} of {} variables", decay.factor, count);
}

std::string describe(const std::optional<MovingAverageOptions>& average) {
  if (!average) return "none";
  return fmt::format("decay {}{}", average->decay, average->ramp ? " with ramp" : "");
}

std::string describe(const NanPolicy& policy) {
  switch (policy.action) {
    case NanPolicy::Action::kStop:
      return "kStop";
    case NanPolicy::Action::kSkipBatch:
      return fmt::format("kSkipBatch, limit {}", policy.limit);
    case NanPolicy::Action::kRollBack:
      return fmt::format("kRollBack, limit {}", policy.limit);
  }
  return "?";
}

std::string describe(const Head* head) {
  if (head == nullptr) return "none";
  return fmt::format("{} of {} logits", c10::demangle(typeid(*head).name()),
                     head->logits_dimension());
}

std::string describe(const ModuleVariable& variable) {
  return fmt::format("{} [{}]{}{}", c10::toString(variable.tensor.scalar_type()),
                     fmt::join(variable.tensor.sizes(), ", "), variable.trainable ? "" : ", fixed",
                     variable.sparse ? ", by rows" : "");
}

// Adds the text that each layer without others inside prints of itself:
// torch::nn::Dropout(p=0.2, inplace=false).
void add_layers(const Model& model, std::vector<RunTerm>& terms) {
  for (const auto& layer : model.named_modules("model")) {
    if (!layer.value()->children().empty()) continue;
    std::ostringstream text;
    layer.value()->pretty_print(text);
    terms.push_back({"layer " + layer.key(), text.str()});
  }
}

}  // namespace

std::string_view name_of(ComputeType type) {
  switch (type) {
    case ComputeType::kFloat32:
      return "float32";
    case ComputeType::kBfloat16:
      return "bfloat16";
    case ComputeType::kFloat16:
      return "float16";
  }
  return "?";
}

std::string_view name_of(CompileMode mode) {
  switch (mode) {
    case CompileMode::kOff:
      return "off";
    case CompileMode::kOn:
      return "on";
    case CompileMode::kMax:
      return "max";
  }
  return "?";
}

std::string_view name_of(Sharding sharding) {
  switch (sharding) {
    case Sharding::kOff:
      return "off";
    case Sharding::kOptimizer:
      return "optimizer";
    case Sharding::kGradients:
      return "gradients";
  }
  return "?";
}

std::string compile_term(CompileMode mode) {
  if (mode == CompileMode::kOff) return std::string(name_of(mode));
  return fmt::format("{}, compiler {}", name_of(mode), compiler::kCompilerVersion);
}

CompileMode mode_of_term(const std::string& term) {
  const std::string name = term.substr(0, term.find(','));
  for (const CompileMode mode : {CompileMode::kOn, CompileMode::kMax}) {
    if (name_of(mode) == name) return mode;
  }
  return CompileMode::kOff;
}

void check_compile(const std::string& saved, CompileMode now) {
  const std::string term = compile_term(now);
  if (saved == term) return;
  const std::string mode = saved.substr(0, saved.find(','));
  if (mode != name_of(now)) {
    throw FailedPrecondition(
        "the checkpoint was trained with compile={}, and this run has compile={}: the weights "
        "would "
        "not be those of an undisturbed run; give compile={}, or another model_dir",
        mode, name_of(now), mode);
  }
  log::warning(
      "compile changes from '{}' to '{}' with this resume: the weights will not be those of an "
      "undisturbed run",
      saved, term);
}

std::vector<RunTerm> terms_of(const EstimatorOptions& options, const RunConfig& config,
                              const Model& model) {
  const auto variables = variables_of(model);
  std::vector<RunTerm> terms;
  for (const auto& [name, value] : config.cluster.terms) terms.push_back({name, value});
  if (config.sharding != Sharding::kOff) {
    terms.push_back({"sharding", std::string(name_of(config.sharding))});
  }
  add_optimizers(options.optimizer, terms);
  terms.push_back({"clipping", describe(options.clip)});
  terms.push_back({"weight decay", describe(options.weight_decay, variables)});
  terms.push_back({"moving average", describe(options.moving_average)});
  terms.push_back({"batch norm averages", options.zero_debias_batch_norm ? "debiased" : "plain"});
  terms.push_back({"nan policy", describe(options.nan_policy)});
  terms.push_back({"head", describe(options.head.get())});
  for (const ModuleVariable& variable : variables) {
    terms.push_back({"variable " + variable.name, describe(variable)});
  }
  add_layers(model, terms);
  return terms;
}

std::string difference(const std::vector<RunTerm>& chief, const std::vector<RunTerm>& task,
                       bool is_server) {
  if (chief.empty() || chief == task) return {};
  // Names may stand twice: a program may well call one of its own "head".
  std::multimap<std::string, std::string> missing;
  for (const RunTerm& term : chief) missing.emplace(term.name, term.value);
  const auto in_words = [](const std::string& name, const std::string& its,
                           const std::string& own) {
    return fmt::format("the chief's {} is '{}', this task's '{}'; give all tasks the same", name,
                       its, own);
  };
  for (const RunTerm& term : task) {
    const auto found = missing.find(term.name);
    if (found == missing.end()) return in_words(term.name, "none", term.value);
    if (found->second != term.value) return in_words(term.name, found->second, term.value);
    missing.erase(found);
  }
  if (missing.empty() || is_server) return {};
  return in_words(missing.begin()->first, missing.begin()->second, "none");
}

}  // namespace muster
