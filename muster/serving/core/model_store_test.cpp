#include "muster/serving/core/model_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "muster/serving/core/servable_fake.h"
#include "muster/serving/core/version_folders.h"
#include "muster/testing/eventually.h"
#include "muster/testing/message_of.h"

namespace muster::serving {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;
using testing::TempDir;

class ModelStoreTest : public ::testing::Test {
 protected:
  ModelStore& open(StoreOptions options = {}, ModelConfig config = {}) {
    options.load = load_fake;
    options.poll_interval = std::chrono::milliseconds(0);
    options.slots = 1;
    store_.emplace(std::move(options));
    config.name = "m";
    config.base_path = folder_ / "m";
    store_->configure({config});
    store_->wait_until_settled(Deadline::never());
    return *store_;
  }

  // "3 AVAILABLE", the newest first.
  std::vector<std::string> states() {
    std::vector<std::string> all;
    for (const VersionStatus& status : store_->status("m")) {
      all.push_back(fmt::format("{} {}", status.number, name_of(status.state)));
    }
    return all;
  }

  float answer(const VersionChoice& choice = {}) {
    const auto version = store_->find("m", choice);
    const Tensors inputs{{"x", graph::TensorValue::vector<float>({0})}};
    return version->run("serving_default", inputs).outputs.at("y").values<float>().at(0);
  }

  TempDir folder_;
  std::optional<ModelStore> store_;
};

TEST_F(ModelStoreTest, ServesTheNewestVersion) {
  write_fake(folder_ / "m/2", "2");
  write_fake(folder_ / "m/0010", "10");
  write_fake(folder_ / "m/temp-11", "11");
  open();
  EXPECT_THAT(states(), ElementsAre("10 AVAILABLE"));
  EXPECT_EQ(answer(), 10);
  EXPECT_TRUE(store_->ready());
  EXPECT_EQ(message_of([&] { answer({.number = 2}); }),
            "Servable not found for request: Specific(m, 2)");
  EXPECT_EQ(message_of([&] { store_->find("n"); }), "Servable not found for request: Latest(n)");
  EXPECT_EQ(message_of([&] { store_->status("n"); }), "Could not find any versions of model n");
}

TEST_F(ModelStoreTest, LoadsBesideRequestsWithALowerPriority) {
  write_fake(folder_ / "m/1", "1");
  std::vector<int> priorities;
  open({.warm_up = [&](const ModelVersion&, const Path&) {
    priorities.push_back(::getpriority(PRIO_PROCESS, static_cast<id_t>(::gettid())));
  }});
  for (const char* const number : {"2", "3"}) {
    write_fake(folder_ / "m" / number, number);
    store_->poll();
  }
  EXPECT_EQ(answer(), 3);
  ASSERT_EQ(priorities.size(), 3U);
  const int usual = ::getpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()));
  EXPECT_EQ(priorities[0], usual);
  EXPECT_EQ(priorities[1], std::min(usual + 10, 19));
  EXPECT_EQ(priorities[2], priorities[1]);
}

TEST_F(ModelStoreTest, ANewVersionTakesOverAndTheOldOneGoesAfterItsLastRequest) {
  write_fake(folder_ / "m/1", "1");
  open();
  ModelVersionPtr held = store_->find("m");
  write_fake(folder_ / "m/2", "2");
  store_->poll();
  EXPECT_EQ(answer(), 2);
  EXPECT_THAT(states(), ElementsAre("2 AVAILABLE", "1 UNLOADING"));
  const Tensors inputs{{"x", graph::TensorValue::vector<float>({0})}};
  EXPECT_EQ(held->run("serving_default", inputs).outputs.at("y").values<float>().at(0), 1);
  held.reset();
  store_->poll();
  EXPECT_THAT(states(), ElementsAre("2 AVAILABLE", "1 END"));
}

