#include "muster/nn/optim/optimizer.h"

#include <fmt/format.h>

#include <array>
#include <cctype>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/suggestion.h"
#include "muster/nn/optim/named_optimizer_internal.h"

namespace muster {
namespace {

void check(bool good, std::string_view optimizer, std::string_view option, std::string_view rule,
           double value) {
  if (!good || !std::isfinite(value)) {
    throw InvalidArgument("{}: {} must be {}: {}", optimizer, option, rule, value);
  }
}

void check_not_negative(std::string_view optimizer, std::string_view option, double value) {
  check(value >= 0, optimizer, option, "not negative", value);
}

void check_positive(std::string_view optimizer, std::string_view option, double value) {
  check(value > 0, optimizer, option, "positive", value);
}

void check_below_one(std::string_view optimizer, std::string_view option, double value) {
  check(value >= 0 && value < 1, optimizer, option, "in [0, 1)", value);
}

template <typename Options>
void check_adam(std::string_view name, const Options& options) {
  check_below_one(name, "beta1", options.beta1);
  check_below_one(name, "beta2", options.beta2);
  check_not_negative(name, "epsilon", options.epsilon);
}

struct Check {
  void operator()(const SgdOptions& o) const {
    check_not_negative("sgd", "weight_decay", o.weight_decay);
  }
  void operator()(const MomentumOptions& o) const {
    check_not_negative("momentum", "momentum", o.momentum);
    check_not_negative("momentum", "weight_decay", o.weight_decay);
  }
  void operator()(const AdagradOptions& o) const {
    check_positive("adagrad", "initial_accumulator", o.initial_accumulator);
  }
  void operator()(const ProximalAdagradOptions& o) const {
    check_positive("proximal_adagrad", "initial_accumulator", o.initial_accumulator);
    check_not_negative("proximal_adagrad", "l1", o.l1);
    check_not_negative("proximal_adagrad", "l2", o.l2);
  }
  void operator()(const AdamOptions& o) const { check_adam("adam", o); }
  void operator()(const AdamWOptions& o) const {
    check_adam("adamw", o);
    check_not_negative("adamw", "weight_decay", o.weight_decay);
  }
  void operator()(const RmsPropOptions& o) const {
    check_below_one("rmsprop", "decay", o.decay);
    check_not_negative("rmsprop", "momentum", o.momentum);
    check_not_negative("rmsprop", "epsilon", o.epsilon);
  }
  void operator()(const FtrlOptions& o) const {
    check(o.learning_rate_power <= 0, "ftrl", "learning_rate_power", "not positive",
          o.learning_rate_power);
    check_not_negative("ftrl", "initial_accumulator", o.initial_accumulator);
    check_not_negative("ftrl", "l1", o.l1);
    check_not_negative("ftrl", "l2", o.l2);
    check_not_negative("ftrl", "l2_shrinkage", o.l2_shrinkage);
  }
  void operator()(const LionOptions& o) const {
    check_below_one("lion", "beta1", o.beta1);
    check_below_one("lion", "beta2", o.beta2);
    check_not_negative("lion", "weight_decay", o.weight_decay);
  }
  void operator()(const CustomOptions& o) const {
    if (o.name.empty()) throw InvalidArgument("custom_optimizer: the name must not be empty");
    if (!o.update) throw InvalidArgument("{}: there is no function that updates", o.name);
    std::set<std::string_view> names;
    for (const OptimizerSlot& slot : o.slots) {
      if (slot.shape_of != nullptr && !o.whole_variables) {
        throw InvalidArgument(
            "{}: the slot `{}` has a shape of its own, which is for whole_variables", o.name,
            slot.name);
      }
      if (slot.name.empty() || !names.insert(slot.name).second) {
        throw InvalidArgument("{}: slots need names of their own: `{}`", o.name, slot.name);
      }
    }
  }
};

struct Describe {
  std::string operator()(const SgdOptions& o) const {
    return fmt::format("sgd({}, weight_decay = {})", rate(o), o.weight_decay);
  }
  std::string operator()(const MomentumOptions& o) const {
    return fmt::format("momentum({}, momentum = {}, nesterov = {}, weight_decay = {})", rate(o),
                       o.momentum, o.nesterov, o.weight_decay);
  }
  std::string operator()(const AdagradOptions& o) const {
    return fmt::format("adagrad({}, initial_accumulator = {})", rate(o), o.initial_accumulator);
  }
  std::string operator()(const ProximalAdagradOptions& o) const {
    return fmt::format("proximal_adagrad({}, initial_accumulator = {}, l1 = {}, l2 = {})", rate(o),
                       o.initial_accumulator, o.l1, o.l2);
  }
  std::string operator()(const AdamOptions& o) const {
    return fmt::format("adam({}, beta1 = {}, beta2 = {}, epsilon = {})", rate(o), o.beta1, o.beta2,
                       o.epsilon);
  }
  std::string operator()(const AdamWOptions& o) const {
    return fmt::format("adamw({}, beta1 = {}, beta2 = {}, epsilon = {}, weight_decay = {})",
                       rate(o), o.beta1, o.beta2, o.epsilon, o.weight_decay);
  }
  std::string operator()(const RmsPropOptions& o) const {
    return fmt::format("rmsprop({}, decay = {}, momentum = {}, epsilon = {}, centered = {})",
                       rate(o), o.decay, o.momentum, o.epsilon, o.centered);
  }
  std::string operator()(const FtrlOptions& o) const {
    return fmt::format(
        "ftrl({}, learning_rate_power = {}, initial_accumulator = {}, l1 = {}, l2 = {}, "
        "l2_shrinkage = {})",
        rate(o), o.learning_rate_power, o.initial_accumulator, o.l1, o.l2, o.l2_shrinkage);
  }
  std::string operator()(const LionOptions& o) const {
    return fmt::format("lion({}, beta1 = {}, beta2 = {}, weight_decay = {})", rate(o), o.beta1,
                       o.beta2, o.weight_decay);
  }
  std::string operator()(const CustomOptions& o) const {
    std::string constants;
    for (const auto& [name, value] : o.constants)
      constants += fmt::format(", {} = {}", name, value);
    return fmt::format("{}({}{})", o.name, rate(o), constants);
  }

