#include "muster/data/weights/bundle_weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/data/checkpoint/bundle_writer.h"
#include "muster/testing/message_of.h"
#include "muster/testing/temp_dir.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;
using testing::TempDir;

/// A bundle of tensors "a", "b" and "c" in three data files.
void write_three_shards(const Path& prefix) {
  BundleWriter writer(prefix, {.num_shards = 3});
  for (const char* name : {"a", "b", "c"}) {
    const std::vector<float> values{1, 2, static_cast<float>(*name)};
    writer.add({.name = name, .shape = {3}, .bytes = std::as_bytes(std::span(values))});
  }
  writer.finish();
}

float last_of(const Weight& weight) {
  const WeightBytes bytes = row_major_bytes(weight);
  float value = 0;
  std::memcpy(&value, bytes.bytes.data() + 8, sizeof(value));
  return value;
}

std::vector<std::string> files_in(const TempDir& dir) {
  return file_system_for(dir.path()).list(dir.path());
}

TEST(BundleWeights, ABundleIsReplacedByItself) {
  const TempDir dir;
  write_three_shards(dir / "p");
  testing::write_bytes(dir / "p.data-of-mine", "kept");
  write_bundle_weights(dir / "p", open_bundle_weights(dir / "p").tensors);
  EXPECT_THAT(files_in(dir), ElementsAre("p.data-00000-of-00001", "p.data-of-mine", "p.index"));
  const Weights weights = open_bundle_weights(dir / "p");
  EXPECT_THAT(weights.names(), ElementsAre("a", "b", "c"));
  EXPECT_EQ(last_of(*weights.find("b")), 'b');
  // Now the data file has the name of the one that is read.
  write_bundle_weights(dir / "p", weights.tensors);
  EXPECT_EQ(last_of(*open_bundle_weights(dir / "p").find("c")), 'c');
}

TEST(BundleWeights, AFailureLeavesWhatWasThere) {
  const TempDir dir;
  write_three_shards(dir / "many");
  write_bundle_weights(dir / "one", open_bundle_weights(dir / "many").tensors);
  const auto before = files_in(dir);
  for (const char* name : {"one", "many"}) {
    Weights weights = open_bundle_weights(dir / "many");
    weights.tensors.back().name = "a";
    EXPECT_THAT(message_of([&] { write_bundle_weights(dir / name, weights.tensors); }),
                HasSubstr("tensor 'a' was added before"));
    EXPECT_EQ(files_in(dir), before);
    EXPECT_EQ(last_of(*open_bundle_weights(dir / name).find("c")), 'c');
  }
}

TEST(BundleWeights, LeavesNothingWhereItCannotBePublished) {
  const TempDir dir;
  write_three_shards(dir / "p");
  file_system_for(dir.path()).create_directories(dir / "q.index");
  const auto before = files_in(dir);
  EXPECT_THAT(
      message_of([&] { write_bundle_weights(dir / "q", open_bundle_weights(dir / "p").tensors); }),
      HasSubstr("q.index"));
  // The data file means nothing without an index.
  auto after = files_in(dir);
  std::erase(after, "q.data-00000-of-00001");
  EXPECT_EQ(after, before);
}

}  // namespace
}  // namespace muster
