#include "muster/orchestration/tuning/hyperparameter_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "muster/base/error.h"

namespace muster::tuning {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string with_param(const std::string& fields) {
  return R"({"params": [{"parameterName": "rate", )" + fields + "}]}";
}

std::string error_of(const std::string& json) {
  try {
    parse_hyperparameters(json);
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "no error";
}

TEST(HyperparameterSpec, ReadsEveryField) {
  const auto spec = parse_hyperparameters(R"({
      "goal": "MINIMIZE", "maxTrials": "40", "maxParallelTrials": 4, "maxFailedTrials": 3,
      "hyperparameterMetricTag": "loss", "resumePreviousJobId": "old", "algorithm": "RANDOM_SEARCH",
      "enableTrialEarlyStopping": true,
      "params": [
        {"parameterName": "rate", "type": "DOUBLE", "minValue": 0.0001, "maxValue": "0.1",
         "scaleType": "UNIT_LOG_SCALE"},
        {"parameterName": "first-layer-size", "type": "INTEGER", "minValue": 50, "maxValue": 500},
        {"parameterName": "batch", "type": "DISCRETE", "discreteValues": [16, 32, 64]},
        {"parameterName": "optimizer", "type": "CATEGORICAL", "categoricalValues": ["adam", "sgd"]}]})");
  EXPECT_EQ(spec.goal, Goal::kMinimize);
  EXPECT_EQ(spec.max_trials, 40);
  EXPECT_EQ(spec.max_parallel_trials, 4);
  EXPECT_EQ(spec.max_failed_trials, 3);
  EXPECT_EQ(spec.metric_tag, "loss");
  EXPECT_EQ(spec.resume_previous_job_id, "old");
  EXPECT_EQ(spec.algorithm, "RANDOM_SEARCH");
  EXPECT_TRUE(spec.enable_trial_early_stopping);
  ASSERT_EQ(spec.params.size(), 4U);
  EXPECT_EQ(spec.params[0].scale, Scale::kLog);
  EXPECT_EQ(spec.params[0].max_value, 0.1);
  EXPECT_EQ(spec.params[1].name, "first-layer-size");
  EXPECT_THAT(spec.params[2].discrete_values, ElementsAre(16, 32, 64));
  EXPECT_THAT(spec.params[3].categorical_values, ElementsAre("adam", "sgd"));
}

TEST(HyperparameterSpec, HasTheDefaultsOfCloudMlEngine) {
  const auto spec =
      parse_hyperparameters(with_param(R"("type": "DOUBLE", "minValue": 0, "maxValue": 1)"));
  EXPECT_EQ(spec.goal, Goal::kMaximize);
  EXPECT_EQ(spec.max_trials, 1);
  EXPECT_EQ(spec.max_parallel_trials, 1);
  EXPECT_EQ(spec.max_failed_trials, 0);
  EXPECT_EQ(spec.metric_tag, "training/hptuning/metric");
  EXPECT_EQ(spec.algorithm, kDefaultAlgorithm);
  EXPECT_FALSE(spec.enable_trial_early_stopping);
}

TEST(HyperparameterSpec, PutsChildrenBehindTheirParents) {
  const auto spec = parse_hyperparameters(R"({"params": [
      {"parameterName": "optimizer", "type": "CATEGORICAL", "categoricalValues": ["adam", "sgd"],
       "childParameterSpecs": [
         {"parameterName": "beta", "type": "DOUBLE", "minValue": 0, "maxValue": 1,
          "parentCategoricalValues": {"values": ["adam"]}},
         {"parameterName": "momentum", "type": "DOUBLE", "minValue": 0, "maxValue": 1,
          "parentCategoricalValues": {"values": ["sgd"]}}]},
      {"parameterName": "rate", "type": "DOUBLE", "minValue": 0, "maxValue": 1}]})");
  ASSERT_EQ(spec.params.size(), 4U);
  ASSERT_TRUE(spec.params[2].condition);
  EXPECT_EQ(spec.params[2].name, "momentum");
  EXPECT_EQ(spec.params[2].condition->parent, 0U);
  EXPECT_THAT(spec.params[2].condition->values, ElementsAre("sgd"));
  EXPECT_FALSE(spec.params[3].condition);
}

