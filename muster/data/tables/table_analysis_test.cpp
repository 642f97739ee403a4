#include "muster/data/tables/table_analysis.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/random.h"
#include "muster/data/records/example_builder.h"
#include "muster/data/records/record_writer.h"
#include "muster/data/tables/json_lines.h"
#include "muster/data/tables/text_tables.h"
#include "muster/testing/temp_dir.h"

namespace muster {
namespace {

using ::testing::Contains;
using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using testing::TempDir;
using testing::write_bytes;

TableAnalysis analysis_of(const std::string& text) {
  return analyze_table(*open_json_lines(text, "x.jsonl", {.block_rows = 16}));
}

ColumnSummary only_column(const TableAnalysis& analysis) { return analysis.columns().front(); }

std::string numbers_text(std::uint64_t seed, int count, double mean, double deviation) {
  Random random(seed);
  std::string text;
  for (int i = 0; i < count; ++i) {
    text += fmt::format("{{\"x\": {:.17g}}}\n", mean + deviation * (random.uniform() * 2 - 1));
  }
  return text;
}

TEST(TableAnalysis, CountsMissingZerosRangesMeansAndDeviations) {
  const auto x = only_column(
      analysis_of("{\"x\": 1}\n{\"x\": null}\n{\"x\": 0}\n{\"x\": 5.0}\n{\"x\": -2}\n"));
  EXPECT_EQ(x.values, 5u);
  EXPECT_EQ(x.missing, 1u);
  ASSERT_TRUE(x.numbers.has_value());
  EXPECT_EQ(x.numbers->count, 4u);
  EXPECT_EQ(x.numbers->zeros, 1u);
  EXPECT_EQ(x.numbers->min, -2);
  EXPECT_EQ(x.numbers->max, 5);
  EXPECT_EQ(x.numbers->mean, 1);
  EXPECT_EQ(x.numbers->deviation, std::sqrt(6.5));
}

TEST(TableAnalysis, AddsNegativeTinyAndHugeNumbers) {
  const auto x =
      only_column(analysis_of("{\"x\": -1e300}\n{\"x\": 5e-324}\n{\"x\": -3.5}\n{\"x\": 1e300}\n"));
  EXPECT_EQ(x.numbers->mean, -0.875);
  const auto negative = only_column(analysis_of("{\"x\": -2.5}\n{\"x\": -3.5}\n"));
  EXPECT_EQ(negative.numbers->mean, -3);
  EXPECT_EQ(negative.numbers->deviation, 0.5);
  EXPECT_EQ(negative.numbers->quantiles.front(), -3.5);
}

// A deviation of 1 beside a mean of 1e9 has no right digit left where squares are rounded.
TEST(TableAnalysis, KeepsTheDeviationOfNumbersFarFromZero) {
  std::string text;
  for (int i = 0; i < 1000; ++i)
    text += fmt::format("{{\"x\": {}}}\n", 1'000'000'000 + (i % 2) * 2);
  const auto x = only_column(analysis_of(text));
  EXPECT_EQ(x.numbers->mean, 1'000'000'001);
  EXPECT_EQ(x.numbers->deviation, 1);
}

TEST(TableAnalysis, FindsQuantilesToThreeInTenThousand) {
  std::string text;
  for (int i = 0; i < 10'000; ++i) text += fmt::format("{{\"x\": {}.5}}\n", (i * 7919) % 10'000);
  const auto x = only_column(analysis_of(text));
  const double expected[] = {100, 2500, 5000, 7500, 9900};
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_THAT(x.numbers->quantiles[i], DoubleNear(expected[i], 0.0003 * expected[i] + 1));
  }
  for (const std::uint64_t part : x.numbers->histogram)
    EXPECT_NEAR(static_cast<double>(part), 1000, 30);
  EXPECT_THAT(x.distinct, IsEmpty());
}

TEST(TableAnalysis, OfPartsMergesToThatOfTheWholeToTheBit) {
  std::string all;
  std::vector<TableAnalysis> parts;
  for (std::uint64_t part = 0; part < 4; ++part) {
    const std::string text =
        numbers_text(part, 500, 1e6, std::pow(10.0, static_cast<double>(part) * 3));
    all += text;
    parts.push_back(analysis_of(text));
  }
  const auto whole = only_column(analysis_of(all));
  for (const std::vector<std::size_t>& order :
       {std::vector<std::size_t>{0, 1, 2, 3}, {3, 1, 0, 2}}) {
    TableAnalysis merged;
    for (const std::size_t part : order) merged.merge(parts[part]);
    const auto x = only_column(merged);
    EXPECT_EQ(merged.rows(), 2000u);
    EXPECT_TRUE(std::isfinite(x.numbers->mean));
    EXPECT_EQ(x.numbers->mean, whole.numbers->mean);
    EXPECT_EQ(x.numbers->deviation, whole.numbers->deviation);
    EXPECT_EQ(x.numbers->quantiles, whole.numbers->quantiles);
    EXPECT_EQ(x.numbers->histogram, whole.numbers->histogram);
  }
}

TEST(TableAnalysis, CountsWordsAndLists) {
  const auto analysis = analysis_of(
      "{\"w\": \"b\", \"l\": [1, 2]}\n{\"w\": \"a\", \"l\": []}\n{\"w\": \"b\", \"l\": [2, null, "
      "3]}\n");
  const auto columns = analysis.columns();
  const auto& lists = columns[0];
  EXPECT_EQ(lists.field.name, "l");
  EXPECT_EQ(lists.longest_list, 3u);
  EXPECT_EQ(lists.shortest_list, 0u);
  EXPECT_EQ(lists.missing, 1u);
  EXPECT_THAT(lists.distinct, ElementsAre(Pair("2", 2u), Pair("1", 1u), Pair("3", 1u)));
  EXPECT_THAT(columns[1].distinct, ElementsAre(Pair("b", 2u), Pair("a", 1u)));
  EXPECT_EQ(columns[1].strings->longest, 1u);
}

TEST(TableAnalysis, TellsHowTwoFilesDiffer) {
  std::string train;
  std::string other;
  for (int i = 0; i < 400; ++i) {
    train += fmt::format("{{\"id\": {0}, \"x\": {0}, \"w\": \"{1}\", \"gone\": 1}}\n", i,
                         i % 2 == 0 ? "a" : "b");
    other += fmt::format("{{\"id\": {}, \"x\": {}, \"w\": \"{}\"}}\n", i,
                         i % 10 == 0 ? "null" : fmt::format("{}", i * 2), i % 4 == 0 ? "c" : "b");
  }
  const auto differences = analysis_of(train).differences(analysis_of(other));
  EXPECT_THAT(differences, Contains(HasSubstr("`gone` is in the training data alone")));
  EXPECT_THAT(differences,
              Contains(HasSubstr("`x`: 0.0 % are missing in the training data, 10.0 %")));
  EXPECT_THAT(differences, Contains(HasSubstr("`x`: its numbers are distributed otherwise")));
  EXPECT_THAT(
      differences,
      Contains(HasSubstr("`w`: 25.0 % of the values are not in the training data, such as c")));
  EXPECT_EQ(differences.size(), 5u);  // and the share of a
}

TEST(TableAnalysis, FindsNoDifferenceInPartsOfOneDistribution) {
  EXPECT_THAT(analysis_of(numbers_text(1, 2000, 5, 1))
                  .differences(analysis_of(numbers_text(2, 2000, 5, 1))),
              IsEmpty());
}

TEST(TableAnalysis, FindsRowsThatAreInBoth) {
  const auto train = analysis_of("{\"x\": 1, \"w\": \"a\"}\n{\"x\": 2, \"w\": \"b\"}\n");
  const auto other = analysis_of("{\"w\": \"b\", \"x\": 2}\n{\"w\": \"a\", \"x\": 2}\n");
  EXPECT_THAT(train.differences(other),
              Contains(HasSubstr("1 different rows are also in the training data")));
}

TEST(TextTables, ReadCsvWithItsHeader) {
  const TempDir folder;
  write_bytes(folder / "x.csv", "age, name,mixed\n31,Ann,1\n,\"B, C\",x\n+7,?,2.5\n");
  const auto block = open_csv_table(folder / "x.csv", {.na_value = "?"})->next();
  ASSERT_EQ(block->rows, 3u);
  EXPECT_THAT(std::get<TableNumbers<std::int64_t>>(block->columns[0].values),
              ElementsAre(31, 0, 7));
  EXPECT_THAT(block->columns[0].valid, ElementsAre(1, 0, 1));
  EXPECT_THAT(std::get<std::vector<std::string_view>>(block->columns[1].values),
              ElementsAre("Ann", "B, C", ""));
  EXPECT_THAT(std::get<std::vector<std::string_view>>(block->columns[2].values),
              ElementsAre("1", "x", "2.5"));
}

TEST(TextTables, ReadExamples) {
  const TempDir folder;
  {
    RecordWriter writer(folder / "x.tfrecords");
    for (std::int64_t i = 0; i < 3; ++i) {
      ExampleBuilder example;
      example.add_int("id", i);
      const std::vector<float> values(static_cast<std::size_t>(i), 0.5F);
      example.add_floats("v", values);
      writer.append(example.serialize());
    }
    writer.close();
  }
  const auto block = open_example_table(folder / "x.tfrecords")->next();
  ASSERT_EQ(block->rows, 3u);
  const TableColumn& ids = block->columns[block->column("id")];
  EXPECT_THAT(std::get<TableNumbers<std::int64_t>>(ids.values), ElementsAre(0, 1, 2));
  EXPECT_THAT(block->columns[block->column("v")].splits.front(), ElementsAre(0, 0, 1, 3));
}

}  // namespace
}  // namespace muster
