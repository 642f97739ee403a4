// Decoders of text: the cache of keys and values, sampling, sizes without memory.
#include "muster/nn/zoo/text_decoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "muster/base/error.h"
#include "muster/nn/zoo/small_networks_fake.h"
#include "muster/testing/message_of.h"

namespace muster::zoo {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::message_of;

std::shared_ptr<TextDecoder> decoder_of_fixture() {
  const auto decoder = small_llama();
  load_weights(*decoder, fixture("llama.safetensors"));
  decoder->eval();
  return decoder;
}

TEST(TextDecoder, TheCacheGivesTheLogitsOfTheWholeText) {
  const torch::NoGradGuard no_grad;
  const auto decoder = decoder_of_fixture();
  const auto ids = input_and_output("llama").first.tensor("input");
  const auto whole = decoder->logits(ids);
  KeyValueCache cache;
  std::int64_t begin = 0;
  for (const std::int64_t count : {4, 1, 1, 3}) {
    const auto logits = decoder->next_logits(ids.slice(1, begin, begin + count), cache);
    begin += count;
    EXPECT_EQ(cache.length(), begin);
    EXPECT_TRUE(logits.allclose(whole.select(1, begin - 1), 1e-4, 1e-5)) << begin;
  }
  EXPECT_THAT(message_of([&] { decoder->next_logits(ids, cache); }),
              AllOf(HasSubstr("16 positions"), HasSubstr("9 tokens follow 9")));
}

// transformers' published sizes: TinyLlama 1.1B, Llama 2 7B.
TEST(TextDecoder, SizesOfBillionsAreCountedWithoutMemory) {
  const auto count = [](LlamaOptions options) {
    options.device = at::kMeta;
    const auto decoder = llama(options);
    std::int64_t parameters = 0;
    for (const auto& parameter : decoder->parameters()) parameters += parameter.numel();
    return parameters;
  };
  EXPECT_EQ(count({}), 1'100'048'384);
  EXPECT_EQ(count(llama2_7b()), 6'738'415'616);
}

double chance(const std::vector<float>& logits, const SamplingOptions& options,
              std::int64_t token) {
  constexpr int kDraws = 600;
  Random random(7);
  int drawn = 0;
  for (int i = 0; i < kDraws; ++i) {
    drawn += sample_token(torch::tensor(logits), options, random) == token ? 1 : 0;
  }
  return static_cast<double>(drawn) / kDraws;
}

TEST(Sampling, DrawsWithTheChancesOfTheSoftmax) {
  const std::vector<float> logits{0.0F, 1.0F, -1.0F, 2.0F};
  const auto weight = [&](int token, double temperature) {
    return std::exp(static_cast<double>(logits[static_cast<std::size_t>(token)]) / temperature);
  };
  const double all = weight(0, 1) + weight(1, 1) + weight(2, 1) + weight(3, 1);
  EXPECT_NEAR(chance(logits, {}, 3), weight(3, 1) / all, 0.06);
  EXPECT_NEAR(chance(logits, {}, 2), weight(2, 1) / all, 0.06);
  const double two = weight(1, 0.5) + weight(3, 0.5);
  EXPECT_NEAR(chance(logits, {.temperature = 0.5, .top_k = 2}, 1), weight(1, 0.5) / two, 0.06);
  EXPECT_EQ(chance(logits, {.temperature = 0.5, .top_k = 2}, 0), 0);
  EXPECT_EQ(chance(logits, {.temperature = 0}, 3), 1);
  EXPECT_EQ(chance({1.0F, 5.0F, 5.0F}, {.temperature = 0}, 1), 1) << "the lower of equal ones";
}

TEST(Sampling, RefusesOptionsAndLogitsThatMeanNothing) {
  Random random(1);
  const auto logits = torch::zeros({3});
  EXPECT_THAT(message_of([&] { sample_token(logits, {.temperature = -1}, random); }),
              HasSubstr("temperature must be finite and not negative: -1"));
  EXPECT_THAT(message_of([&] { sample_token(logits, {.top_k = -2}, random); }),
              HasSubstr("top_k must not be negative: -2"));
  const auto broken = torch::full({3}, std::numeric_limits<float>::quiet_NaN());
  EXPECT_THROW(sample_token(broken, {}, random), FailedPrecondition);
}

TEST(Generate, GreedyTextIsTheLikeliestTokenAfterEachText) {
  const torch::NoGradGuard no_grad;
  const auto decoder = decoder_of_fixture();
  std::vector<std::int64_t> text{3, 1, 4};
  const auto generated = generate(*decoder, text, {.tokens = 6, .sampling = {.temperature = 0}});
  for (const std::int64_t token : generated) {
    const auto logits = decoder->logits(torch::tensor(text, torch::kLong).unsqueeze(0));
    EXPECT_EQ(token, logits[0][-1].argmax().item<std::int64_t>());
    text.push_back(token);
  }
  EXPECT_EQ(text.size(), 9U);
}

TEST(Generate, TheSeedSaysWhichText) {
  const auto decoder = decoder_of_fixture();
  const auto text = [&](std::uint64_t seed) {
    return generate(*decoder, {1}, {.tokens = 12, .seed = seed});
  };
  EXPECT_EQ(text(5), text(5));
  EXPECT_NE(text(5), text(6));
}

TEST(Generate, GoesOnBeyondItsPositionsAndStopsAtTheEndToken) {
  const auto decoder = decoder_of_fixture();
  const auto text = generate(*decoder, {1, 2}, {.tokens = 40, .seed = 3});
  ASSERT_EQ(text.size(), 40U);
  const auto until = generate(*decoder, {1, 2}, {.tokens = 40, .end_token = text[20], .seed = 3});
  const auto first = std::find(text.begin(), text.end(), text[20]);
  EXPECT_EQ(until, (std::vector<std::int64_t>(text.begin(), first)));
  EXPECT_THAT(generate(*decoder, std::vector<std::int64_t>(30, 1), {.tokens = 1}).size(), 1U);
  EXPECT_THAT(message_of([&] { generate(*decoder, {}); }), HasSubstr("at least one token"));
}

}  // namespace
}  // namespace muster::zoo
