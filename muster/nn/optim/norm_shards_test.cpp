#include "muster/nn/optim/norm_shards.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>
#include <limits>

namespace muster {
namespace {

struct NormsOfShards : ::testing::Test {
  NormsOfShards()
      : variables({{.name = "kernel", .shape = {5 * kNormBlock / 2}},
                   {.name = "bias", .shape = {70}},
                   {.name = "table", .shape = {6, 2}, .sparse = true}}),
        whole(variables.make_gradients()) {
    for (const char* name : {"kernel", "bias"}) {
      const at::Tensor values = whole.of(*variables.find(name));
      values.copy_(at::arange(values.numel(), at::kFloat).sin_());
    }
    whole.rows[0] = {torch::tensor({4}, at::kLong), torch::tensor({0.0F, -4.0F}).view({1, 2})};
  }

  Gradients part(const FlatRange& range) const {
    return {whole.flat.narrow(0, range.first, range.last - range.first).clone(), whole.rows,
            range.first};
  }
  // As every holder has them in the end.
  SquareSums sums_over(const std::vector<FlatRange>& ranges) const {
    const NormShards norms(variables, ranges);
    std::vector<at::Tensor> records;
    for (std::size_t holder = 0; holder < ranges.size(); ++holder) {
      records.push_back(at::empty({norms.size_of_record(holder)}, at::kFloat));
      norms.write(part(ranges[holder]), holder, records.back());
    }
    return norms.sums(part(ranges[0]), [&](std::size_t holder) { return records[holder]; });
  }
  std::vector<double> blocks_of_one_holder() const {
    SquareSums sums(variables);
    for (const VariablePart& one : variables.whole()) sums.add(whole, one);
    return sums.blocks();
  }

  Variables variables;
  Gradients whole;
};

TEST_F(NormsOfShards, AreThoseOfOneHolderWhereverTheRangesAreCut) {
  const std::int64_t size = variables.flat().numel();
  for (const std::int64_t cut : {std::int64_t{0}, std::int64_t{16}, kNormBlock, kNormBlock + 48,
                                 2 * kNormBlock + 1024, size - 80, size}) {
    EXPECT_EQ(sums_over({{0, cut}, {cut, size}}).blocks(), blocks_of_one_holder()) << cut;
    EXPECT_EQ(sums_over({{cut, size}, {0, cut}}).blocks(), blocks_of_one_holder()) << cut;
  }
  // Several cuts in one block.
  EXPECT_EQ(sums_over({{0, 32}, {32, 4096}, {4096, 4096}, {4096, size}}).blocks(),
            blocks_of_one_holder());
}

TEST_F(NormsOfShards, SendSumsInsteadOfElementsButForTheBlockThatIsCut) {
  const std::int64_t size = variables.flat().numel();
  const NormShards norms(variables, {{0, kNormBlock + 48}, {kNormBlock + 48, size}});
  EXPECT_EQ(norms.size_of_record(0), 2 + 48);
  EXPECT_EQ(norms.size_of_record(1), kNormBlock - 48 + 2 + 2);
}

TEST_F(NormsOfShards, AreNotFiniteWhereAnElementIsNot) {
  whole.of(*variables.find("bias"))[7] = std::numeric_limits<float>::quiet_NaN();
  const std::int64_t size = variables.flat().numel();
  EXPECT_TRUE(std::isnan(sums_over({{0, 32}, {32, size}}).global_norm()));
}

}  // namespace
}  // namespace muster
