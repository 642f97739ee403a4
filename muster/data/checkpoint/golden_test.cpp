// Bytes of a checkpoint: the same on every machine, which may continue with that of another.
#include "muster/testing/golden.h"

#include "muster/base/random.h"
#include "muster/data/checkpoint/bundle_files.h"
#include "muster/data/checkpoint/bundle_reader.h"
#include "muster/data/checkpoint/bundle_writer.h"
#include "muster/data/checkpoint/checkpoint_hash.h"
#include "muster/testing/temp_dir.h"

namespace muster {
namespace {

using testing::expect_golden;
using testing::fill_with_noise;
using testing::TempDir;

TEST(Golden, FilesOfABundle) {
  const TempDir dir;
  Random random(3);
  BundleWriter writer(dir / "m", {.num_shards = 2});
  for (int i = 0; i < 200; ++i) {
    std::vector<float> values(1 + random.below(500));
    fill_with_noise(values, random.next_u64());
    writer.add({.name = "layer_" + std::to_string(i) + "/kernel",
                .shape = {static_cast<std::int64_t>(values.size())},
                .bytes = std::as_bytes(std::span(values))});
  }
  const std::vector<std::int64_t> step{400};
  writer.add(
      {.name = "global_step", .type = DataType::kInt64, .bytes = std::as_bytes(std::span(step))});
  const std::vector<std::string_view> words{"", "one", "another one"};
  writer.add({.name = "words", .type = DataType::kString, .shape = {3}, .strings = words});
  writer.finish();
  expect_golden(testing::read_bytes(dir / "m.index"),
                "0547fbf57c701de0f8c1c98cf6199185feb5d134b2d149aac826ed4dd88c4b0d", "index");
  expect_golden(testing::read_bytes(dir / "m.data-00000-of-00002"),
                "c477700b119f4ff8fbbfbba54cd3c758a404e842e281bd66171bfbd3fb4796a2", "first shard");
  expect_golden(testing::read_bytes(dir / "m.data-00001-of-00002"),
                "e08c4277a340816d344afa6104523e129202ea04eabba438c4afde64e6473744", "second shard");
  EXPECT_EQ(checkpoint_hash(BundleReader(dir / "m")),
            "5c44bec17a0b89b590d1d116643fd22bedf92257bc8f0baf4c08d2498aa446cb");
}

}  // namespace
}  // namespace muster
