#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace muster {

class Strategy;
struct RunConfig;

/// Makes what spreads a run over processes: see strategy.h.
using StrategyFactory = std::function<std::unique_ptr<Strategy>(const RunConfig&)>;

/// How the tasks of a cluster train together: by name, or by what makes the strategy.
///
/// - "auto", which is the default: by the cluster, ps where it has some, else collective
/// - "ps": variables live on the ps tasks; also "parameter_server", "ParameterServerStrategy"
/// - "collective": every task has a copy; also "MultiWorkerMirroredStrategy"
///
/// Case and separators do not matter. Names are for train_and_evaluate, DistributedSession and
/// Experiment; Estimator::train, which carries no strategies, needs what makes one.
class StrategyChoice {
 public:
  StrategyChoice() = default;
  /// Throws InvalidArgument for another name, with those there are and the one that was most likely
  /// meant.
  StrategyChoice(std::string_view name);  // NOLINT(google-explicit-constructor)
  StrategyChoice(const char* name) : StrategyChoice(std::string_view(name)) {}         // NOLINT
  StrategyChoice(const std::string& name) : StrategyChoice(std::string_view(name)) {}  // NOLINT
  template <typename Make>
  requires(!std::same_as<Make, StrategyChoice> && std::convertible_to<Make, StrategyFactory>)
      StrategyChoice(Make make)  // NOLINT(google-explicit-constructor)
      : name_("own"), make_(std::move(make)) {}

  /// "auto", "ps", "collective", or "own" for what came without a name.
  const std::string& name() const { return name_; }
  /// Whether it can make a strategy.
  explicit operator bool() const { return static_cast<bool>(make_); }
  std::unique_ptr<Strategy> operator()(const RunConfig& config) const;

 private:
  std::string name_ = "auto";
  StrategyFactory make_{};
};

}  // namespace muster
