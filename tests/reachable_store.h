#pragma once

#include <memory>
#include <optional>
#include <string>

#include "muster/base/file_system.h"
#include "muster/testing/fake_gcs.h"
#include "muster/testing/fake_s3.h"
#include "muster/testing/fake_store.h"
#include "muster/testing/fake_webhdfs.h"
#include "muster/testing/words.h"

namespace muster {

/// A store in memory, and how a program gets there.
struct ReachableStore {
  std::unique_ptr<testing::FakeStore> fake{};
  /// As NAME=value.
  testing::Words environment{};
  /// Prefix of its paths.
  Path root{};
  /// Prefix of the names of the fake's objects.
  std::string prefix{};

  /// The object at this path below its root.
  std::optional<std::string> bytes_of(const std::string& name) const {
    return fake->bytes_of(prefix + name);
  }
};

/// "s3", "gs" or "hdfs".
inline ReachableStore reachable_store(const std::string& scheme) {
  if (scheme == "s3") {
    auto fake = std::make_unique<testing::FakeS3>();
    testing::Words environment{"AWS_ENDPOINT_URL=" + fake->url(), "AWS_ACCESS_KEY_ID=id",
                               "AWS_SECRET_ACCESS_KEY=secret"};
    return {std::move(fake), std::move(environment), "s3://bucket", "bucket/"};
  }
  if (scheme == "gs") {
    auto fake = std::make_unique<testing::FakeGcs>();
    testing::Words environment{"STORAGE_EMULATOR_HOST=" + fake->url()};
    return {std::move(fake), std::move(environment), "gs://bucket", "bucket/"};
  }
  auto fake = std::make_unique<testing::FakeWebHdfs>();
  testing::Words environment{"MUSTER_WEBHDFS=" + fake->url()};
  return {std::move(fake), std::move(environment), "hdfs://namenode:8020", ""};
}

/// The variable that says how often a call is tried, as few times as it allows: what takes minutes
/// by default takes a moment.
inline testing::Words with_two_tries(const std::string& scheme) {
  if (scheme == "s3") return {"AWS_MAX_ATTEMPTS=2"};
  if (scheme == "gs") return {"GCS_RETRY_CONFIG_MAX_RETRIES=1"};
  return {"MUSTER_HDFS_MAX_ATTEMPTS=2"};
}

}  // namespace muster
