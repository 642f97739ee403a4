#include "muster/serving/core/response_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "muster/serving/core/service_fake.h"
#include "muster/testing/eventually.h"

namespace muster::serving {
namespace {

using ::testing::HasSubstr;

graph::TensorValue numbers(const std::vector<float>& values) {
  return graph::TensorValue::vector<float>(values);
}

Tensors rows_of_x(const std::vector<float>& values) { return {{"x", numbers(values)}}; }

TEST(ResponseCache, KeepsWhatWasAskedForLastWithinItsBytes) {
  ResponseCache cache(3000);
  const auto answer = std::make_shared<const Tensors>(rows_of_x({1}));
  for (int i = 0; i < 100; ++i) {
    cache.keep(std::to_string(i), answer);
    EXPECT_LE(cache.counts().bytes, 3000U);
    // Asked for again and again.
    EXPECT_EQ(cache.find("0"), answer) << i;
  }
  EXPECT_EQ(cache.find("99"), answer);
  EXPECT_EQ(cache.find("1"), nullptr);
  EXPECT_EQ(cache.counts().entries + cache.counts().evictions, 100U);
  cache.keep("large", std::make_shared<const Tensors>(rows_of_x(std::vector<float>(1000))));
  EXPECT_EQ(cache.find("large"), nullptr);
  EXPECT_EQ(cache.find("0"), answer);
  cache.forget("9");
  EXPECT_EQ(cache.find("99"), nullptr);
  cache.forget("");
  EXPECT_EQ(cache.counts().entries, 0U);
  EXPECT_EQ(cache.counts().bytes, 0U);
}

TEST(ResponseCache, TellsRequestsVersionsAndSignaturesApart) {
  const auto cache = std::make_shared<ResponseCache>(1 << 20);
  const CachedAnswers one(cache);
  const CachedAnswers two(cache);
  const std::string key = one.key_of("s", rows_of_x({1, 2}));
  EXPECT_EQ(one.key_of("s", rows_of_x({1, 2})), key);
  EXPECT_NE(two.key_of("s", rows_of_x({1, 2})), key);
  EXPECT_NE(one.key_of("t", rows_of_x({1, 2})), key);
  EXPECT_NE(one.key_of("s", rows_of_x({1, 3})), key);
  EXPECT_NE(one.key_of("s", {{"y", numbers({1, 2})}}), key);
  Tensors turned = rows_of_x({1, 2});
  turned.at("x").shape = {2, 1};
  EXPECT_NE(one.key_of("s", turned), key);
  const auto words = [](const std::vector<std::string>& texts) {
    return Tensors{{"x", graph::TensorValue::of_strings({2}, texts)}};
  };
  EXPECT_NE(one.key_of("s", words({"ab", "c"})), one.key_of("s", words({"a", "bc"})));
}

TEST(ResponseCache, LosesWhatAVersionHadWithTheVersion) {
  const auto cache = std::make_shared<ResponseCache>(1 << 20);
  CachedAnswers stays(cache);
  stays.keep(stays.key_of("s", rows_of_x({1})), rows_of_x({2}));
  {
    CachedAnswers goes(cache);
    goes.keep(goes.key_of("s", rows_of_x({1})), rows_of_x({3}));
    EXPECT_EQ(cache->counts().entries, 2U);
    EXPECT_EQ(goes.find(goes.key_of("s", rows_of_x({1})))->at("x").values<float>(),
              std::vector<float>{3});
    EXPECT_EQ(goes.hits(), 1U);
    EXPECT_EQ(goes.find(goes.key_of("s", rows_of_x({4}))), nullptr);
    EXPECT_EQ(goes.misses(), 1U);
  }
  EXPECT_EQ(cache->counts().entries, 1U);
  EXPECT_NE(stays.find(stays.key_of("s", rows_of_x({1}))), nullptr);
}

TEST(ResponseCache, StaysWithinItsBytesUnderManyThreads) {
  const auto cache = std::make_shared<ResponseCache>(20'000);
  CachedAnswers answers(cache);
  {
    constexpr int kThreads = 4;
    std::vector<std::jthread> threads;
    threads.reserve(kThreads);
    for (int thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([&] {
        for (int i = 0; i < 500; ++i) {
          const Tensors inputs = rows_of_x({static_cast<float>(i % 50)});
          const std::string key = answers.key_of("s", inputs);
          const auto held = answers.find(key);
          if (held) {
            EXPECT_EQ(*held, inputs);
          } else {
            answers.keep(key, inputs);
          }
        }
      });
    }
  }
  EXPECT_LE(cache->counts().bytes, 20'000U);
  EXPECT_EQ(answers.hits() + answers.misses(), 2000U);
}

/// Models whose computations are counted.
class CachedService : public ::testing::Test {
 protected:
  class Counted final : public Servable {
   public:
    Counted(std::shared_ptr<const Servable> of, std::atomic<int>& runs)
        : of_(std::move(of)), runs_(runs) {}
    const Signatures& signatures() const override { return of_->signatures(); }
    Tensors run(std::string_view signature, const Tensors& inputs) const override {
      ++runs_;
      return of_->run(signature, inputs);
    }

   private:
    std::shared_ptr<const Servable> of_;
    std::atomic<int>& runs_;
  };

  float answer(float x, std::optional<std::int64_t> version = std::nullopt) {
    Call call{.model = "m", .version = {.number = version}};
    float y = 0;
    fake_.service().run(
        call, nullptr,
        {.inputs = [&](const auto&, const auto&) { return rows_of_x({x}); },
         .answer = [&](const auto&,
                       BatchAnswer given) { y = given.outputs.at("y").values<float>()[0]; }});
    return y;
  }

  std::atomic<int> runs_{0};
  std::shared_ptr<ResponseCache> cache_ = std::make_shared<ResponseCache>(1 << 20);
  FakeService fake_{2,
                    [this](const Path& dir) -> std::shared_ptr<const Servable> {
                      return std::make_shared<Counted>(load_fake(dir), runs_);
                    },
                    cache_};
};

TEST_F(CachedService, ComputesARequestOnceForEachVersion) {
  for (int i = 0; i < 3; ++i) EXPECT_EQ(answer(5), 7);
  EXPECT_EQ(runs_, 1);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(answer(5, 1), 6);
  EXPECT_EQ(runs_, 2);
  EXPECT_EQ(answer(6), 8);
  EXPECT_EQ(runs_, 3);
  EXPECT_EQ(fake_.service().statistics().counts("m", 2).success, 4U);
  const std::string page = fake_.service().metrics_page();
  EXPECT_THAT(page, HasSubstr("muster_response_cache_hits_total{model=\"m\",version=\"2\"} 2\n"));
  EXPECT_THAT(page, HasSubstr("muster_response_cache_misses_total{model=\"m\",version=\"2\"} 2\n"));
  EXPECT_THAT(page, HasSubstr("# TYPE muster_response_cache_hits_total counter\n"));
  EXPECT_THAT(page, HasSubstr("muster_response_cache_entries 3\n"));
}

TEST_F(CachedService, AnswersRequestsThatNoThreadWaitsFor) {
  for (int i = 0; i < 2; ++i) {
    // Shared: the thread that sets it may still be at it when the value is there.
    const auto given = std::make_shared<std::promise<float>>();
    const auto y = std::make_shared<float>();
    fake_.service().start({.model = "m"}, nullptr,
                          {.inputs = [](const auto&, const auto&) { return rows_of_x({5}); },
                           .answer =
                               [y](const auto&, const BatchAnswer& found) {
                                 *y = found.outputs.at("y").values<float>()[0];
                               }},
                          [given, y](const std::exception_ptr& failure) {
                            EXPECT_EQ(failure, nullptr);
                            given->set_value(*y);
                          });
    EXPECT_EQ(given->get_future().get(), 7);
  }
  EXPECT_EQ(runs_, 1);
}

TEST_F(CachedService, ForgetsWhatWasUnloaded) {
  EXPECT_EQ(answer(5), 7);
  EXPECT_EQ(cache_->counts().entries, 1U);
  fake_.service().unload("m");
  EXPECT_TRUE(fake_.store().wait_until_settled(Deadline::never()));
  EXPECT_TRUE(testing::eventually([&] { return cache_->counts().entries == 0; }));
  write_fake(fake_.folder() / "m/2", "20");
  fake_.service().load("m", Deadline::never());
  EXPECT_EQ(answer(5), 25);
  EXPECT_EQ(runs_, 2);
}

}  // namespace
}  // namespace muster::serving
