#include "muster/nn/model/initializer.h"

#include <fmt/ranges.h>
#include <torch/types.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "muster/base/error.h"
#include "muster/base/random.h"
#include "muster/nn/kernels/parallel_for.h"
#include "muster/nn/model/philox_fill.h"

namespace muster {
namespace {

// Values are drawn in blocks, each with a key of its own, so the number of threads changes nothing.
constexpr std::int64_t kBlock = 1024;

// Calls fill(key, span) for every block of the tensor.
template <typename Fill>
void fill_blocks(at::Tensor& tensor, std::uint64_t key, const Fill& fill) {
  if (!tensor.defined() || !tensor.is_floating_point()) {
    throw InvalidArgument("an initializer fills tensors of floats only");
  }
  const auto count = tensor.numel();
  auto values = torch::empty({count}, torch::kFloat);
  auto* const data = values.data_ptr<float>();
  kernels::parallel_for(0, (count + kBlock - 1) / kBlock, 16,
                        [&](std::int64_t begin, std::int64_t end) {
                          for (auto block = begin; block < end; ++block) {
                            const auto size = std::min(kBlock, count - block * kBlock);
                            fill(derive_key(key, static_cast<std::uint64_t>(block)),
                                 std::span(data + block * kBlock, static_cast<std::size_t>(size)));
                          }
                        });
  const torch::NoGradGuard no_grad;
  tensor.copy_(values.view_as(tensor));
}

// In [-1, 1), a multiple of 2^-23: exact, so that the one product that follows is rounded the same
// everywhere. A sum after a product could be fused on some machines and not on others.
double signed_unit(std::uint32_t word) {
  return static_cast<double>(static_cast<std::int32_t>(word >> 8) - (1 << 23)) * 0x1.0p-23;
}

void fill_uniform(at::Tensor& tensor, std::uint64_t key, double limit) {
  fill_blocks(tensor, key, [limit](std::uint64_t block_key, std::span<float> out) {
    std::array<std::uint32_t, kBlock> words;
    philox_fill(block_key, 0, std::span(words).first(out.size()));
    for (std::size_t i = 0; i < out.size(); ++i) {
      out[i] = static_cast<float>(signed_unit(words[i]) * limit);
    }
  });
}

// True with probability exp(-x) for x in [0, 1], by comparisons alone (von Neumann): the run of
// falling uniform numbers that starts below x has an even length with exactly that probability.
bool exponential_coin(Random& random, double x) {
  double last = x;
  for (bool even = true;; even = !even) {
    const double next = random.uniform();
    if (next >= last) return even;
    last = next;
  }
}

// A normal number given that it is in [-2, 2]: uniform, kept with probability exp(-x^2 / 2).
// Without a logarithm or cosine, whose last bit depends on the machine's library.
double draw_truncated_normal(Random& random) {
  for (;;) {
    const double x = 4.0 * random.uniform() - 2.0;
    const double half = x * x * 0.25;
    if (exponential_coin(random, half) && exponential_coin(random, half)) return x;
  }
}

struct Fans {
  double in;
  double out;
};

Fans fans_of(const at::Tensor& kernel, KernelLayout layout) {
  if (kernel.dim() < 2) {
    throw InvalidArgument("glorot_uniform needs a kernel of at least 2 dimensions, not [{}]",
                          fmt::join(kernel.sizes(), ", "));
  }
  const bool in_out = layout == KernelLayout::kInOut;
  const auto in = kernel.size(in_out ? -2 : 1);
  const auto out = kernel.size(in_out ? -1 : 0);
  const auto field = in * out == 0 ? 0 : kernel.numel() / (in * out);
  return {static_cast<double>(in * field), static_cast<double>(out * field)};
}

}  // namespace

Initializer constant(float value) {
  return [value](at::Tensor& tensor, std::uint64_t) {
    const torch::NoGradGuard no_grad;
    tensor.fill_(value);
  };
}

Initializer zeros() { return constant(0.0F); }
Initializer ones() { return constant(1.0F); }

Initializer glorot_uniform(KernelLayout layout) {
  return [layout](at::Tensor& tensor, std::uint64_t key) {
    const auto fans = fans_of(tensor, layout);
    fill_uniform(tensor, key, std::sqrt(6.0 / (fans.in + fans.out)));
  };
}

Initializer uniform(float limit) {
  if (!(limit > 0.0F)) throw InvalidArgument("the limit of uniform must be positive: {}", limit);
  return [limit](at::Tensor& tensor, std::uint64_t key) { fill_uniform(tensor, key, limit); };
}

Initializer truncated_normal(float stddev) {
  if (!(stddev > 0.0F)) {
    throw InvalidArgument("the stddev of truncated_normal must be positive: {}", stddev);
  }
  return [stddev](at::Tensor& tensor, std::uint64_t key) {
    fill_blocks(tensor, key, [stddev](std::uint64_t block_key, std::span<float> out) {
      Random random(block_key);
      for (auto& value : out) value = static_cast<float>(draw_truncated_normal(random) * stddev);
    });
  };
}

}  // namespace muster
