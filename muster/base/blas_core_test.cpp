#include "muster/base/blas_core.h"

#include <gtest/gtest.h>

namespace muster {
namespace {

constexpr const char* kHaswell = "fpu sse2 ssse3 fma avx avx2";
constexpr const char* kSkylake = "fma avx avx2 avx512f avx512dq avx512cd avx512bw avx512vl";

TEST(BlasCore, IsThatOfTheInstructionsThatThereAre) {
  EXPECT_EQ(better_blas_core("Prescott", kHaswell), "Haswell");
  EXPECT_EQ(better_blas_core("Nehalem", kSkylake), "SkylakeX");
  EXPECT_EQ(better_blas_core("Prescott", "fpu sse2 avx2x fma"), "");
}

TEST(BlasCore, StaysWhereOpenBlasKnewTheProcessor) {
  EXPECT_EQ(better_blas_core("Haswell", kSkylake), "");
  EXPECT_EQ(better_blas_core("Zen", kHaswell), "");
  EXPECT_EQ(better_blas_core("ARMV8", ""), "");
}

}  // namespace
}  // namespace muster