TEST(HyperparameterSpec, SaysWhatIsWrongWithAParameter) {
  EXPECT_THAT(error_of(with_param(R"("type": "FLOAT")")),
              HasSubstr("hyperparameters.params[0].type must be one of DOUBLE, INTEGER"));
  EXPECT_THAT(error_of(with_param(R"("minValue": 0, "maxValue": 1)")),
              HasSubstr("type is missing"));
  EXPECT_THAT(error_of(with_param(R"("type": "DOUBLE", "minValue": 0)")),
              HasSubstr("need minValue and maxValue"));
  EXPECT_THAT(error_of(with_param(R"("type": "DOUBLE", "minValue": 2, "maxValue": 1)")),
              HasSubstr("parameter rate: minValue 2 is above maxValue 1"));
  EXPECT_THAT(error_of(with_param(R"("type": "INTEGER", "minValue": 0.5, "maxValue": 1)")),
              HasSubstr("whole ends: 0.5"));
  EXPECT_THAT(error_of(with_param(R"("type": "DISCRETE", "discreteValues": [1, 3, 2])")),
              HasSubstr("discreteValues must increase: 2 stands behind 3"));
  EXPECT_THAT(error_of(with_param(R"("type": "DISCRETE")")), HasSubstr("1 to 1000 discreteValues"));
  EXPECT_THAT(error_of(with_param(R"("type": "CATEGORICAL", "categoricalValues": ["a", "a"])")),
              HasSubstr("duplicate categoricalValue \"a\""));
  EXPECT_THAT(error_of(with_param(R"("type": "CATEGORICAL", "categoricalValues": ["a"],
                                     "scaleType": "UNIT_LOG_SCALE")")),
              HasSubstr("CATEGORICAL has no scale"));
  EXPECT_THAT(error_of(with_param(R"("type": "DOUBLE", "minValue": 0, "maxValue": 1,
                                     "scaleType": "UNIT_LOG_SCALE")")),
              HasSubstr("a log scale needs a range above 0, and this one begins at 0"));
  EXPECT_THAT(error_of(with_param(R"("type": "DOUBLE", "minValue": "x", "maxValue": 1)")),
              HasSubstr("params[0].minValue must be a number"));
  EXPECT_THAT(error_of(with_param(R"("type": "DOUBLE", "minvalue": 1)")),
              HasSubstr("did you mean minValue?"));
}

TEST(HyperparameterSpec, SaysWhatIsWrongWithAStudy) {
  const std::string param =
      R"({"parameterName": "rate", "type": "DOUBLE", "minValue": 0, "maxValue": 1})";
  EXPECT_THAT(error_of("{}"), HasSubstr("params is missing"));
  EXPECT_THAT(error_of(R"({"params": []})"), HasSubstr("nothing to search"));
  EXPECT_THAT(error_of("[1"), HasSubstr("no JSON"));
  EXPECT_THAT(error_of(R"({"params": [)" + param + R"(], "algorithm": "GRID_SEARCH"})"),
              HasSubstr("GRID_SEARCH goes over no DOUBLE"));
  EXPECT_THAT(error_of(R"({"params": [)" + param + R"(], "maxTrials": 0})"),
              HasSubstr("maxTrials must be a whole number from 1"));
  EXPECT_THAT(error_of(R"({"params": [)" + param + "," + param + "]}"),
              HasSubstr("duplicate parameter name"));
  EXPECT_THAT(error_of(R"({"params": [)" + param + R"(], "goal": "BEST"})"),
              HasSubstr("goal must be one of"));
  EXPECT_THAT(error_of(R"({"params": [{"parameterName": "a b", "type": "DOUBLE"}]})"),
              HasSubstr("becomes a flag"));
}

TEST(HyperparameterSpec, ReadsGoalsAndConstraints) {
  const std::string params =
      R"("params": [{"parameterName": "x", "type": "DOUBLE", "minValue": 0, "maxValue": 1}])";
  const auto spec = parse_hyperparameters(
      R"({"metrics": [{"metric": "loss", "goal": "MINIMIZE"}, {"metric": "auc"}],
          "constraints": [{"metric": "bytes", "maxValue": 5}], )" +
      params + "}");
  EXPECT_EQ(spec.metric_tag, "loss");
  EXPECT_EQ(spec.goal, Goal::kMinimize);
  EXPECT_EQ(spec.other_goals, (std::vector<MetricGoal>{{"auc", Goal::kMaximize}}));
  EXPECT_EQ(spec.constraints, (std::vector<MetricBound>{{"bytes", {}, 5}}));
  const auto error = [&](const std::string& fields) {
    return error_of("{" + fields + ", " + params + "}");
  };
  const std::string two = R"("metrics": [{"metric": "a"}, {"metric": "b"}])";
  EXPECT_THAT(error(two + R"(, "goal": "MINIMIZE")"), HasSubstr("leave out goal"));
  EXPECT_THAT(error(R"("metrics": [{"metric": "a"}, {"metric": "a"}])"),
              HasSubstr("duplicate metric a"));
  EXPECT_THAT(error(R"("metrics": [])"), HasSubstr("metrics has from 1 to 16 metrics"));
  EXPECT_THAT(error(R"("metrics": [{"goal": "MINIMIZE"}])"),
              HasSubstr("metrics[0].metric is missing"));
  EXPECT_THAT(error(R"("constraints": [{"metric": "a"}])"),
              HasSubstr("needs minValue or maxValue"));
  EXPECT_THAT(error(R"("constraints": [{"metric": "a", "minValue": 2, "maxValue": 1}])"),
              HasSubstr("minValue 2 is above maxValue 1"));
  EXPECT_THAT(error(two + R"(, "trialStopping": {"rule": "ASHA"})"),
              HasSubstr("trials are stopped by one metric"));
}

TEST(HyperparameterSpec, SaysWhatIsWrongWithAChild) {
  const auto child = [](const std::string& parent, const std::string& values) {
    return error_of(R"({"params": [{"parameterName": "p", )" + parent +
                    R"(, "childParameterSpecs": [{"parameterName": "c", "type": "INTEGER",
                        "minValue": 1, "maxValue": 2)" +
                    values + "}]}]}");
  };
  EXPECT_THAT(child(R"("type": "DOUBLE", "minValue": 0, "maxValue": 1)",
                    R"(, "parentIntValues": {"values": [1]})"),
              HasSubstr("the parent p is a DOUBLE"));
  EXPECT_THAT(child(R"("type": "INTEGER", "minValue": 0, "maxValue": 1)", ""),
              HasSubstr("a child needs parentIntValues"));
  EXPECT_THAT(child(R"("type": "INTEGER", "minValue": 0, "maxValue": 1)",
                    R"(, "parentIntValues": {"values": [2]})"),
              HasSubstr("the parent p never has the value \"2\""));
  EXPECT_EQ(child(R"("type": "INTEGER", "minValue": 0, "maxValue": 1)",
                  R"(, "parentIntValues": {"values": [1]})"),
            "no error");
}

