#include "muster/serving/core/statistics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/testing/process.h"
#include "muster/testing/temp_dir.h"

namespace muster::serving {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(HistogramOfValues, CountsUpToEachBound) {
  Histogram histogram(1, 2, 3);  // Up to 1, 2, 4 and beyond.
  for (const double value : {0.5, 1.0, 1.5, 100.0}) histogram.add(value);
  EXPECT_THAT(histogram.cumulative(), ElementsAre(2, 3, 3, 4));
  EXPECT_EQ(histogram.sum(), 103);
}

TEST(Statistics, ForgetsVersionsThatAreGone) {
  Statistics statistics;
  for (const int version : {1, 2}) {
    statistics.record({.model = "m", .version = version, .signature = "s", .rows = 3});
  }
  EXPECT_EQ(statistics.counts("m", 1).rows, 3U);
  statistics.retain([](const std::string&, std::int64_t version) { return version == 2; });
  EXPECT_THAT(statistics.page({}), Not(HasSubstr("version=\"1\"")));
  EXPECT_THAT(statistics.page({}), HasSubstr("version=\"2\""));
  EXPECT_EQ(statistics.counts("m", 1).rows, 0U);
}

TEST(Statistics, WritesAPageThatPromtoolFindsNoFaultWith) {
  const auto run = [](const std::string& command) {
    return testing::run_program("/bin/sh", {"-c", command});
  };
  if (run("command -v promtool").status != 0) GTEST_SKIP() << "promtool is not installed";
  Statistics statistics;
  for (const auto code : {ErrorCode::kOk, ErrorCode::kInvalidArgument}) {
    for (const char* model : {"m", "quo\"ted \\ and\nlonger"}) {
      statistics.record({.model = model,
                         .version = 1,
                         .signature = "serving_default",
                         .code = code,
                         .rows = 3,
                         .batch_rows = 5,
                         .latency = std::chrono::microseconds(120)});
    }
  }
  const testing::TempDir folder;
  testing::write_bytes(folder / "page", statistics.page({{.name = "muster_loaded_versions",
                                                          .help = "Versions that answer.",
                                                          .values = {{"model=\"m\"", 1}}}}));
  const auto checked = run("promtool check metrics < '" + (folder / "page").string() + "' 2>&1");
  EXPECT_EQ(checked.status, 0) << checked.out;
  EXPECT_EQ(checked.out, "");
}

TEST(Statistics, NamesFromOutsideTakeNoMemoryWithoutEnd) {
  Statistics statistics;
  for (int i = 0; i < 10'000; ++i) {
    statistics.record({.model = std::to_string(i), .code = ErrorCode::kNotFound});
  }
  EXPECT_LT(statistics.tensorflow_page().size(), 20'000U);
}

}  // namespace
}  // namespace muster::serving
