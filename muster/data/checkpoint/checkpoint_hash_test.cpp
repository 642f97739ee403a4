#include "muster/data/checkpoint/checkpoint_hash.h"

#include <gtest/gtest.h>

#include "muster/base/sha256.h"
#include "muster/data/checkpoint/bundle_writer.h"
#include "muster/testing/temp_dir.h"

namespace muster {
namespace {

using testing::TempDir;
using namespace std::string_literals;

std::string hash_of(const Path& prefix) { return checkpoint_hash(BundleReader(prefix)); }

std::span<const std::byte> raw(const std::vector<float>& values) {
  return std::as_bytes(std::span(values));
}

const std::vector<float> kValues{1, 2, 3, 4};
const std::vector<float> kFirstRow{1, 2};
const std::vector<float> kSecondRow{3, 4};

TEST(CheckpointHash, IsOfTheDocumentedBytes) {
  const TempDir dir;
  const std::vector<float> one{1};
  BundleWriter writer(dir / "m");
  writer.add({.name = "w", .shape = {1}, .bytes = raw(one)});
  writer.finish();
  const auto number = [](char value) { return value + "\0\0\0\0\0\0\0"s; };
  EXPECT_EQ(hash_of(dir / "m"), sha256_hex(number(1) + "w" + number(1) + number(1) + number(1) +
                                           number(4) + "\0\0\x80\x3f"s));
}

TEST(CheckpointHash, DoesNotDependOnOrderShardsOrParts) {
  const TempDir dir;
  {
    BundleWriter writer(dir / "plain");
    writer.add({.name = "w", .shape = {2, 2}, .bytes = raw(kValues)});
    writer.add({.name = "b", .shape = {4}, .bytes = raw(kValues)});
    writer.finish();
  }
  BundleWriter writer(dir / "cut", {.num_shards = 2});
  writer.add({.name = "b", .shape = {4}, .bytes = raw(kValues)});
  writer.add({.name = "w",
              .shape = {1, 2},
              .bytes = raw(kSecondRow),
              .slice = TensorSlice{{2, 2}, {1, 0}}});
  writer.add({.name = "w",
              .shape = {1, 2},
              .bytes = raw(kFirstRow),
              .slice = TensorSlice{{2, 2}, {0, 0}}});
  writer.finish();
  EXPECT_EQ(hash_of(dir / "cut"), hash_of(dir / "plain"));
}

TEST(CheckpointHash, ChangesWithNameShapeAndValue) {
  const TempDir dir;
  std::vector<std::string> hashes;
  const auto add = [&](const TensorView& tensor) {
    BundleWriter writer(dir / "m");
    writer.add(tensor);
    writer.finish();
    hashes.push_back(hash_of(dir / "m"));
  };
  const std::vector<float> other{1, 2, 3, 5};
  add({.name = "w", .shape = {2, 2}, .bytes = raw(kValues)});
  add({.name = "v", .shape = {2, 2}, .bytes = raw(kValues)});
  add({.name = "w", .shape = {4}, .bytes = raw(kValues)});
  add({.name = "w", .type = DataType::kInt32, .shape = {2, 2}, .bytes = raw(kValues)});
  add({.name = "w", .shape = {2, 2}, .bytes = raw(other)});
  std::sort(hashes.begin(), hashes.end());
  EXPECT_EQ(std::unique(hashes.begin(), hashes.end()), hashes.end());
}

}  // namespace
}  // namespace muster
