#include "muster/platform/stores/disk_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "muster/base/error.h"
#include "muster/platform/stores/hdfs_file_system.h"
#include "muster/platform/stores/object_file_system.h"
#include "muster/platform/stores/s3_api.h"
#include "muster/platform/stores/test_environment_internal.h"
#include "muster/testing/fake_s3.h"
#include "muster/testing/fake_webhdfs.h"
#include "muster/testing/message_of.h"
#include "muster/testing/small_disk.h"
#include "muster/testing/temp_dir.h"

namespace muster::stores {
namespace {

using ::testing::HasSubstr;

class DiskCacheTest : public ::testing::Test {
 protected:
  std::shared_ptr<DiskCache> make(std::uint64_t most_bytes = 64 * kMiB) const {
    return std::make_shared<DiskCache>([this, most_bytes] {
      return DiskCacheOptions{.folder = folder_ / "cache", .most_bytes = most_bytes};
    });
  }

  // The files of ranges, without the lock.
  std::vector<Path> files() const {
    std::vector<Path> found;
    for (const auto& entry : std::filesystem::directory_iterator(folder_ / "cache")) {
      if (entry.path().extension() == ".range") found.push_back(entry.path());
    }
    return found;
  }
  std::uint64_t bytes() const {
    std::uint64_t sum = 0;
    for (const Path& path : files()) sum += std::filesystem::file_size(path);
    return sum;
  }

  testing::TempDir folder_;
};

TEST_F(DiskCacheTest, GivesToAnyProcessWhatOneHasPut) {
  make()->put("key", "bytes");
  EXPECT_EQ(make()->get("key"), "bytes");
  EXPECT_EQ(make()->get("other"), std::nullopt);
}

TEST_F(DiskCacheTest, IsSecretUnlessItsFolderWasThere) {
  const auto rights = [this] { return std::filesystem::status(folder_ / "cache").permissions(); };
  make()->put("key", "bytes");
  EXPECT_EQ(rights(), std::filesystem::perms::owner_all);
  std::filesystem::permissions(folder_ / "cache", std::filesystem::perms::all);
  make()->put("other key", "bytes");
  EXPECT_EQ(rights(), std::filesystem::perms::all);
}

TEST_F(DiskCacheTest, RemovesWhatWasNotUsedForLongest) {
  const auto cache = make(8 * kMiB);
  for (int i = 0; i < 7; ++i) cache->put(std::to_string(i), random_bytes(kMiB, i));
  // The oldest by use is 1 then, not 0.
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_TRUE(cache->get("0"));
  cache->put("7", random_bytes(kMiB, 7));
  cache->put("8", random_bytes(kMiB, 8));
  EXPECT_LE(bytes(), 8 * kMiB);
  EXPECT_FALSE(cache->get("1"));
  EXPECT_EQ(cache->get("0"), random_bytes(kMiB, 0));
  EXPECT_EQ(cache->get("8"), random_bytes(kMiB, 8));
}

TEST_F(DiskCacheTest, KeepsTheLimitOfAllThatWriteAtOnce) {
  std::vector<std::jthread> writers;
  for (int writer = 0; writer < 4; ++writer) {
    writers.emplace_back([cache = make(8 * kMiB), writer] {
      for (int i = 0; i < 40; ++i) {
        const std::string key = std::to_string(i % 20);
        const std::string wanted = random_bytes(kMiB / 2, i % 20);
        if (const auto found = cache->get(key)) EXPECT_EQ(*found, wanted) << writer;
        cache->put(key, wanted);
      }
    });
  }
  writers.clear();
  // Each may write again while another removes.
  EXPECT_LE(bytes(), 10 * kMiB);
  EXPECT_GT(files().size(), 4U);
}

TEST_F(DiskCacheTest, TakesNoFileThatACrashHasDamaged) {
  make()->put("key", random_bytes(1000));
  const Path file = files().at(0);
  const std::string whole = testing::read_bytes(file);
  std::string flipped = whole;
  flipped[500] = static_cast<char>(flipped[500] ^ 1);
  for (const std::string& damaged : {flipped, whole.substr(0, 700), whole + "more",
                                     std::string(whole.size(), '\0'), std::string()}) {
    testing::write_bytes(file, damaged);
    EXPECT_EQ(make()->get("key"), std::nullopt);
    make()->put("key", random_bytes(1000));
    EXPECT_EQ(make()->get("key"), random_bytes(1000));
  }
}

TEST_F(DiskCacheTest, RemovesWhatAKilledProcessHasLeft) {
  std::filesystem::create_directories(folder_ / "cache");
  testing::write_bytes(folder_ / "cache/tmp-1-2-3", "half");
  testing::write_bytes(folder_ / "cache/tmp-1-2-4", "of one that writes");
  std::filesystem::last_write_time(
      folder_ / "cache/tmp-1-2-3",
      std::filesystem::file_time_type::clock::now() - std::chrono::hours(2));
  make()->put("key", "bytes");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "cache/tmp-1-2-3"));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "cache/tmp-1-2-4"));
}

