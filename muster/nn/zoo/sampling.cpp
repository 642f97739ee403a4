#include "muster/nn/zoo/sampling.h"

#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

#include "muster/base/error.h"

namespace muster::zoo {
namespace {

void check(const SamplingOptions& options) {
  if (!(options.temperature >= 0) || !std::isfinite(options.temperature)) {
    throw InvalidArgument("SamplingOptions::temperature must be finite and not negative: {}",
                          options.temperature);
  }
  if (options.top_k < 0) {
    throw InvalidArgument("SamplingOptions::top_k must not be negative: {}", options.top_k);
  }
}

std::vector<double> logits_of(const at::Tensor& tensor) {
  const auto logits = tensor.detach().to(at::kCPU, at::kDouble).flatten().contiguous();
  const auto* begin = logits.data_ptr<double>();
  std::vector<double> values(begin, begin + logits.numel());
  if (values.empty()) throw InvalidArgument("there are no logits to draw a token from");
  if (!std::ranges::all_of(values, [](double value) { return std::isfinite(value); })) {
    throw FailedPrecondition("logits are not finite: the model's weights are not usable");
  }
  return values;
}

at::Tensor row_of(std::span<const std::int64_t> tokens) {
  return torch::tensor(at::ArrayRef<std::int64_t>(tokens.data(), tokens.size()), torch::kLong)
      .unsqueeze(0);
}

}  // namespace

std::int64_t sample_token(const at::Tensor& logits, const SamplingOptions& options,
                          Random& random) {
  check(options);
  const std::vector<double> values = logits_of(logits);
  const auto is_likelier = [&](std::size_t a, std::size_t b) {
    return values[a] != values[b] ? values[a] > values[b] : a < b;
  };
  std::vector<std::size_t> tokens(values.size());
  std::iota(tokens.begin(), tokens.end(), std::size_t{0});
  std::size_t kept = tokens.size();
  if (options.top_k > 0) kept = std::min(kept, static_cast<std::size_t>(options.top_k));
  if (options.temperature == 0) kept = 1;
  std::partial_sort(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(kept),
                    tokens.end(), is_likelier);
  tokens.resize(kept);
  if (kept == 1) return static_cast<std::int64_t>(tokens[0]);

  std::vector<double> sums;  // Cumulative weights, the likeliest token first.
  sums.reserve(kept);
  double sum = 0;
  for (const std::size_t token : tokens) {
    sum += std::exp((values[token] - values[tokens[0]]) / options.temperature);
    sums.push_back(sum);
  }
  const auto drawn = std::ranges::upper_bound(sums, random.uniform() * sum) - sums.begin();
  const auto last = static_cast<std::ptrdiff_t>(kept) - 1;
  return static_cast<std::int64_t>(tokens[static_cast<std::size_t>(std::min(drawn, last))]);
}

std::vector<std::int64_t> generate(TextDecoder& decoder, const std::vector<std::int64_t>& prompt,
                                   const GenerateOptions& options) {
  if (prompt.empty()) throw InvalidArgument("generate() needs a prompt of at least one token");
  const torch::NoGradGuard no_grad;
  const auto positions = static_cast<std::size_t>(decoder.positions());
  const auto device = decoder.parameters()[0].device();
  Random random(options.seed);
  std::vector<std::int64_t> text = prompt;
  KeyValueCache cache;
  std::size_t computed = 0;  // The tokens before this one are in the cache, or were dropped.
  while (text.size() <
         prompt.size() + static_cast<std::size_t>(std::max<std::int64_t>(0, options.tokens))) {
    if (static_cast<std::size_t>(cache.length()) + text.size() - computed > positions) {
      cache = {};
      computed = text.size() - std::max<std::size_t>(1, positions / 2);
    }
    const auto added = std::span<const std::int64_t>(text).subspan(computed);
    const auto logits = decoder.next_logits(row_of(added).to(device), cache);
    computed = text.size();
    const std::int64_t token = sample_token(logits[0], options.sampling, random);
    if (token == options.end_token) break;
    text.push_back(token);
  }
  return {text.begin() + static_cast<std::ptrdiff_t>(prompt.size()), text.end()};
}

}  // namespace muster::zoo
