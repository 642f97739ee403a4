#include "muster/train/engine/run_state.h"

#include <gtest/gtest.h>

#include "muster/base/error.h"

namespace muster {
namespace {

TEST(RunState, ComesBackFromJson) {
  RunState state;
  state.global_step = 400;
  state.replicas = 2;
  state.threads_per_replica = 3;
  state.seed = ~std::uint64_t{0};
  state.arithmetic = "libtorch x";
  state.compile = "on, compiler 1";
  state.loss_scale = 65536;
  state.inputs = {std::string("\0\xff\x7f", 3), std::nullopt};
  state.input_obstacle = "a generator";
  state.batches = 402;
  const RunState back = parse_run_state(to_json(state), "x.state.json");
  EXPECT_EQ(back.global_step, 400);
  EXPECT_EQ(back.replicas, 2);
  EXPECT_EQ(back.threads_per_replica, 3);
  EXPECT_EQ(back.seed, ~std::uint64_t{0});
  EXPECT_EQ(back.arithmetic, "libtorch x");
  EXPECT_EQ(back.compile, "on, compiler 1");
  EXPECT_EQ(back.loss_scale, 65536);
  EXPECT_EQ(back.inputs, state.inputs);
  EXPECT_EQ(back.batches, 402);
  state.batches.reset();
  EXPECT_FALSE(parse_run_state(to_json(state), "x.state.json").batches);
}

TEST(RunState, DamageIsDataLossThatNamesTheFile) {
  RunState state;
  state.inputs = {"position"};
  const std::string text = to_json(state);
  for (std::size_t cut = 0; cut < text.size(); cut += 7) {
    EXPECT_THROW(parse_run_state(text.substr(0, cut), "x.state.json"), DataLoss);
  }
  EXPECT_THROW(parse_run_state("{}", "x"), DataLoss);
  EXPECT_THROW(parse_run_state("[1]", "x"), DataLoss);
  state.replicas = 3;
  EXPECT_THROW(parse_run_state(to_json(state), "x"), DataLoss);
}

}  // namespace
}  // namespace muster