TEST(ValueText, IsTheShortestThatReadsBack) {
  EXPECT_EQ(value_text(0.1), "0.1");
  EXPECT_EQ(value_text(3), "3");
  EXPECT_EQ(value_text(-250), "-250");
  EXPECT_EQ(std::stod(value_text(1.0 / 3)), 1.0 / 3);
}

TEST(HyperparameterSpec, ReadsHowTrialsAreStopped) {
  const std::string params =
      R"("params": [{"parameterName": "x", "type": "DOUBLE", "minValue": 0, "maxValue": 1}])";
  const auto spec = parse_hyperparameters(
      R"({"trialStopping": {"rule": "ASHA", "stepsFlag": "steps", "minSteps": "10",
          "reductionFactor": 4}, )" +
      params + "}");
  EXPECT_EQ(spec.halving, (TrialStopping{StoppingRule::kAsha, "steps", 10, 4}));
  EXPECT_TRUE(parse_hyperparameters(R"({"trialStopping": {"rule": "MEDIAN"}, )" + params + "}")
                  .enable_trial_early_stopping);
  const auto failure = [&](const std::string& field) -> std::string {
    try {
      parse_hyperparameters("{" + field + ", " + params + "}");
    } catch (const InvalidArgument& error) {
      return error.what();
    }
    return "none";
  };
  EXPECT_THAT(failure(R"("trialStopping": {"rule": "HALF"})"),
              HasSubstr("trialStopping.rule must be one of MEDIAN, ASHA, HYPERBAND"));
  EXPECT_THAT(failure(R"("trialStopping": {})"), HasSubstr("rule is missing"));
  EXPECT_THAT(failure(R"("trialStopping": {"rule": "ASHA", "stepsFlag": "x"})"),
              HasSubstr("gives --x to every trial"));
  EXPECT_THAT(failure(R"("trialStopping": {"rule": "ASHA"}, "enableTrialEarlyStopping": true)"),
              HasSubstr("two rules"));
}

}  // namespace
}  // namespace muster::tuning
