// Bits of products, convolutions, norms and residual units. They depend on the loops that the
// processor was found to have (tiles_internal.h), and on nothing else.
#include "muster/testing/golden.h"

#include <torch/types.h>

#include "muster/nn/kernels/batch_norm.h"
#include "muster/nn/kernels/convolution.h"
#include "muster/nn/kernels/gemm.h"
#include "muster/nn/kernels/inference_convolution.h"
#include "muster/nn/kernels/residual_unit.h"
#include "muster/nn/kernels/tiles_internal.h"

namespace muster::kernels {
namespace {

// The hash of each kind of loops: NEON is arm64's.
struct TileHashes {
  std::string_view avx512, avx2, baseline, neon;

  std::string_view here() const {
    const std::string_view name = tiles().name;
    if (name == "neon") return neon;
    if (name == "baseline") return baseline;
    return name == "avx2" ? avx2 : avx512;
  }
};

at::Tensor noise(at::IntArrayRef shape, std::uint64_t seed) {
  const at::Tensor values = at::empty(shape);
  testing::fill_with_noise({values.data_ptr<float>(), static_cast<std::size_t>(values.numel())},
                           seed);
  return values;
}

void expect_kept(const std::vector<at::Tensor>& tensors, const TileHashes& kept) {
  std::string bits;
  for (const at::Tensor& tensor : tensors) {
    const at::Tensor values = tensor.contiguous();
    bits.append(static_cast<const char*>(values.data_ptr()), values.nbytes());
  }
  const std::string found = sha256_hex(bits);
  if (kept.here().empty())
    GTEST_SKIP() << "none is kept with loops of " << tiles().name << ": " << found;
  EXPECT_EQ(found, kept.here()) << "loops of " << tiles().name;
}

TEST(Golden, Products) {
  const at::Tensor a = noise({65, 700}, 1), b = noise({700, 33}, 2);
  const at::Tensor c = at::zeros({65, 33});
  gemm(65, 33, 700, row_major(a.data_ptr<float>(), 700), row_major(b.data_ptr<float>(), 33),
       c.data_ptr<float>(), 33, Into::kReplace);
  expect_kept({c}, {.avx512 = "a07f8495d36f9e92fa57e87e10c8e61ba97c4143ceeb0570179bb95437c66225",
                    .avx2 = "a07f8495d36f9e92fa57e87e10c8e61ba97c4143ceeb0570179bb95437c66225",
                    .baseline = "5bc33edf97d18212cc24caaec27ffe960685072cda20de33d2a91ecffe333c7c",
                    .neon = "a07f8495d36f9e92fa57e87e10c8e61ba97c4143ceeb0570179bb95437c66225"});
}

TEST(Golden, Convolutions) {
  const at::Tensor input = noise({2, 5, 13, 14}, 1), weight = noise({6, 5, 3, 3}, 2);
  const Convolution convolution{{1, 1}, {1, 1}};
  const at::Tensor output = convolve(input, weight, noise({6}, 3), convolution);
  const auto [dx, dw, db] =
      convolve_backward(noise(output.sizes(), 4), input, weight, convolution, {true, true, true});
  expect_kept({output, dx, dw, db},
              {.avx512 = "b8c91998a01c3ab31fb7e847231491714fcc91c46e2247e853d280195465d8e8",
               .avx2 = "7d5abd1ee81c3d1013a9455f288c9a802fb7dcd083ee8943b297fe7e852333ad",
               .baseline = "60fbbb59573b13c842e2c1dbaf6644946b8b98f465c688d7ae7b3a02034e9c35",
               .neon = "ae7160f9011dc3abaf5c030526bbcae5719b2e6cb01bd9e54ec881c303c66030"});
}

TEST(Golden, ConvolutionsThatOnlyAnswer) {
  const InferenceConvolution layer(noise({3, 3, 5, 33}, 1), noise({33}, 2));
  expect_kept({layer.run(noise({2, 9, 8, 5}, 3), {.relu = true}, noise({2, 7, 6, 33}, 4))},
              {.avx512 = "1d6b03abae27a69ab08588ffd64dc1456252d0e784c739fe56bc029806f0f54c",
               .avx2 = "1d6b03abae27a69ab08588ffd64dc1456252d0e784c739fe56bc029806f0f54c",
               .baseline = "1f5dfd2453feb0267560be01600a5a4889d9ed7bf9e19f7a2d2ffdf21a63b25b",
               .neon = "1d6b03abae27a69ab08588ffd64dc1456252d0e784c739fe56bc029806f0f54c"});
}

TEST(Golden, BatchNorms) {
  const at::Tensor input = noise({7, 5, 6, 3}, 1);
  const auto [y, mean, inverse] =
      batch_norm(input, noise({5}, 2), noise({5}, 3), {}, {}, 0.1, 1e-5);
  const auto [dx, dw, db] = batch_norm_backward(noise({7, 5, 6, 3}, 4), input, noise({5}, 2), mean,
                                                inverse, {true, true, true});
  expect_kept({y, mean, inverse, dx, dw, db},
              {.avx512 = "b87b0103938c72a67848fe296855f1e1bb4061fac409a73b4718ae1bbf3a4517",
               .avx2 = "b87b0103938c72a67848fe296855f1e1bb4061fac409a73b4718ae1bbf3a4517",
               .baseline = "b87b0103938c72a67848fe296855f1e1bb4061fac409a73b4718ae1bbf3a4517",
               .neon = "b87b0103938c72a67848fe296855f1e1bb4061fac409a73b4718ae1bbf3a4517"});
}

NormalisedConvolution normalised(std::int64_t channels, std::uint64_t seed) {
  return {.weight = noise({channels, channels, 3, 3}, seed),
          .gamma = noise({channels}, seed + 1),
          .beta = noise({channels}, seed + 2),
          .running_mean = at::zeros({channels}),
          .running_variance = at::ones({channels})};
}

TEST(Golden, ResidualUnits) {
  const at::Tensor input = noise({2, 8, 8, 8}, 1);
  ASSERT_TRUE(residual_unit_takes(input, 8, 1));
  const NormalisedConvolution first = normalised(8, 10), second = normalised(8, 20);
  const UnitForward forward = residual_unit(input, first, second, 1);
  const UnitBackward back =
      residual_unit_backward(noise({2, 8, 8, 8}, 2), input, forward, first, second, 1);
  expect_kept({forward.output, first.running_mean, second.running_variance, back.input,
               back.first.weight, back.first.gamma, back.second.weight, back.second.beta},
              {.avx512 = "6c0ee95e3e7c262c0ad7a6de64528e8ecd942aaaa9ea513280b25e33efa1bf56",
               .avx2 = "c747d3c16fcb19ba68a06a119f0071b671f47d4496aba7aed9dfcd5d9621e9a0",
               .baseline = "7b3ff262edb5008a67e3315c9fa6a0fa8e8e27ed187ab278a62f0ccdc69601a6",
               .neon = "c747d3c16fcb19ba68a06a119f0071b671f47d4496aba7aed9dfcd5d9621e9a0"});
}

TEST(Golden, ResidualUnitsChannelsLast) {
  const auto images = [](at::IntArrayRef shape, std::uint64_t seed) {
    return noise(shape, seed).contiguous(at::MemoryFormat::ChannelsLast);
  };
  const at::Tensor input = images({9, 16, 12, 20}, 1);
  ASSERT_TRUE(residual_unit_takes(input, 32, 2));
  const NormalisedConvolution first{.weight = noise({32, 16, 3, 3}, 10),
                                    .gamma = noise({32}, 11),
                                    .beta = noise({32}, 12),
                                    .running_mean = at::zeros({32}),
                                    .running_variance = at::ones({32})};
  const NormalisedConvolution second = normalised(32, 20);
  const UnitForward forward = residual_unit(input, first, second, 2);
  const UnitBackward back =
      residual_unit_backward(images({9, 32, 6, 10}, 2), input, forward, first, second, 2);
  expect_kept({forward.output, first.running_mean, second.running_variance, back.input,
               back.first.weight, back.first.gamma, back.second.weight, back.second.beta},
              {.avx512 = "",
               .avx2 = "5694df958052ffa5bb9e2ff5461e312492b75293684354b833725e3246457d47",
               .baseline = "63075e1a5c0ab212d8cad507265ef6525eae28eafac0a7d9b2b6ff9dd812033c",
               .neon = ""});
}

}  // namespace
}  // namespace muster::kernels
