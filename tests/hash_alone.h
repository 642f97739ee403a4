#pragma once

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "muster/testing/process.h"
#include "muster/testing/temp_dir.h"
#include "muster/testing/words.h"
#include "tests/latest_hash.h"

namespace muster {

/// Hash of the checkpoint of one process of CLUSTER_JOB, which is run once for the same flags.
inline std::string hash_alone(const testing::Words& flags) {
  using testing::operator+;
  static std::map<testing::Words, std::string> hashes;
  std::string& hash = hashes[flags];
  if (hash.empty()) {
    const testing::TempDir folder;
    const testing::Outcome outcome = testing::run_program(
        CLUSTER_JOB, testing::Words{"--model-dir", folder.path().string()} + flags);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    hash = hash_of(folder.path());
  }
  return hash;
}

}  // namespace muster
