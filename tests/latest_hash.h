#pragma once

#include <gtest/gtest.h>

#include <string>

#include "muster/data/checkpoint/checkpoint.h"
#include "muster/data/checkpoint/checkpoint_hash.h"

namespace muster {

/// Hash of the folder's latest checkpoint, by `muster checkpoint hash`.
inline std::string hash_of(const Path& model_dir) {
  const auto latest = latest_checkpoint(model_dir);
  EXPECT_TRUE(latest.has_value()) << model_dir;
  return latest ? checkpoint_hash(BundleReader(*latest)) : "";
}

}  // namespace muster
