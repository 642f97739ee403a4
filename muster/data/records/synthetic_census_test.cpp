#include "muster/data/records/synthetic_census.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <string>

#include "muster/base/error.h"
#include "muster/base/file_system.h"
#include "muster/data/records/csv.h"
#include "muster/testing/temp_dir.h"

namespace muster {
namespace {

using testing::TempDir;

double mean(const auto& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

TEST(SyntheticCensus, GivesTheSameRowsForASeedWhateverTheirNumber) {
  const auto few = make_synthetic_census(10, 5);
  const auto many = make_synthetic_census(100, 5);
  EXPECT_TRUE(std::equal(few.rows.begin(), few.rows.end(), many.rows.begin()));
  EXPECT_NE(few.rows, make_synthetic_census(10, 6).rows);
}

TEST(SyntheticCensus, GivesTheseBytesOnEveryMachine) {
  EXPECT_EQ(
      make_synthetic_census(4, 1).rows[3],
      "28,Private,198227,Bachelors,13,Married-civ-spouse,Exec-managerial,Husband,White,Male,0,0,50,"
      "United-States,>50K");
}

TEST(SyntheticCensus, IsWrittenAsTheFilesOfTheRealData) {
  const TempDir folder;
  const auto files = write_synthetic_census(folder.path() / "made", {.train = 60, .test = 40});
  const auto train = make_synthetic_census(60, 1);
  std::string text;
  for (const auto& row : train.rows) text += row + "\n";
  EXPECT_EQ(files.train.path, folder.path() / "made" / "adult.data.csv");
  EXPECT_EQ(read_file(files.train.path), text);
  EXPECT_EQ(files.train.best_auc, train.best_auc());

  // The test file does not begin with people that were trained on, and depends on its size alone.
  const std::string test = read_file(files.test.path);
  EXPECT_EQ(std::count(test.begin(), test.end(), '\n'), 40);
  EXPECT_NE(test.substr(0, test.find('\n')), train.rows.front());
  write_synthetic_census(folder.path() / "more", {.train = 90, .test = 40});
  EXPECT_EQ(read_file(folder.path() / "more" / "adult.test.csv"), test);
}

TEST(SyntheticCensus, LooksLikeTheRealData) {
  const auto census = make_synthetic_census(20'000, 1);
  const CsvDecoder decoder({CsvField::int32("age"), CsvField::string("workclass"),
                            CsvField::int32("fnlwgt"), CsvField::string("education"),
                            CsvField::int32("education_num"), CsvField::string("marital_status"),
                            CsvField::string("occupation"), CsvField::string("relationship"),
                            CsvField::string("race"), CsvField::string("gender"),
                            CsvField::int32("capital_gain"), CsvField::int32("capital_loss"),
                            CsvField::int32("hours_per_week"), CsvField::string("native_country"),
                            CsvField::string("income_bracket")});
  const std::vector<std::string_view> rows(census.rows.begin(), census.rows.end());
  const auto columns = decoder.decode(rows);
  EXPECT_NEAR(mean(columns.int32s("age")), 38.6, 3);
  EXPECT_NEAR(mean(columns.int32s("education_num")), 10.1, 0.5);
  EXPECT_NEAR(mean(columns.int32s("hours_per_week")), 40.4, 3);
  const auto workclasses = columns.strings("workclass");
  EXPECT_EQ(std::set(workclasses.begin(), workclasses.end()).size(), 9U);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(columns.strings("income_bracket")[i], census.labels[i] != 0 ? ">50K" : "<=50K");
  }
}

TEST(SyntheticCensus, DrawsLabelsWithTheProbabilitiesItTells) {
  const auto census = make_synthetic_census(20'000, 2);
  EXPECT_NEAR(mean(census.labels), mean(census.probabilities), 0.01);
  EXPECT_NEAR(mean(census.labels), 0.24, 0.02);
  EXPECT_GT(census.best_auc(), 0.90);
  EXPECT_LT(census.best_auc(), 0.95);
}

TEST(ExactAuc, CountsOrderedPairsAndHalfOfTies) {
  const std::vector<double> scores{0.1, 0.4, 0.35, 0.8};
  const std::vector<std::uint8_t> labels{0, 0, 1, 1};
  EXPECT_DOUBLE_EQ(exact_auc(scores, labels), 0.75);
  const std::vector<double> same(4, 0.5);
  EXPECT_DOUBLE_EQ(exact_auc(same, labels), 0.5);
  const std::vector<double> tied{0.5, 0.2, 0.5, 0.9};
  EXPECT_DOUBLE_EQ(exact_auc(tied, labels), 3.5 / 4);
}

TEST(ExactAuc, RefusesWhatHasNoAnswer) {
  const std::vector<double> scores{0.1, 0.2};
  EXPECT_THROW(exact_auc(scores, std::vector<std::uint8_t>{1}), InvalidArgument);
  EXPECT_THROW(exact_auc(scores, std::vector<std::uint8_t>{1, 1}), InvalidArgument);
  EXPECT_THROW(exact_auc(std::vector<double>{0.1, std::nan("")}, std::vector<std::uint8_t>{1, 0}),
               InvalidArgument);
}

}  // namespace
}  // namespace muster
