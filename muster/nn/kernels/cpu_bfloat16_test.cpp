#include "muster/nn/kernels/cpu_bfloat16.h"

#include <gtest/gtest.h>

namespace muster::kernels {
namespace {

TEST(CpuBfloat16, NamesWhatTheProcessorLacks) {
  EXPECT_NE(bfloat16_obstacle({}).find("avx512_bf16"), std::string::npos);
  EXPECT_NE(bfloat16_obstacle({.is_arm64 = true}).find("(bf16)"), std::string::npos);
}

TEST(CpuBfloat16, NamesWhatLibtorchLacks) {
  CpuBfloat16 cpu{
      .is_arm64 = true, .has_instructions = true, .uses_onednn = true, .libtorch_major = 1};
  EXPECT_NE(bfloat16_obstacle(cpu).find("before 2.0"), std::string::npos);
  cpu.libtorch_major = 2;
  EXPECT_EQ(bfloat16_obstacle(cpu), "");
  cpu.uses_onednn = false;
  EXPECT_NE(bfloat16_obstacle(cpu).find("oneDNN"), std::string::npos);
}

TEST(CpuBfloat16, IsNoObstacleOnAnX86WithTheInstructions) {
  EXPECT_EQ(bfloat16_obstacle({.has_instructions = true, .uses_onednn = true}), "");
}

}  // namespace
}  // namespace muster::kernels
