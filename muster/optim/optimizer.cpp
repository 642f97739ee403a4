#include "muster/optim/optimizer.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "muster/base/error.h"

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

  template <typename Options>
  static std::string rate(const Options& options) {
    return "learning_rate = " + options.learning_rate.description();
  }
};

}  // namespace

Optimizer::Optimizer(Options options) : options_(std::move(options)) {
  std::visit(Check{}, options_);
}

const LearningRate& Optimizer::learning_rate() const {
  return std::visit([](const auto& o) -> const LearningRate& { return o.learning_rate; }, options_);
}

std::string Optimizer::description() const { return std::visit(Describe{}, options_); }

Optimizer sgd(SgdOptions options) { return Optimizer(std::move(options)); }
Optimizer momentum(MomentumOptions options) { return Optimizer(std::move(options)); }
Optimizer adagrad(AdagradOptions options) { return Optimizer(std::move(options)); }
Optimizer proximal_adagrad(ProximalAdagradOptions options) { return Optimizer(std::move(options)); }
Optimizer adam(AdamOptions options) { return Optimizer(std::move(options)); }
Optimizer adamw(AdamWOptions options) { return Optimizer(std::move(options)); }
Optimizer rmsprop(RmsPropOptions options) { return Optimizer(std::move(options)); }
Optimizer ftrl(FtrlOptions options) { return Optimizer(std::move(options)); }

Optimizer optimizer_by_name(std::string_view name, LearningRate learning_rate) {
  if (name == "Adagrad") return adagrad({.learning_rate = std::move(learning_rate)});
  if (name == "Adam") return adam({.learning_rate = std::move(learning_rate)});
  if (name == "Ftrl") return ftrl({.learning_rate = std::move(learning_rate)});
  if (name == "RMSProp") return rmsprop({.learning_rate = std::move(learning_rate)});
  if (name == "SGD") return sgd({.learning_rate = std::move(learning_rate)});
  throw InvalidArgument("no optimizer named `{}`: use Adagrad, Adam, Ftrl, RMSProp or SGD", name);
}

}  // namespace muster
