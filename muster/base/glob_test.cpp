#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/file_system.h"
#include "muster/testing/temp_dir.h"

namespace muster {
namespace {

class GlobTest : public ::testing::Test {
 protected:
  GlobTest() {
    for (const char* name : {"a.csv", "b.csv", "c.txt", ".hidden.csv", "odd[1].csv"}) make(name);
    for (const char* name : {"d/a.csv", "d/e/b.csv", "d/e/f/c.csv", "g/a.csv"}) make(name);
  }
  void make(const std::string& name) {
    const auto path = folder_ / name;
    std::filesystem::create_directories(path.parent_path());
    testing::write_bytes(path, "");
  }
  /// The matches, with the temporary folder taken off.
  std::vector<std::string> matches(const std::string& pattern) {
    std::vector<std::string> names;
    for (const auto& path : glob(folder_ / pattern)) {
      names.push_back(path.string().substr(folder_.path().string().size() + 1));
    }
    return names;
  }
  testing::TempDir folder_;
};

using Names = std::vector<std::string>;

TEST_F(GlobTest, StarStopsAtTheSlashAndLeavesHiddenFilesOut) {
  EXPECT_EQ(matches("*.csv"), (Names{"a.csv", "b.csv", "odd[1].csv"}));
  EXPECT_EQ(matches("*/a.csv"), (Names{"d/a.csv", "g/a.csv"}));
  EXPECT_EQ(matches(".*.csv"), (Names{".hidden.csv"}));
}

TEST_F(GlobTest, TwoStarsMatchAnyNumberOfFolders) {
  EXPECT_EQ(matches("d/**/*.csv"), (Names{"d/a.csv", "d/e/b.csv", "d/e/f/c.csv"}));
  EXPECT_EQ(matches("**/c.csv"), (Names{"d/e/f/c.csv"}));
}

TEST_F(GlobTest, ClassesQuestionMarksAndBraces) {
  EXPECT_EQ(matches("[ab].csv"), (Names{"a.csv", "b.csv"}));
  EXPECT_EQ(matches("[!a].csv"), (Names{"b.csv"}));
  EXPECT_EQ(matches("?.txt"), (Names{"c.txt"}));
  EXPECT_EQ(matches("{a.csv,c.txt,g/a.csv}"), (Names{"a.csv", "c.txt", "g/a.csv"}));
  EXPECT_EQ(matches("odd\\[1\\].csv"), (Names{"odd[1].csv"}));
}

TEST_F(GlobTest, AnExactNameStandsForItself) {
  EXPECT_EQ(matches("odd[1].csv"), (Names{"odd[1].csv"}));
  EXPECT_EQ(matches("a.csv"), (Names{"a.csv"}));
  EXPECT_TRUE(matches("missing.csv").empty());
  EXPECT_TRUE(matches("x*").empty());
}

TEST_F(GlobTest, LongRunsOfStarsStayFast) {
  make(std::string(200, 'a'));
  EXPECT_TRUE(matches(std::string(60, '*') + "b" + std::string(60, '*') + "c").empty());
}

TEST_F(GlobTest, RefusesTooManyAlternatives) {
  std::string pattern;
  for (int i = 0; i < 20; ++i) pattern += "{a,b}";
  EXPECT_THROW(glob(folder_ / pattern), InvalidArgument);
}

}  // namespace
}  // namespace muster
