#include "muster/orchestration/tuning/search_algorithms.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "muster/orchestration/tuning/searchers_internal.h"
#include "muster/orchestration/tuning/study.h"
#include "muster/orchestration/tuning/study_test_internal.h"
#include "muster/testing/temp_dir.h"

namespace muster::tuning {
namespace {

using ::testing::IsSupersetOf;

// Trial n has the point 1 / (n + 1).
class Harmonic final : public Searcher {
 public:
  std::vector<Point> suggest(std::size_t count,
                             std::span<const Observation> history) const override {
    return one_by_one(count, history, [](std::span<const Observation> known) {
      return Point{1.0 / static_cast<double>(known.size() + 1)};
    });
  }
};

SearchAlgorithm harmonic() {
  return {.names = {"HARMONIC"},
          .make = [](SearchSpace, std::uint64_t) { return std::make_unique<Harmonic>(); }};
}

TEST(SearchAlgorithms, BuiltInOnesHaveTheNamesOfTheApi) {
  EXPECT_THAT(SearchAlgorithms::built_in().names(),
              IsSupersetOf({"ALGORITHM_UNSPECIFIED", "GAUSSIAN_PROCESS_BANDIT", "GRID_SEARCH",
                            "RANDOM_SEARCH", "QUASI_RANDOM_SEARCH", "TPE", "CMA_ES",
                            "POPULATION_BASED_TRAINING"}));
  EXPECT_EQ(&SearchAlgorithms::built_in().find("ALGORITHM_UNSPECIFIED"),
            &SearchAlgorithms::built_in().find("GAUSSIAN_PROCESS_BANDIT"));
}

TEST(SearchAlgorithms, RefuseUnknownAndDuplicateNames) {
  SearchAlgorithms algorithms = SearchAlgorithms::built_in();
  EXPECT_THROW(algorithms.find("HARMONIC"), InvalidArgument);
  algorithms.add(harmonic());
  EXPECT_EQ(algorithms.find("HARMONIC").names.front(), "HARMONIC");
  EXPECT_THROW(algorithms.add(harmonic()), InvalidArgument);
  EXPECT_THROW(algorithms.add({.names = {"WITHOUT_SEARCHER"}}), InvalidArgument);
  EXPECT_THROW(algorithms.add({.make = harmonic().make}), InvalidArgument);
}

TEST(SearchAlgorithms, OfAProgramRunItsStudies) {
  const testing::TempDir dir;
  StudyOptions options{.hyperparameters = spec_of(3, 1, R"(, "algorithm": "HARMONIC")"),
                       .job_dir = dir / "study",
                       .command = parabola()};
  EXPECT_THROW(run_study(options), InvalidArgument);
  options.algorithms.add(harmonic());
  const Study study = run_study(options);
  ASSERT_EQ(study.trials.size(), 3U);
  EXPECT_EQ(std::stod(study.trials[1].values.at("x")), 0.5);
  EXPECT_EQ(std::stod(study.trials[2].values.at("x")), 1.0 / 3);
  // Programs without it show its studies all the same.
  EXPECT_EQ(read_study(dir / "study").spec.algorithm, "HARMONIC");
}

TEST(SearchAlgorithms, CheckTheSpecificationsOfTheirStudies) {
  SearchAlgorithms algorithms = SearchAlgorithms::built_in();
  SearchAlgorithm picky = harmonic();
  picky.check = [](const HyperparameterSpec& spec) {
    if (spec.max_trials > 3) throw InvalidArgument("HARMONIC has 3 points");
  };
  algorithms.add(picky);
  const std::string harmonic = R"(, "algorithm": "HARMONIC")";
  EXPECT_EQ(parse_hyperparameters(spec_of(3, 1, harmonic), algorithms).max_trials, 3);
  EXPECT_THROW(parse_hyperparameters(spec_of(4, 1, harmonic), algorithms), InvalidArgument);
}

}  // namespace
}  // namespace muster::tuning