TEST_F(DiskCacheTest, GoesOnWithoutItselfWhenTheDiskIsFull) {
  const auto cache = make();
  cache->put("before", "bytes");
  ::testing::internal::CaptureStderr();
  {
    const testing::SmallDisk disk(1000);
    cache->put("large", random_bytes(5000));
    cache->put("another", random_bytes(5000));
  }
  const std::string talk = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(talk, HasSubstr("the cache of stores takes no more"));
  EXPECT_EQ(talk.find("takes no more"), talk.rfind("takes no more")) << "once";
  EXPECT_EQ(cache->get("before"), "bytes");
  EXPECT_FALSE(cache->get("large"));
  for (const auto& entry : std::filesystem::directory_iterator(folder_ / "cache")) {
    EXPECT_FALSE(entry.path().filename().string().starts_with("tmp-")) << entry.path();
  }
}

TEST_F(DiskCacheTest, IsThatOfTheEnvironment) {
  Environment environment;
  environment.set("MUSTER_STORE_CACHE", std::nullopt);
  EXPECT_FALSE(DiskCache().is_on());
  environment.set("MUSTER_STORE_CACHE", "/x");
  environment.set("MUSTER_STORE_CACHE_BYTES", "2000000");
  EXPECT_EQ(DiskCacheOptions::from_environment()->most_bytes, 2'000'000U);
  environment.set("MUSTER_STORE_CACHE_BYTES", "much");
  EXPECT_THAT(testing::message_of([] { DiskCache().is_on(); }),
              HasSubstr("MUSTER_STORE_CACHE_BYTES must be a number"));
}

class CachedS3 : public DiskCacheTest {
 protected:
  void SetUp() override {
    environment_.set("AWS_ACCESS_KEY_ID", "id");
    environment_.set("AWS_SECRET_ACCESS_KEY", "the-secret");
  }

  // As another process would have it.
  std::shared_ptr<ObjectStore> make_store() const {
    S3Settings settings;
    settings.endpoint = s3_.url();
    settings.retry = kQuickRetries;
    settings.part_bytes = 5 * kMiB;
    const auto transfers = std::make_shared<Transfers>();
    return make_object_file_system(
        "s3", [=] { return make_s3_api(settings, transfers); }, transfers, std::nullopt, make());
  }

  std::string read() const {
    const auto store = make_store();
    const auto file = store->open("s3://bucket/x");
    std::string bytes(file->size(), '\0');
    EXPECT_EQ(file->read(bytes), bytes.size());
    return bytes;
  }

  Environment environment_;
  testing::FakeS3 s3_;
};

TEST_F(CachedS3, IsReadOnceByAllProcesses) {
  const std::string bytes = random_bytes(12 * kMiB);
  s3_.set_bytes("bucket/x", bytes);
  EXPECT_EQ(read(), bytes);
  EXPECT_EQ(s3_.calls("GET"), 3);
  EXPECT_EQ(read(), bytes);
  const auto store = make_store();
  EXPECT_EQ(store->map("s3://bucket/x", Access::kRandom)->bytes(), bytes);
  EXPECT_EQ(s3_.calls("GET"), 3);
}

TEST_F(CachedS3, IsReadAnewWhenItIsReplaced) {
  s3_.set_bytes("bucket/x", random_bytes(6 * kMiB, 1));
  read();
  s3_.set_bytes("bucket/x", random_bytes(6 * kMiB, 2));
  EXPECT_EQ(read(), random_bytes(6 * kMiB, 2));
  s3_.set_bytes("bucket/x", "");
  EXPECT_EQ(read(), "");
}

TEST_F(CachedS3, IsNotMixedWhenItIsReplacedBetweenTheLookAndTheRead) {
  s3_.set_bytes("bucket/x", random_bytes(6 * kMiB, 1));
  std::atomic<bool> done{false};
  s3_.set_fault([&](const testing::HttpCall& call) -> std::optional<testing::CannedResponse> {
    if (call.method == "GET" && !done.exchange(true)) {
      s3_.set_bytes("bucket/x", random_bytes(7 * kMiB, 2));
    }
    return std::nullopt;
  });
  EXPECT_EQ(read(), random_bytes(7 * kMiB, 2));
}

TEST_F(DiskCacheTest, AFileOfHdfsThatHasGrownIsReadAnew) {
  testing::FakeWebHdfs hdfs;
  hdfs.set_bytes("x", "begin");
  const auto store = make_hdfs_file_system(
      [&] { return HdfsSettings{.endpoints = {hdfs.url()}, .retry = kQuickRetries}; },
      std::make_shared<Transfers>(), std::nullopt, make());
  const auto read = [&] {
    const auto file = store->open("hdfs://h/x");
    std::string bytes(file->size(), '\0');
    file->read(bytes);
    return bytes;
  };
  EXPECT_EQ(read(), "begin");
  EXPECT_EQ(read(), "begin");
  EXPECT_EQ(files().size(), 1U);
  const auto file = store->append("hdfs://h/x");
  file->write(" and end");
  file->close();
  EXPECT_EQ(read(), "begin and end");
}

}  // namespace
}  // namespace muster::stores
