#include "muster/train/estimator/evaluation.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "muster/base/log.h"
#include "muster/data/summary/event_reader.h"
#include "muster/testing/temp_dir.h"
#include "muster/train/estimator/small_net_internal.h"

namespace muster {
namespace {

using testing::TempDir;
using namespace small_net;  // NOLINT(google-build-using-namespace): a fixture in a header

// The memory of this process that is in use now.
std::int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::int64_t total_pages = 0;
  std::int64_t resident_pages = 0;
  file >> total_pages >> resident_pages;
  return resident_pages * ::sysconf(_SC_PAGESIZE);
}

TEST(Evaluation, AThousandInOneProcessKeepMemoryFlat) {
  const TempDir folder;
  const log::Level level = log::level();
  Estimator estimator(small_options(), quiet_config(folder.path()));
  estimator.train(training_input, {.max_steps = 2});
  log::set_level(log::Level::kWarning);
  const auto evaluate = [&](int times) {
    for (int i = 0; i < times; ++i) estimator.evaluate(evaluation_input, {.steps = 2});
  };
  evaluate(100);
  const std::int64_t before = resident_bytes();
  evaluate(1000);
  log::set_level(level);
  // A model kept for every evaluation would be far beyond this, even one as small as ours.
  EXPECT_LT(resident_bytes() - before, std::int64_t{4} << 20);
}

std::map<std::string, std::vector<std::int64_t>> scalar_steps(const Path& file) {
  std::map<std::string, std::vector<std::int64_t>> steps;
  EventReader reader(file);
  while (const auto event = reader.next()) {
    const auto* summary = std::get_if<Summary>(&event->what);
    if (summary == nullptr) continue;
    for (const auto& value : *summary) {
      if (scalar_of(value)) steps[value.tag].push_back(event->step);
    }
  }
  return steps;
}

TEST(Evaluation, AllOfARunGoToOneEventFileThatCanBeReadBetweenThem) {
  const TempDir folder;
  Estimator estimator(small_options(), quiet_config(folder.path()));
  const std::vector<std::int64_t> steps{1, 2, 3};
  for (std::size_t done = 1; done <= steps.size(); ++done) {
    estimator.train(training_input, {.steps = 1});
    estimator.evaluate(evaluation_input, {.steps = 1});
    const auto files = event_files(estimator.eval_dir());
    ASSERT_EQ(files.size(), 1U);
    const auto written = scalar_steps(files[0]);
    const std::vector<std::int64_t> expected(steps.begin(), steps.begin() + std::ptrdiff_t(done));
    EXPECT_EQ(written.at("loss"), expected);
    EXPECT_EQ(written.at("accuracy"), expected);
  }
  estimator.evaluate(evaluation_input, {.steps = 1, .name = "other"});
  EXPECT_EQ(event_files(estimator.eval_dir("other")).size(), 1U);
  EXPECT_EQ(event_files(estimator.eval_dir()).size(), 1U);
}

TEST(Evaluation, BeginsAnotherEventFileWhereSomebodyRemovedTheFolder) {
  const TempDir folder;
  Estimator estimator(small_options(), quiet_config(folder.path()));
  estimator.train(training_input, {.steps = 1});
  for (int i = 0; i < 2; ++i) {
    std::filesystem::remove_all(estimator.eval_dir());
    estimator.evaluate(evaluation_input, {.steps = 1});
    const auto files = event_files(estimator.eval_dir());
    ASSERT_EQ(files.size(), 1U);
    EXPECT_EQ(scalar_steps(files[0]).at("loss"), std::vector<std::int64_t>{1});
  }
}

}  // namespace
}  // namespace muster
