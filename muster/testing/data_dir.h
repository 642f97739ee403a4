#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <optional>

namespace muster::testing {

/// The real data sets, if MUSTER_DATA_DIR names them.
std::optional<std::filesystem::path> data_dir();

}  // namespace muster::testing

/// Declares `name` as the folder of the real data sets, or skips the test, visibly.
#define MUSTER_DATA_DIR_OR_SKIP(name)                                               \
  if (!::muster::testing::data_dir()) GTEST_SKIP() << "MUSTER_DATA_DIR is not set"; \
  const std::filesystem::path name = *::muster::testing::data_dir()
