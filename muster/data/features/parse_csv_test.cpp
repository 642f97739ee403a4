#include "muster/data/features/parse_csv.h"

#include <gmock/gmock.h>
#include <torch/types.h>

#include "muster/base/error.h"
#include "muster/base/file_system.h"
#include "muster/testing/message_of.h"
#include "muster/testing/temp_dir.h"

namespace muster {
namespace {

using muster::testing::message_of;
using muster::testing::TempDir;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::vector<Record> rows_of(const Path& file) {
  std::vector<Record> rows;
  const auto source = open_csv(file);
  for (Record row; source->next(row);) rows.push_back(row);
  return rows;
}

ParseCsvOptions people(bool may_be_blank = false) {
  return {.fields = {CsvField::int32("age", 0), CsvField::string("job", ""),
                     CsvField::string("income")},
          .csv = {.strip_blanks = true},
          .label = {.field = "income",
                    .vocabulary = {"low", "high"},
                    .ending = ".",
                    .may_be_blank = may_be_blank}};
}

TEST(ParseCsv, MakesFeaturesAndLabelsThatOutliveTheRows) {
  const TempDir folder;
  write_file_atomically(folder / "people.csv", "39, clerk, low\n50, , high.\n");
  const Batch batch = [&] { return parse_csv(people())(rows_of(folder / "people.csv")); }();
  EXPECT_TRUE(at::equal(batch.labels.tensor(kLabel), torch::tensor({{0}, {1}}, at::kLong)));
  EXPECT_FALSE(batch.features.contains("income"));
  EXPECT_EQ(batch.features.tensor("age").numel(), 2);
  const auto& jobs = std::get<StringColumn>(batch.features.at("job"));
  EXPECT_EQ(jobs.values()[0], "clerk");
  EXPECT_EQ(jobs.values()[1], "");
}

TEST(ParseCsv, NamesTheRowOfAnUnknownLabelAndOfABadNumber) {
  const TempDir folder;
  const Path file = folder / "people.csv";
  write_file_atomically(file, "39, clerk, low\n50, , much\n");
  ParseCsvOptions options = people();
  options.name = find_row_in({file}, [](const Path& path) { return open_csv(path); });
  EXPECT_THAT(message_of([&] { parse_csv(options)(rows_of(file)); }),
              AllOf(HasSubstr("people.csv"), HasSubstr("line 2"),
                    HasSubstr("income is 'much', not low or high")));
  write_file_atomically(file, "x, clerk, low\n");
  EXPECT_THAT(message_of([&] { parse_csv(options)(rows_of(file)); }), HasSubstr("line 1"));
  options.name = {};
  EXPECT_THAT(message_of([&] { parse_csv(options)(rows_of(file)); }), HasSubstr("row 0"));
}

TEST(ParseCsv, TakesRowsWithoutALabelWhereTheyMayBeSo) {
  const TempDir folder;
  write_file_atomically(folder / "people.csv", "39, clerk,\n");
  const auto rows = rows_of(folder / "people.csv");
  EXPECT_THROW(parse_csv(people())(rows), InvalidArgument);
  EXPECT_EQ(parse_csv(people(true))(rows).labels.tensor(kLabel).item<std::int64_t>(), 0);
}

TEST(ParseCsv, RefusesALabelThatIsNoFieldOfWords) {
  ParseCsvOptions options = people();
  options.label.field = "age";
  EXPECT_THROW(parse_csv(options), InvalidArgument);
  options.label = {.field = "income"};
  EXPECT_THROW(parse_csv(options), InvalidArgument);
}

}  // namespace
}  // namespace muster
