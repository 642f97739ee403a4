#include "muster/data/records/csv.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "muster/base/error.h"
#include "muster/testing/data_dir.h"
#include "muster/testing/message_of.h"
#include "muster/testing/temp_dir.h"

namespace muster {
namespace {

using muster::testing::message_of;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::TempDir;
using testing::write_bytes;

CsvColumns decode(const CsvDecoder& decoder, const std::vector<std::string_view>& rows) {
  return decoder.decode(rows);
}

std::vector<std::string> rows_of(RecordSource& source) {
  std::vector<std::string> rows;
  for (Record row; source.next(row);) rows.emplace_back(row.bytes);
  return rows;
}

TEST(CsvDecoder, FillsTypedColumnsFromABatch) {
  const CsvDecoder decoder({CsvField::int32("age"), CsvField::int64("id"),
                            CsvField::float32("score"), CsvField::float64("exact"),
                            CsvField::ignored("junk"), CsvField::string("name")});
  const auto columns =
      decode(decoder, {"39,-5000000000,1.5,0.1,x,Ann", " 7 ,+1,-inf,1e300,y, Bob"});
  EXPECT_EQ(columns.rows, 2U);
  EXPECT_THAT(columns.int32s("age"), ElementsAre(39, 7));
  EXPECT_THAT(columns.int64s("id"), ElementsAre(-5'000'000'000, 1));
  EXPECT_THAT(columns.floats("score"), ElementsAre(1.5F, -std::numeric_limits<float>::infinity()));
  EXPECT_THAT(columns.doubles("exact"), ElementsAre(0.1, 1e300));
  EXPECT_THAT(columns.strings("name"), ElementsAre("Ann", " Bob"));
  EXPECT_THROW(columns.strings("junk"), InvalidArgument);
  EXPECT_THROW(columns.strings("nobody"), NotFound);
}

TEST(CsvDecoder, TakesDefaultsForBlanks) {
  const CsvDecoder decoder({CsvField::int32("a", 4), CsvField::float32("b", 0.5F),
                            CsvField::string("c", "none"), CsvField::float64("d", 2.0)},
                           {.na_value = "NA"});
  const auto columns = decode(decoder, {",,,", "NA, ,NA,NA", "1,2,x,3"});
  EXPECT_THAT(columns.int32s("a"), ElementsAre(4, 4, 1));
  EXPECT_THAT(columns.floats("b"), ElementsAre(0.5F, 0.5F, 2));
  EXPECT_THAT(columns.strings("c"), ElementsAre("none", "none", "x"));
  EXPECT_THAT(columns.doubles("d"), ElementsAre(2, 2, 3));
}

TEST(CsvDecoder, ReadsQuotedFields) {
  const CsvDecoder decoder(
      {CsvField::string("a"), CsvField::int32("b"), CsvField::string("c", "")});
  const std::vector<std::string_view> rows{R"("x,y","12","say ""hi""")", "\"two\nlines\",3,\"\"",
                                           R"("""",4,"a""")"};
  const auto columns = decoder.decode(rows);
  EXPECT_THAT(columns.strings("a"), ElementsAre("x,y", "two\nlines", "\""));
  EXPECT_THAT(columns.int32s("b"), ElementsAre(12, 3, 4));
  EXPECT_THAT(columns.strings("c"), ElementsAre("say \"hi\"", "", "a\""));
  // No copy where none is needed.
  EXPECT_EQ(columns.strings("a")[0].data(), rows[0].data() + 1);
}

TEST(CsvDecoder, TakesQuotesAsLettersWhenTold) {
  const CsvDecoder decoder({CsvField::string("a"), CsvField::string("b")}, {.use_quotes = false});
  EXPECT_THAT(decode(decoder, {"\"x,y\"z"}).strings("b"), ElementsAre("y\"z"));
}

TEST(CsvDecoder, StripsBlanksOfUnquotedStringsWhenTold) {
  const CsvDecoder decoder({CsvField::string("a"), CsvField::string("b")}, {.strip_blanks = true});
  const auto columns = decode(decoder, {" x\t,\" y \""});
  EXPECT_THAT(columns.strings("a"), ElementsAre("x"));
  EXPECT_THAT(columns.strings("b"), ElementsAre(" y "));
}

TEST(CsvDecoder, SplitsAtAnotherDelimiter) {
  const CsvDecoder decoder({CsvField::string("a"), CsvField::string("b")}, {.delimiter = '\t'});
  EXPECT_THAT(decode(decoder, {"1,2\t3"}).strings("a"), ElementsAre("1,2"));
}

TEST(CsvDecoder, NamesRowFieldAndTextOfABadNumber) {
  const CsvDecoder decoder({CsvField::string("name"), CsvField::int32("age", 0)});
  const std::vector<std::string_view> rows{"Ann,1", "Bob,old"};
  EXPECT_THAT(message_of([&] {
                decoder.decode(rows, [](std::size_t row) {
                  return fmt::format("people.csv line {}", row + 1);
                });
              }),
              HasSubstr("people.csv line 2: field 2 (age): not a valid int32: 'old'"));
}

TEST(CsvDecoder, RefusesNumbersThatDoNotFit) {
  const auto refuses = [](CsvField field, std::string_view text) {
    return message_of([&] { decode(CsvDecoder({std::move(field)}), {text}); });
  };
  EXPECT_THAT(refuses(CsvField::int32("n"), "2147483648"), HasSubstr("out of range for int32"));
  EXPECT_THAT(refuses(CsvField::int64("n"), "9223372036854775808"),
              HasSubstr("out of range for int64"));
  EXPECT_THAT(refuses(CsvField::float32("n"), "1e39"), HasSubstr("out of range for float"));
  EXPECT_THAT(refuses(CsvField::float64("n"), "1e999"), HasSubstr("out of range for double"));
  for (const auto* bad : {"1.5", "0x10", "12 3", "--1", "+-1", "+", "1,", "\"1\" "}) {
    EXPECT_THAT(refuses(CsvField::int32("n"), bad), ::testing::Not(HasSubstr("nothing"))) << bad;
  }
  EXPECT_THAT(refuses(CsvField::float32("n"), "1.5x"), HasSubstr("not a valid float"));
  EXPECT_THAT(decode(CsvDecoder({CsvField::float32("n")}), {"1e-60"}).floats("n"), ElementsAre(0));
}

TEST(CsvDecoder, CountsFieldsExactly) {
  const CsvDecoder decoder({CsvField::string("a", ""), CsvField::string("b", "")});
  EXPECT_THAT(message_of([&] { decode(decoder, {"1"}); }), HasSubstr("1 fields, expected 2"));
  EXPECT_THAT(message_of([&] { decode(decoder, {"1,2,3,4"}); }), HasSubstr("4 fields, expected 2"));
  EXPECT_THAT(message_of([&] { decode(decoder, {"1,2,"}); }), HasSubstr("3 fields, expected 2"));
}

TEST(CsvDecoder, RefusesABlankInARequiredField) {
  const CsvDecoder decoder({CsvField::string("a", ""), CsvField::int32("b")});
  EXPECT_THAT(message_of([&] { decode(decoder, {"x,"}); }),
              AllOf(HasSubstr("field 2 (b)"), HasSubstr("required, but blank")));
}

TEST(CsvDecoder, RefusesMisplacedQuotes) {
  const CsvDecoder decoder({CsvField::string("a"), CsvField::string("b")});
  EXPECT_THAT(message_of([&] { decode(decoder, {"x\"y,z"}); }),
              HasSubstr("quote inside an unquoted"));
  EXPECT_THAT(message_of([&] { decode(decoder, {"\"x\"y,z"}); }),
              HasSubstr("behind the closing quote"));
  EXPECT_THAT(message_of([&] { decode(decoder, {"x,\"y"}); }),
              HasSubstr("field 2 (b): the quote is not closed"));
}

TEST(CsvDecoder, LeavesColumnsAsTheyWereAfterAnError) {
  const CsvDecoder decoder({CsvField::string("a"), CsvField::int32("b")});
  auto columns = decoder.empty_columns();
  decoder.append("x,1", columns);
  EXPECT_THROW(decoder.append("y,bad", columns), InvalidArgument);
  EXPECT_THROW(decoder.append("y", columns), InvalidArgument);
  decoder.append("z,3", columns);
  EXPECT_THAT(columns.strings("a"), ElementsAre("x", "z"));
  EXPECT_THAT(columns.int32s("b"), ElementsAre(1, 3));
}

TEST(CsvDecoder, RefusesOptionsThatCannotWork) {
  EXPECT_THROW(CsvDecoder({}), InvalidArgument);
  EXPECT_THROW(CsvDecoder({CsvField::string("a")}, {.delimiter = '"'}), InvalidArgument);
  EXPECT_THROW(CsvDecoder({{.name = "a", .type = CsvType::kInt32, .default_value = "text"}}),
               InvalidArgument);
  EXPECT_THROW(
      CsvDecoder({{.name = "a", .type = CsvType::kInt32, .default_value = std::int64_t{1} << 40}}),
      InvalidArgument);
}

TEST(CsvSource, KeepsLineFeedsInsideQuotesAndCountsLines) {
  const TempDir folder;
  write_bytes(folder / "x.csv", "name,note\r\na,\"one\ntwo\"\r\nb,plain\nc,\"x\"\"\n\"\nd,last");
  const auto source = open_csv(folder / "x.csv", {.skip_header_lines = 1});
  EXPECT_THAT(rows_of(*source),
              ElementsAre("a,\"one\ntwo\"", "b,plain", "c,\"x\"\"\n\"", "d,last"));
  EXPECT_THAT(source->where(0), HasSubstr("x.csv line 2"));
  EXPECT_THAT(source->where(1), HasSubstr("x.csv line 4"));
  EXPECT_THAT(source->where(2), HasSubstr("x.csv line 5"));
  EXPECT_THAT(source->where(3), HasSubstr("x.csv line 7"));
}

TEST(CsvSource, PassesOverAByteOrderMark) {
  const auto source = open_csv(
      "\xEF\xBB\xBF"
      "39,Ann\n7,Bob\n",
      "t.csv");
  EXPECT_THAT(rows_of(*source), ElementsAre("39,Ann", "7,Bob"));
  source->seek(0);
  EXPECT_THAT(rows_of(*source), ElementsAre("39,Ann", "7,Bob"));
  EXPECT_THAT(rows_of(*open_csv("\xEF\xBB\xBF", "t.csv")), ElementsAre());
  EXPECT_THAT(rows_of(*open_csv("\xEF\xBB\xBF"
                                "a\n1\n",
                                "t.csv", {.skip_header_lines = 1})),
              ElementsAre("1"));
}

TEST(CsvSource, GoesToARowByNumberBothWays) {
  const TempDir folder;
  write_bytes(folder / "x.csv", "a\n\"b\n\"\nc\nd\n");
  const auto source = open_csv(folder / "x.csv");
  Record row;
  source->seek(2);
  ASSERT_TRUE(source->next(row));
  EXPECT_EQ(row.bytes, "c");
  source->seek(1);
  ASSERT_TRUE(source->next(row));
  EXPECT_EQ(row.bytes, "\"b\n\"");
  EXPECT_EQ(source->position(), 2U);
  source->seek(9);
  EXPECT_FALSE(source->next(row));
  EXPECT_THAT(source->where(2), HasSubstr("line 4"));
}

TEST(CsvSource, ReportsAnEmptyLineAndGoesOnBehindIt) {
  const TempDir folder;
  write_bytes(folder / "x.csv", "a\n\r\nb\n");
  const auto source = open_csv(folder / "x.csv");
  Record row;
  ASSERT_TRUE(source->next(row));
  EXPECT_THAT(message_of([&] { source->next(row); }), HasSubstr("x.csv line 2: empty line"));
  ASSERT_TRUE(source->next(row));
  EXPECT_EQ(row.bytes, "b");
}

TEST(CsvSource, SkipsEmptyLinesWhenTold) {
  const TempDir folder;
  write_bytes(folder / "x.csv", "\na\n\n\nb\n\n");
  const auto source = open_csv(folder / "x.csv", {.skip_empty_lines = true});
  EXPECT_THAT(rows_of(*source), ElementsAre("a", "b"));
  EXPECT_THAT(source->where(0), HasSubstr("line 2"));
  EXPECT_THAT(source->where(1), HasSubstr("line 5"));
}

TEST(CsvSource, NamesTheLineOfAQuoteThatIsNeverClosed) {
  const TempDir folder;
  write_bytes(folder / "x.csv", "a,b\nc,\"d\ne\n");
  const auto source = open_csv(folder / "x.csv");
  Record row;
  ASSERT_TRUE(source->next(row));
  EXPECT_THAT(message_of([&] { source->next(row); }), HasSubstr("x.csv line 2: a quote"));
}

TEST(CsvSource, RefusesARowBeyondTheLimit) {
  const TempDir folder;
  write_bytes(folder / "x.csv", "ab\n\"" + std::string(5000, '\n'));
  const auto source = open_csv(folder / "x.csv", {.max_row_bytes = 1000});
  Record row;
  ASSERT_TRUE(source->next(row));
  EXPECT_THAT(message_of([&] { source->next(row); }),
              AllOf(HasSubstr("line 2"), HasSubstr("is a quote not closed?")));
}

// --- the real census files ---

std::vector<CsvField> census_fields() {
  return {CsvField::int32("age", 0),
          CsvField::string("workclass", ""),
          CsvField::ignored("fnlwgt"),
          CsvField::string("education", ""),
          CsvField::int32("education_num", 0),
          CsvField::string("marital_status", ""),
          CsvField::string("occupation", ""),
          CsvField::string("relationship", ""),
          CsvField::string("race", ""),
          CsvField::string("gender", ""),
          CsvField::int32("capital_gain", 0),
          CsvField::int32("capital_loss", 0),
          CsvField::int32("hours_per_week", 0),
          CsvField::string("native_country", ""),
          CsvField::string("income_bracket", "")};
}

struct CensusCounts {
  std::size_t rows = 0;
  std::size_t unknown = 0;
  std::map<std::string, std::size_t, std::less<>> labels{};
};

CensusCounts count_census(const Path& path, const CsvSourceOptions& source_options,
                          const CsvOptions& options) {
  const CsvDecoder decoder(census_fields(), options);
  const auto source = open_csv(path, source_options);
  CensusCounts counts;
  for (Record row; source->next(row);) {
    const std::vector<std::string_view> batch{row.bytes};
    const auto columns = decoder.decode(batch);
    const std::string_view unknown = options.strip_blanks ? "?" : " ?";
    ++counts.rows;
    ++counts.labels[std::string(columns.strings("income_bracket")[0])];
    for (const auto* name : {"workclass", "occupation", "native_country"}) {
      const auto value = columns.strings(name)[0];
      if (value != "?" && value != unknown) continue;
      ++counts.unknown;
      break;
    }
  }
  return counts;
}

TEST(Census, RealFilesHaveTheirPublishedCounts) {
  MUSTER_DATA_DIR_OR_SKIP(data);
  const auto train = count_census(data / "census/adult.data.csv", {}, {});
  EXPECT_EQ(train.rows, 32'561U);
  EXPECT_EQ(train.unknown, 2'399U);
  EXPECT_EQ(train.labels.at("<=50K"), 24'720U);
  EXPECT_EQ(train.labels.at(">50K"), 7'841U);
  const auto test = count_census(data / "census/adult.test.csv", {}, {});
  EXPECT_EQ(test.rows, 16'281U);
  EXPECT_EQ(test.unknown, 1'221U);
  EXPECT_EQ(test.labels.at("<=50K"), 12'435U);
  EXPECT_EQ(test.labels.at(">50K"), 3'846U);
}

TEST(Census, OriginalFilesReadWithBlanksAJunkFirstLineAndAnEmptyLastOne) {
  MUSTER_DATA_DIR_OR_SKIP(data);
  const auto train = count_census(data / "census/adult.data", {.skip_empty_lines = true}, {});
  EXPECT_EQ(train.rows, 32'561U);
  EXPECT_EQ(train.labels.at(" <=50K"), 24'720U);  // strings keep their leading space
  const auto test =
      count_census(data / "census/adult.test", {.skip_header_lines = 1, .skip_empty_lines = true},
                   {.strip_blanks = true});
  EXPECT_EQ(test.rows, 16'281U);
  EXPECT_EQ(test.unknown, 1'221U);
  EXPECT_EQ(test.labels.at(">50K."), 3'846U);
}

}  // namespace
}  // namespace muster