  template <typename Options>
  static std::string rate(const Options& options) {
    return "learning_rate = " + options.learning_rate.description();
  }
};

template <typename Options>
Optimizer with_rate(LearningRate rate) {
  return Optimizer(Options{.learning_rate = std::move(rate)});
}

using internal::NamedOptimizer;

constexpr std::array kOptimizers{
    NamedOptimizer{"adagrad", with_rate<AdagradOptions>},
    NamedOptimizer{"adam", with_rate<AdamOptions>, 0.001},
    NamedOptimizer{"adamw", with_rate<AdamWOptions>, 0.001},
    NamedOptimizer{"ftrl", with_rate<FtrlOptions>},
    NamedOptimizer{"lion", with_rate<LionOptions>, 0.0001},
    NamedOptimizer{"momentum", with_rate<MomentumOptions>},
    NamedOptimizer{"proximal_adagrad", with_rate<ProximalAdagradOptions>},
    NamedOptimizer{"rmsprop", with_rate<RmsPropOptions>},
    NamedOptimizer{"sgd", with_rate<SgdOptions>},
};

// "tf.train.RMSPropOptimizer" and "rms_prop" are "rmsprop".
std::string plain_optimizer_name(std::string_view name) {
  if (const auto scope = name.find_last_of(".:"); scope != std::string_view::npos) {
    name.remove_prefix(scope + 1);
  }
  std::string plain;
  for (const char letter : name) {
    if (letter == '_' || letter == '-' || letter == ' ') continue;
    plain += static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  }
  constexpr std::string_view kSuffix = "optimizer";
  if (plain.size() > kSuffix.size() && plain.ends_with(kSuffix)) {
    plain.resize(plain.size() - kSuffix.size());
  }
  return plain == "gradientdescent" ? "sgd" : plain;
}

// Those above, then those of files of their own.
std::vector<NamedOptimizer> all_named_optimizers() {
  std::vector<NamedOptimizer> all(kOptimizers.begin(), kOptimizers.end());
  for (const NamedOptimizer& one : internal::optimizers_of_files()) all.push_back(one);
  return all;
}

NamedOptimizer named_optimizer(std::string_view name) {
  const std::string wanted = plain_optimizer_name(name);
  std::vector<std::string> names;
  for (const NamedOptimizer& one : all_named_optimizers()) {
    if (plain_optimizer_name(one.name) == wanted) return one;
    names.emplace_back(one.name);
  }
  throw InvalidArgument("there is no optimizer `{}`, only {}{}", name, fmt::join(names, ", "),
                        did_you_mean(wanted, names));
}

}  // namespace

Optimizer::Optimizer(Options options)
    : options_(std::make_shared<const Options>(std::move(options))) {
  std::visit(Check{}, *options_);
}

const LearningRate& Optimizer::learning_rate() const {
  return std::visit([](const auto& o) -> const LearningRate& { return o.learning_rate; },
                    *options_);
}

std::string Optimizer::description() const { return std::visit(Describe{}, *options_); }

Optimizer sgd(SgdOptions options) { return Optimizer(std::move(options)); }
Optimizer momentum(MomentumOptions options) { return Optimizer(std::move(options)); }
Optimizer adagrad(AdagradOptions options) { return Optimizer(std::move(options)); }
Optimizer proximal_adagrad(ProximalAdagradOptions options) { return Optimizer(std::move(options)); }
Optimizer adam(AdamOptions options) { return Optimizer(std::move(options)); }
Optimizer adamw(AdamWOptions options) { return Optimizer(std::move(options)); }
Optimizer rmsprop(RmsPropOptions options) { return Optimizer(std::move(options)); }
Optimizer ftrl(FtrlOptions options) { return Optimizer(std::move(options)); }
Optimizer lion(LionOptions options) { return Optimizer(std::move(options)); }
Optimizer custom_optimizer(CustomOptions options) { return Optimizer(std::move(options)); }

Optimizer optimizer_by_name(std::string_view name, LearningRate learning_rate) {
  return named_optimizer(name).make(std::move(learning_rate));
}

Optimizer optimizer_by_name(std::string_view name) {
  const NamedOptimizer& named = named_optimizer(name);
  if (!named.default_rate) {
    throw InvalidArgument(
        "optimizer `{}` has no learning rate of its own; give it one, such as {}({{.learning_rate "
        "= 0.01}})",
        name, named.name);
  }
  return named.make(*named.default_rate);
}

OptimizersByPrefix::OptimizersByPrefix(Optimizer optimizer)
    : entries_{{.prefix = "", .optimizer = std::move(optimizer)}} {}
OptimizersByPrefix::OptimizersByPrefix(const char* name)
    : OptimizersByPrefix(optimizer_by_name(name)) {}
OptimizersByPrefix::OptimizersByPrefix(std::initializer_list<OptimizerFor> entries)
    : entries_(entries) {}

void OptimizersByPrefix::add(OptimizerFor entry) { entries_.push_back(std::move(entry)); }

}  // namespace muster
