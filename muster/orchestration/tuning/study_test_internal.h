#pragma once

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "muster/orchestration/tuning/study.h"

// Programs and specifications of small studies, for tests.
namespace muster::tuning {

// Reports (x - 0.3)^2, as cloudml-hypertune does, and does what `before` says first.
inline std::vector<std::string> parabola(const std::string& before = "") {
  return {"/bin/sh", "-c",
          "for word; do case $word in --x=*) x=${word#--x=} ;; esac; done\n" + before +
              "\nawk -v x=$x 'BEGIN { printf \"{\\\"loss\\\": \\\"%.17g\\\", \\\"global_step\\\": "
              "\\\"7\\\"}\\n\", (x - 0.3) * (x - 0.3) }' > $CLOUD_ML_HP_METRIC_FILE",
          "parabola"};
}

inline std::string spec_of(int trials, int parallel, const std::string& more = "") {
  return R"({"goal": "MINIMIZE", "hyperparameterMetricTag": "loss", "maxTrials": )" +
         std::to_string(trials) + R"(, "maxParallelTrials": )" + std::to_string(parallel) + more +
         R"(, "params": [{"parameterName": "x", "type": "DOUBLE", "minValue": 0, "maxValue": 1}]})";
}

using Row = std::tuple<std::int64_t, TrialState, Values, double, std::int64_t>;

inline std::vector<Row> table_of(const Study& study) {
  std::vector<Row> rows;
  for (const Trial& trial : study.trials) {
    rows.emplace_back(trial.id, trial.state, trial.values,
                      trial.final_metric ? trial.final_metric->value : -1,
                      trial.parent.value_or(0));
  }
  return rows;
}

// Goes on from the state in its job-dir, a step at a time, up to --train-steps.
inline std::vector<std::string> trainer() {
  return {"/bin/sh", "-c", R"sh(
for word; do case $word in --x=*) x=${word#--x=} ;; --train-steps=*) steps=${word#*s=} ;; esac; done
for dir; do :; done
step=0; state=1
[ ! -e $dir/state ] || read step state < $dir/state
echo $step-$steps >> $dir/stretches
while [ $step -lt $steps ]; do
  step=$(( step + 1 )); state=$(( (state * 31 + step) % 997 ))
  echo $step $state > $dir/new; mv $dir/new $dir/state
done
awk -v x=$x -v t=$step -v s=$state 'BEGIN { printf "{\"loss\": \"%.17g\", \"global_step\": \"%d\"}\n",
  (x - 0.3) * (x - 0.3) + 1 / t + s / 1e6, t }' > $CLOUD_ML_HP_METRIC_FILE.new
mv $CLOUD_ML_HP_METRIC_FILE.new $CLOUD_ML_HP_METRIC_FILE)sh",
          "trainer", "--train-steps=9"};
}

// For studies that search the steps themselves.
inline std::vector<std::string> trainer_without_steps() {
  std::vector<std::string> command = trainer();
  command.pop_back();
  return command;
}

// Nine trials: three numbers of steps for each of three x, the steps as the last parameter.
inline std::string prefix_grid(int parallel) {
  return R"({"goal": "MINIMIZE", "hyperparameterMetricTag": "loss", "maxTrials": 9,
             "algorithm": "GRID_SEARCH", "stepsParameter": "train-steps", "maxParallelTrials": )" +
         std::to_string(parallel) +
         R"(, "params": [{"parameterName": "x", "type": "DISCRETE",
             "discreteValues": [0.1, 0.2, 0.4]}, {"parameterName": "train-steps",
             "type": "INTEGER", "minValue": 4, "maxValue": 6}]})";
}

// Population of 12 trials: three rounds of four members, of three steps each.
inline const std::string kPopulation = R"(, "algorithm": "POPULATION_BASED_TRAINING")";

inline const std::string kAsha = R"(, "trialStopping": {"rule": "ASHA", "minSteps": 1})";

}  // namespace muster::tuning
