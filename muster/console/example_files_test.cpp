#include "muster/console/example_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "muster/base/error.h"
#include "muster/data/records/example_builder.h"
#include "muster/data/records/record_writer.h"
#include "muster/testing/temp_dir.h"

namespace muster::console {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class ExampleFilesTest : public ::testing::Test {
 protected:
  std::vector<std::string> values_of(const std::string& name, std::size_t from = 0,
                                     const std::vector<std::string>& inputs = {"age"}) {
    std::vector<std::string> found;
    const ExampleFiles files({.folders = {folder_.path()}, .csv_columns = {"age", "work"}});
    for (const ExampleRow& row : files.rows(name, from, 2, inputs)) found.push_back(row.values);
    return found;
  }

  testing::TempDir folder_;
};

TEST_F(ExampleFilesTest, AreThoseDirectlyInTheFolder) {
  for (const char* name : {"b.csv", "a.jsonl", "c.tfrecords.gz", "notes.md", ".d.csv"}) {
    testing::write_bytes(folder_ / name, "x\n");
  }
  std::filesystem::create_directories(folder_ / "inside.csv");
  std::filesystem::create_symlink("/etc/passwd", folder_.path() / "link.csv");
  EXPECT_THAT(ExampleFiles({.folders = {folder_.path()}}).list(),
              ElementsAre("a.jsonl", "b.csv", "c.tfrecords.gz"));
  EXPECT_THAT(ExampleFiles({.folders = {folder_ / "inside.csv", folder_.path()}}).list(),
              ElementsAre("2/a.jsonl", "2/b.csv", "2/c.tfrecords.gz"));
  EXPECT_THAT(ExampleFiles({}).list(), IsEmpty());
  EXPECT_THROW(ExampleFiles({.folders = {folder_ / "none"}}), NotFound);
  for (const char* name : {"../b.csv", "link.csv", "/etc/passwd", "notes.md", ""}) {
    EXPECT_THROW(values_of(name), NotFound) << name;
  }
}

TEST_F(ExampleFilesTest, OfCsvHaveTheNamesOfTheHeaderOrThoseThatWereGiven) {
  testing::write_bytes(folder_ / "bare.csv", "39, Private\n50,\"Self, emp\"\n7,x\n");
  EXPECT_THAT(values_of("bare.csv"), ElementsAre(R"({"age":"39","work":"Private"})",
                                                 R"({"age":"50","work":"Self, emp"})"));
  EXPECT_THAT(values_of("bare.csv", 2), ElementsAre(R"({"age":"7","work":"x"})"));
  testing::write_bytes(folder_ / "headed.csv", "label,age\n1,39\n0,50\n");
  EXPECT_THAT(values_of("headed.csv", 1), ElementsAre(R"({"age":"50","label":"0"})"));
  // A header that no input is named in is a row.
  EXPECT_THAT(values_of("headed.csv", 0, {"other"})[0], R"({"age":"label","work":"age"})");
}

TEST_F(ExampleFilesTest, OfJsonLinesAreTheirObjects) {
  testing::write_bytes(folder_ / "a.jsonl", "{\"age\": 3}\nno JSON\n");
  EXPECT_THAT(values_of("a.jsonl"), ElementsAre(R"({"age":3})", "{}"));
}

TEST_F(ExampleFilesTest, OfTFRecordsAreTheFeaturesOfExamples) {
  RecordWriter writer(folder_ / "a.tfrecords", {.durable = false});
  ExampleBuilder example;
  example.add_int("age", 39).add_bytes("work", "Private").add_bytes("raw", "\xff\x01");
  writer.append(example.serialize());
  writer.close();
  const ExampleFiles files({.folders = {folder_.path()}});
  const auto rows = files.rows("a.tfrecords", 0, 5, {});
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].values, R"({"age":39,"raw":{"b64":"/wE="},"work":"Private"})");
  EXPECT_TRUE(rows[0].is_base64);
  testing::write_bytes(folder_ / "damaged.tfrecords", std::string(40, 'x'));
  EXPECT_THROW(files.rows("damaged.tfrecords", 0, 5, {}), DataLoss);
}

}  // namespace
}  // namespace muster::console
