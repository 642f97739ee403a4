#include "muster/data/records/sharded_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/testing/temp_dir.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::TempDir;
using testing::write_bytes;

TEST(ShardName, IsWhatTensorFlowCallsThem) {
  EXPECT_EQ(shard_name("name", 0, 10), "name-00000-of-00010");
  EXPECT_EQ(shard_name("dir/name", 123456, 200000), "dir/name-123456-of-200000");
  EXPECT_EQ(shard_name("a", 1, 2, ".tfrecords"), "a-00001-of-00002.tfrecords");
  EXPECT_THROW(shard_name("a", 2, 2), InvalidArgument);
}

TEST(ShardName, ParseTakesItApart) {
  EXPECT_EQ(parse_shard_name("d/a-b-00003-of-00010.gz"), (ShardName{"d/a-b", 3, 10, ".gz"}));
  EXPECT_EQ(parse_shard_name("a-00000-of-00001"), (ShardName{"a", 0, 1, ""}));
  for (const char* other :
       {"", "a", "-of-", "a-of-00002", "a-1-of-2", "a-00002-of-00002", "a-00000-of-00002x",
        "a-0000x-of-00002", "a-00000-of-", "a-00000-of-99999999999999999999"}) {
    EXPECT_FALSE(parse_shard_name(other)) << other;
  }
}

TEST(ExpandShards, NamesEveryShard) {
  EXPECT_THAT(*expand_shards("a@2"), ElementsAre("a-00000-of-00002", "a-00001-of-00002"));
  EXPECT_THAT(*expand_shards("d@3/a@1.gz"), ElementsAre("d@3/a-00000-of-00001.gz"));
  for (const char* other : {"a", "a@", "a@x", "a@2x", "a@2/b"}) {
    EXPECT_FALSE(expand_shards(other)) << other;
  }
  EXPECT_THROW(expand_shards("a@0"), InvalidArgument);
  EXPECT_THROW(expand_shards("a@99999999999"), InvalidArgument);
}

class ExpandFiles : public ::testing::Test {
 protected:
  void make(const std::vector<std::string>& names) const {
    for (const std::string& name : names) write_bytes(folder_ / name, "");
  }
  /// The names, without the folder, that these patterns in the folder stand for.
  std::vector<std::string> expand(std::vector<std::string> patterns) const {
    for (std::string& pattern : patterns) pattern = (folder_ / pattern).string();
    std::vector<std::string> names;
    for (const Path& file : expand_files(patterns)) names.push_back(file.filename().string());
    return names;
  }
  std::string not_found(const std::string& pattern) const {
    try {
      expand({pattern});
    } catch (const NotFound& error) {
      return error.what();
    }
    return "nothing was thrown";
  }

  TempDir folder_;
};

TEST_F(ExpandFiles, GivesEachFileOnceSorted) {
  make({"b", "a", "c"});
  EXPECT_THAT(expand({"c", "[ab]", "a"}), ElementsAre("a", "b", "c"));
}

TEST_F(ExpandFiles, NamesThePatternThatMatchesNothing) {
  make({"a"});
  EXPECT_THAT(not_found("x*"), HasSubstr("x*"));
  EXPECT_THAT(not_found("x"), HasSubstr("no file matches"));
}

TEST_F(ExpandFiles, LeavesSideIndexesOut) {
  make({"a", "a.index", "b.index"});
  EXPECT_THAT(expand({"*"}), ElementsAre("a", "b.index"));
}

TEST_F(ExpandFiles, NamesTheMissingShard) {
  make({"a-00000-of-00003", "a-00002-of-00003"});
  EXPECT_THAT(not_found("a-*"), HasSubstr("a-00001-of-00003 is missing"));
  EXPECT_THAT(not_found("a@3"), HasSubstr("a-00001-of-00003 is missing"));
  make({"a-00001-of-00003"});
  EXPECT_EQ(expand({"a-*"}).size(), 3u);
  EXPECT_EQ(expand({"a@3"}).size(), 3u);
}

TEST_F(ExpandFiles, PartOfACompleteSetMayBeChosen) {
  make({"a-00000-of-00002", "a-00001-of-00002"});
  EXPECT_THAT(expand({"a-00000*"}), ElementsAre("a-00000-of-00002"));
}

TEST_F(ExpandFiles, NameWithSpecialCharactersStandsForItself) {
  make({"a@2", "b[1]"});
  EXPECT_THAT(expand({"a@2", "b[1]"}), ElementsAre("a@2", "b[1]"));
}

}  // namespace
}  // namespace muster