TEST_F(ModelStoreTest, AVersionThatFailsToLoadTakesNoGoodOneDown) {
  write_fake(folder_ / "m/1", "1");
  open({.load_retry_interval = std::chrono::hours(1)});
  write_fake(folder_ / "m/2", "broken");
  store_->poll();
  EXPECT_EQ(answer(), 1);
  EXPECT_THAT(states(), ElementsAre("2 END", "1 AVAILABLE"));
  const VersionStatus failed = store_->status("m").front();
  EXPECT_EQ(failed.code, ErrorCode::kDataLoss);
  EXPECT_THAT(failed.message, HasSubstr("broken"));
  // Its files change: no waiting for the hour to pass.
  write_fake(folder_ / "m/2", "2.5");
  store_->poll();
  EXPECT_EQ(answer(), 2.5);
  EXPECT_THAT(states().front(), "2 AVAILABLE");
}

TEST_F(ModelStoreTest, AServedVersionWhoseFilesChangeIsLoadedAgain) {
  write_fake(folder_ / "m/1", "1");
  open({.load_retry_interval = std::chrono::hours(1)});
  // A file that was longer on its way than the others.
  write_fake(folder_ / "m/1", "1.25");
  store_->poll();
  EXPECT_EQ(answer(), 1.25);
  write_fake(folder_ / "m/1", "broken");
  store_->poll();
  EXPECT_EQ(answer(), 1.25);
  EXPECT_THAT(states(), ElementsAre("1 AVAILABLE"));
  write_fake(folder_ / "m/1", "1.5");
  store_->poll();
  EXPECT_EQ(answer(), 1.5);
  const ModelVersionPtr held = store_->find("m");
  store_->poll();
  EXPECT_EQ(store_->find("m"), held);
  EXPECT_THAT(states(), ElementsAre("1 AVAILABLE"));
  // Requests to warm up with are for the next load.
  std::filesystem::create_directory(folder_ / "m/1/assets.extra");
  write_file_atomically(folder_ / "m/1/assets.extra/tf_serving_warmup_requests", "");
  store_->poll();
  EXPECT_EQ(store_->find("m"), held);
}

TEST_F(ModelStoreTest, TriesAFailedLoadAgainSoManyTimes) {
  std::atomic<int> loads{0};
  write_fake(folder_ / "m/1", "1");
  StoreOptions options{.max_load_retries = 2, .load_retry_interval = std::chrono::hours(-1)};
  options.warm_up = [&](const ModelVersion&, const Path&) {
    ++loads;
    throw InvalidArgument("no");
  };
  open(std::move(options));
  for (int i = 0; i < 5; ++i) store_->poll();
  EXPECT_EQ(loads, 3);
  EXPECT_FALSE(store_->ready());
}

TEST_F(ModelStoreTest, AnEmptyOrMissingFolderTakesNothingDown) {
  write_fake(folder_ / "m/1", "1");
  open();
  std::filesystem::remove_all(folder_ / "m/1");
  store_->poll();
  EXPECT_EQ(answer(), 1);
  std::filesystem::remove_all(folder_ / "m");
  store_->poll();
  EXPECT_EQ(answer(), 1);
}

TEST_F(ModelStoreTest, KeepsToItsPolicy) {
  for (const char* number : {"1", "2", "3"}) write_fake(folder_ / "m" / number, number);
  open({}, {.policy = {.count = 2}});
  EXPECT_THAT(states(), ElementsAre("3 AVAILABLE", "2 AVAILABLE"));
  open({}, {.policy = {.kind = VersionPolicy::Kind::kAll}});
  EXPECT_THAT(states(), ElementsAre("3 AVAILABLE", "2 AVAILABLE", "1 AVAILABLE"));
  open({}, {.policy = {.kind = VersionPolicy::Kind::kSpecific, .versions = {1, 7}}});
  EXPECT_THAT(states(), ElementsAre("1 AVAILABLE"));
}

TEST_F(ModelStoreTest, LabelsNameVersionsThatAnswer) {
  for (const char* number : {"1", "2"}) write_fake(folder_ / "m" / number, number);
  open({}, {.policy = {.kind = VersionPolicy::Kind::kAll}});
  store_->set_labels("m", {{"stable", 1}, {"canary", 2}});
  EXPECT_EQ(answer({.label = "stable"}), 1);
  EXPECT_EQ(answer({.label = "canary"}), 2);
  EXPECT_EQ(message_of([&] { answer({.label = "old"}); }),
            "Unrecognized servable version label: old");
  EXPECT_THAT(message_of([&] {
                store_->set_labels("m", {{"stable", 9}});
              }),
              HasSubstr("label to version 9 of model m, which is not currently available"));
  EXPECT_EQ(answer({.label = "stable"}), 1);
}

