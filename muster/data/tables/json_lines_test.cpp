#include "muster/data/tables/json_lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/data/dataset/dataset.h"
#include "muster/data/tables/open_table.h"
#include "muster/data/tables/table_files.h"
#include "muster/testing/message_of.h"
#include "muster/testing/temp_dir.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;
using testing::TempDir;
using testing::write_bytes;

std::shared_ptr<const TableBlock> block_of_json(std::string_view text,
                                                JsonLinesOptions options = {}) {
  return open_json_lines(text, "x.jsonl", std::move(options))->next();
}

template <typename T>
const T& values_of(const TableBlock& block, std::string_view name) {
  return std::get<T>(block.columns[block.column(name)].values);
}

TEST(JsonLines, FindTheirColumnsAndTypes) {
  const auto block = block_of_json(
      "{\"age\": 31, \"score\": 1, \"name\": \"Ann\", \"member\": true, \"address\": {\"city\": "
      "\"Bonn\"}}\n"
      "\n"
      "{\"age\": null, \"score\": 0.5, \"name\": \"B\\u00e9\", \"address\": {}, \"tags\": [\"a\", "
      "null]}\n");
  ASSERT_EQ(block->rows, 2u);
  EXPECT_THAT(values_of<TableNumbers<std::int64_t>>(*block, "age"), ElementsAre(31, 0));
  EXPECT_THAT(block->columns[block->column("age")].valid, ElementsAre(1, 0));
  EXPECT_THAT(values_of<TableNumbers<double>>(*block, "score"), ElementsAre(1.0, 0.5));
  EXPECT_THAT(values_of<TableNumbers<std::uint8_t>>(*block, "member"), ElementsAre(1, 0));
  const auto& names = values_of<std::vector<std::string_view>>(*block, "name");
  EXPECT_THAT(names, ElementsAre("Ann", "B\xc3\xa9"));
  EXPECT_TRUE(block->columns[block->column("name")].valid.empty());
  EXPECT_THAT(values_of<std::vector<std::string_view>>(*block, "address.city"),
              ElementsAre("Bonn", ""));
  const TableColumn& tags = block->columns[block->column("tags")];
  EXPECT_THAT(tags.splits.front(), ElementsAre(0, 0, 2));
  EXPECT_THAT(tags.valid, ElementsAre(1, 0));
}

TEST(JsonLines, TakeTheFieldsThatAreNamed) {
  const auto block =
      block_of_json("{\"x\": 1, \"y\": [1, 2], \"z\": \"skipped\"}\n{\"y\": []}\n",
                    {.fields = {{.name = "y", .type = TableType::kFloat, .list_depth = 1},
                                {.name = "x", .type = TableType::kInt32}}});
  EXPECT_EQ(block->fields->size(), 2u);
  EXPECT_THAT(values_of<TableNumbers<float>>(*block, "y"), ElementsAre(1.0F, 2.0F));
  EXPECT_THAT(values_of<TableNumbers<std::int32_t>>(*block, "x"), ElementsAre(1, 0));
}

TEST(JsonLines, NameFileAndLineOfWhatDoesNotFit) {
  const std::string good = "{\"x\": 1}\n";
  const auto message = [&](const std::string& bad) {
    const std::string text = good + "\n" + bad + "\n";
    return message_of([&] {
      const auto reader = open_json_lines(text, "x.jsonl", {.guess_rows = 1});
      reader->next();
      reader->next();
    });
  };
  EXPECT_THAT(message("{\"x\": 1.5}"), HasSubstr("x.jsonl line 3: `x` is 1.5, not int64"));
  EXPECT_THAT(message("{\"x\": \"a\"}"), HasSubstr("x.jsonl line 3: `x` is \"a\", not int64"));
  EXPECT_THAT(message("{\"x\": [1]}"), HasSubstr("x.jsonl line 3: `x` is a list, not one int64"));
  EXPECT_THAT(message("{\"y\": 1}"), HasSubstr("`y` is a member that the first rows do not have"));
  EXPECT_THAT(message("[1]"), HasSubstr("x.jsonl line 3: a line is one object, not array"));
  EXPECT_THAT(message("{\"x\": 1"), HasSubstr("x.jsonl line 3: no JSON: "));
  EXPECT_THAT(message(std::string(100, '[')), HasSubstr("nested more than 64 deep"));
  EXPECT_THAT(message_of([] { block_of_json("{\"x\": 1}\n{\"x\": \"a\"}\n"); }),
              HasSubstr("x.jsonl: `x` has values of different types"));
}

TEST(JsonLines, GoOnAfterARowThatCannotBeRead) {
  const auto reader = open_json_lines("{\"x\": 1}\n{\"x\": 2}\n{\"x\": \n{\"x\": 4}\n", "x.jsonl",
                                      {.guess_rows = 1});
  EXPECT_EQ(reader->next()->rows, 2u);
  EXPECT_THROW(reader->next(), InvalidArgument);
  const auto last = reader->next();
  EXPECT_EQ(last->first_row, 3u);
  EXPECT_THAT(values_of<TableNumbers<std::int64_t>>(*last, "x"), ElementsAre(4));
  EXPECT_EQ(reader->next(), nullptr);
}

TEST(JsonLines, AreADatasetThatIsResumedAtAnyRow) {
  const TempDir folder;
  std::string text;
  for (int i = 0; i < 100; ++i) text += fmt::format("{{\"x\": {}}}\n", i);
  write_bytes(folder / "x.jsonl", text);
  const auto rows = json_rows({folder / "x.jsonl"}, {.block_rows = 7});
  const auto x_of = [](const TableRow& row) {
    return values_of<TableNumbers<std::int64_t>>(*row.block, "x")[row.row];
  };
  for (const int done : {0, 6, 7, 50, 99}) {
    const auto first = rows.iterate();
    for (int i = 0; i < done; ++i) EXPECT_EQ(x_of(*first->next()), i);
    EXPECT_EQ(x_of(*rows.iterate(first->save())->next()), done);
  }
  EXPECT_TRUE(is_table(folder / "x.jsonl"));
  EXPECT_EQ(open_table(folder / "x.jsonl")->next()->rows, 100u);
}

}  // namespace
}  // namespace muster
