#include "muster/estimator/evaluation.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "muster/base/log.h"
#include "muster/estimator/small_net_internal.h"
#include "muster/testing/temp_dir.h"

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

}  // namespace
}  // namespace muster