TEST_F(ModelStoreTest, TheDefaultVersionAnswersWhoeverNamesNone) {
  for (const char* number : {"1", "2"}) write_fake(folder_ / "m" / number, number);
  open({}, {.policy = {.kind = VersionPolicy::Kind::kAll}, .default_version = 1});
  EXPECT_EQ(answer(), 1);
  EXPECT_EQ(answer({.number = 2}), 2);
}

TEST_F(ModelStoreTest, AModelThatIsNoLongerListedIsUnloaded) {
  write_fake(folder_ / "m/1", "1");
  write_fake(folder_ / "n/1", "5");
  open();
  store_->configure({{.name = "n", .base_path = folder_ / "n"}});
  store_->wait_until_settled(Deadline::never());
  EXPECT_THROW(store_->find("m"), NotFound);
  EXPECT_EQ(store_->find("n")->number(), 1);
}

TEST_F(ModelStoreTest, RefusesAListThatIsWrongAndKeepsTheOldOne) {
  write_fake(folder_ / "m/1", "1");
  open();
  const ModelConfig m{.name = "m", .base_path = folder_ / "m"};
  EXPECT_THAT(message_of([&] { store_->configure({m, m}); }), HasSubstr("multiple times"));
  for (const char* name : {"", "a/b", "a:b", "..", "a\nb"}) {
    EXPECT_THROW(store_->configure({{.name = name, .base_path = "x"}}), InvalidArgument) << name;
  }
  EXPECT_EQ(answer(), 1);
}

TEST_F(ModelStoreTest, AFolderThatIsASavedModelIsTheOnlyVersion) {
  write_fake(folder_ / "m", "4");
  open();
  EXPECT_EQ(store_->find("m")->number(), 1);
  EXPECT_EQ(versions_in(folder_ / "m").size(), 1U);
}

TEST_F(ModelStoreTest, ResourcePreservingUnloadsFirst) {
  write_fake(folder_ / "m/1", "1");
  std::atomic<bool> served_during_load{false};
  StoreOptions options{.resource_preserving = true};
  options.warm_up = [&](const ModelVersion& version, const Path&) {
    if (version.number() != 2) return;
    try {
      store_->find("m");
      served_during_load = true;
    } catch (const NotFound&) {
      served_during_load = false;
    }
  };
  open(std::move(options));
  write_fake(folder_ / "m/2", "2");
  store_->poll();
  EXPECT_FALSE(served_during_load);
  EXPECT_EQ(answer(), 2);
}

TEST_F(ModelStoreTest, SwapsUnderLoadLoseNoRequest) {
  write_fake(folder_ / "m/1", "1");
  open();
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0};
  std::atomic<int> answered{0};
  {
    std::vector<std::jthread> clients;
    for (int i = 0; i < 3; ++i) {
      clients.emplace_back([&] {
        while (!stop) {
          try {
            const auto version = store_->find("m");
            const Tensors inputs{{"x", graph::TensorValue::vector<float>({0})}};
            const float y =
                version->run("serving_default", inputs).outputs.at("y").values<float>().at(0);
            if (y != static_cast<float>(version->number())) ++wrong;
            ++answered;
          } catch (const std::exception&) {
            ++wrong;
          }
        }
      });
    }
    for (int number = 2; number <= 40; ++number) {
      write_fake(folder_ / "m" / std::to_string(number), std::to_string(number));
      store_->poll();
    }
    stop = true;
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(answered, 0);
  // The list of what was served does not grow without end.
  EXPECT_LE(store_->status("m").size(), 20U);
}

TEST(ServingFolder, FindsTheExportsOfATraining) {
  const TempDir folder;
  EXPECT_EQ(serving_folder(folder.path()), folder.path());
  write_fake(folder / "export/census/17", "1");
  EXPECT_EQ(serving_folder(folder.path()), folder / "export/census");
  EXPECT_EQ(serving_folder(folder / "export/census"), folder / "export/census");
}

}  // namespace
}  // namespace muster::serving
