#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace muster::tuning {

enum class Goal { kMaximize, kMinimize };

enum class ParameterType { kDouble, kInteger, kCategorical, kDiscrete };

/// How the range of a parameter is laid out on the unit interval.
enum class Scale { kLinear, kLog, kReverseLog };

class SearchAlgorithms;

/// The algorithm of `algorithm` that is used where a study names none.
inline constexpr const char* kDefaultAlgorithm = "ALGORITHM_UNSPECIFIED";
/// The algorithm whose trials are scheduled in rounds: see PopulationTraining.
inline constexpr const char* kPopulationBasedTraining = "POPULATION_BASED_TRAINING";

/// The most values that a DISCRETE or CATEGORICAL parameter has.
inline constexpr std::size_t kMostChoices = 1000;
/// The most parameters of a study, and the most trials.
inline constexpr std::size_t kMostParameters = 200;
inline constexpr std::int64_t kMostTrials = 100'000;

/// One parameter: `--NAME=VALUE` of the program.
struct ParameterSpec {
  /// A child has a value only in trials in which its parent has one of these.
  struct Condition {
    /// Its place in the list of all parameters, before this one.
    std::size_t parent = 0;
    /// As the parent's values are written.
    std::vector<std::string> values{};

    bool operator==(const Condition&) const = default;
  };

  std::string name{};
  ParameterType type = ParameterType::kDouble;
  /// The range of a DOUBLE or an INTEGER, with both ends.
  double min_value = 0;
  double max_value = 0;
  /// The values of a CATEGORICAL.
  std::vector<std::string> categorical_values{};
  /// The values of a DISCRETE, strictly increasing.
  std::vector<double> discrete_values{};
  Scale scale = Scale::kLinear;
  std::optional<Condition> condition{};

  bool operator==(const ParameterSpec&) const = default;
};

/// The rule that decides which trials train to the end.
enum class StoppingRule {
  /// MEDIAN: those that run are stopped, as by enableTrialEarlyStopping.
  kMedian,
  /// ASHA: trials pause at rungs and the best of each continue, as soon as there are enough of
  /// them.
  kAsha,
  /// HYPERBAND: brackets of successive halving, which begin at different rungs.
  kHyperband,
};

/// muster's own field `trialStopping`.
struct TrialStopping {
  StoppingRule rule = StoppingRule::kMedian;
  /// The program's flag for the steps to train up to. Its value among the arguments is that of a
  /// whole trial.
  std::string steps_flag = "train-steps";
  /// The first rung has no fewer; 0: as many as make four rungs.
  std::int64_t min_steps = 0;
  /// One of this many continues, to this many times the steps.
  std::int64_t reduction = 3;

  bool operator==(const TrialStopping&) const = default;
};

/// muster's own field `population`, of POPULATION_BASED_TRAINING: see population.h.
struct PopulationTraining {
  /// Members; 0: as many as run at the same time, and four at least.
  std::int64_t size = 0;
  /// The program's flag for the steps to train up to. Its value among the arguments is that of a
  /// whole training, which rounds divide.
  std::string steps_flag = "train-steps";
  /// The share of members that copy another after a round, and of those that are copied.
  double quantile = 0.25;
  /// How likely a value is resampled where it would be perturbed.
  double resample_probability = 0.25;
  /// Numbers are multiplied by this, or by as much below 1.
  double perturb_factor = 1.2;
  /// Parameters that are copied as they are: what a checkpoint cannot change, such as the size of a
  /// layer.
  std::vector<std::string> inherited_params{};

  bool operator==(const PopulationTraining&) const = default;
};

/// A metric that is to become large or small.
struct MetricGoal {
  std::string tag{};
  Goal goal = Goal::kMaximize;

  bool operator==(const MetricGoal&) const = default;
};

/// A metric that has to stay within bounds, of which one at least is set.
struct MetricBound {
  std::string tag{};
  std::optional<double> min_value{};
  std::optional<double> max_value{};

  bool operator==(const MetricBound&) const = default;
};

/// The most goals of a study, and the most constraints.
inline constexpr std::size_t kMostGoals = 16;

/// Cloud ML Engine's `trainingInput.hyperparameters`.
struct HyperparameterSpec {
  Goal goal = Goal::kMaximize;
  /// Parents come before their children.
  std::vector<ParameterSpec> params{};
  std::int64_t max_trials = 1;
  std::int64_t max_parallel_trials = 1;
  /// The study fails when this many trials have; 0: when the first trials fail and none succeeds.
  std::int64_t max_failed_trials = 0;
  /// The summary's tag; `FOLDER:TAG` names the folder of the trial's job-dir that has it.
  std::string metric_tag = "training/hptuning/metric";
  /// All `metrics` but the first, which is goal and metric_tag: the study looks for the Pareto
  /// front.
  std::vector<MetricGoal> other_goals{};
  /// muster's own field `constraints`.
  std::vector<MetricBound> constraints{};
  /// An earlier study, whose trials count as observations.
  std::string resume_previous_job_id{};
  /// The median rule; also by trialStopping.
  bool enable_trial_early_stopping = false;
  /// ASHA or HYPERBAND.
  std::optional<TrialStopping> halving{};
  /// The first of the names that the algorithm has in the table of search algorithms.
  std::string algorithm = kDefaultAlgorithm;
  /// Present with POPULATION_BASED_TRAINING alone.
  std::optional<PopulationTraining> population{};
  /// muster's own field: the parameter that is the number of steps to train. A trial resumes from
  /// the checkpoint of one that differs in it alone; empty: none does.
  std::string steps_parameter{};

  bool operator==(const HyperparameterSpec&) const = default;
};

/// Reads the block, as JSON; numbers may be written as texts, as the API does. Throws
/// InvalidArgument that names the field and the parameter: for an unknown field or algorithm, a
/// value of another kind, and a search space in which nothing can be searched.
HyperparameterSpec parse_hyperparameters(std::string_view json);
/// The same with other search algorithms than the built-in ones.
HyperparameterSpec parse_hyperparameters(std::string_view json, const SearchAlgorithms& algorithms);

/// A number as a flag has it: the shortest decimal that reads back to the same double.
std::string value_text(double value);

}  // namespace muster::tuning
