// The order of elements that a seed gives: the same on every machine, or a run that is resumed on
// another one would see elements twice.
#include "muster/testing/golden.h"

#include "muster/base/random.h"
#include "muster/data/dataset/drain_internal.h"

namespace muster {
namespace {

using testing::bytes_of;
using testing::expect_golden;

TEST(Golden, OrdersOfSeeds) {
  const auto numbers = range(5000);
  expect_golden(bytes_of(drain(numbers.shuffle(300, 11).repeat(2))),
                "f8829f5afbe05a03dae830502b6504930400b64adda911f5fbe06e69f85390b5", "shuffle");
  expect_golden(bytes_of(drain(numbers.global_shuffle(11).repeat(2))),
                "bdd0beb4a2f80159d05bc51ff972bf8b36306e9f672bffcc319dc53b6d602751",
                "global_shuffle");
  expect_golden(bytes_of(drain(numbers.global_shuffle(11).shard(3, 1).shuffle(50, 2))),
                "01162d434e4b1caf514455a39fae23c96e43b5048e61835892cf2d9ca90e89e2", "shard");
}

TEST(Golden, NumbersOfAMap) {
  const auto draw = [](std::int64_t value, Random& random) {
    return value + static_cast<std::int64_t>(random.below(1000));
  };
  expect_golden(bytes_of(drain(range(1000).map(draw, {.parallelism = 3, .seed = 5}).repeat(2))),
                "109f82ce2ad5f6c080773a556854173eb54535dd66e87a064dc49242080aad1d", "map");
}

}  // namespace
}  // namespace muster
