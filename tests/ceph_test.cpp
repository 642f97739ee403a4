// S3 as a real Ceph speaks it: run by `scripts/ceph`, which names its gateway in MUSTER_RGW.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/folder_claim.h"
#include "muster/base/object_store.h"
#include "muster/platform/api.h"
#include "muster/platform/stores/http_client.h"
#include "muster/platform/stores/object_file_system.h"
#include "muster/platform/stores/s3_api.h"
#include "muster/platform/stores/s3_credentials.h"
#include "muster/platform/stores/s3_signature.h"
#include "muster/testing/message_of.h"
#include "muster/testing/process.h"
#include "muster/testing/temp_dir.h"
#include "muster/testing/words.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::message_of;
using ::testing::Not;
using testing::Outcome;
using testing::TempDir;
using testing::Words;
using testing::operator+;

constexpr const char* kKey = "muster";

// Every test has a bucket of its own.
std::string bucket_of_test() {
  std::string name = ::testing::UnitTest::GetInstance()->current_test_info()->name();
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
  return fmt::format("{}-{}", name, ::getpid());
}

void make_bucket(const std::string& endpoint, const std::string& bucket) {
  const stores::UrlParts url = stores::parse_url(endpoint);
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  stores::HttpClient http;
  const auto headers = stores::sign_v4(
      {.method = "PUT", .host = url.host, .path = "/" + bucket, .payload_hash = "UNSIGNED-PAYLOAD"},
      {.access_key_id = kKey, .secret_access_key = kKey}, "us-east-1",
      std::chrono::duration_cast<std::chrono::seconds>(now).count());
  const auto response =
      http.send_once({.method = "PUT", .url = endpoint + "/" + bucket, .headers = headers});
  ASSERT_TRUE(response.is_success()) << response.status << response.body;
}

class Ceph : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* const endpoint = std::getenv("MUSTER_RGW");
    if (endpoint == nullptr) GTEST_SKIP() << "scripts/ceph starts a Ceph and has it";
    ::setenv("AWS_ENDPOINT_URL", endpoint, 1);
    ::setenv("AWS_ACCESS_KEY_ID", kKey, 1);
    ::setenv("AWS_SECRET_ACCESS_KEY", kKey, 1);
    make_bucket(endpoint, bucket_);
    register_file_system("s3", make_store());
  }

  static std::shared_ptr<ObjectStore> make_store() {
    const auto transfers = std::make_shared<stores::Transfers>();
    return stores::make_object_file_system(
        "s3",
        [=] { return stores::make_s3_api(stores::S3Settings::from_environment(), transfers); },
        transfers, stores::ClaimOptions{.lease = std::chrono::seconds(6)});
  }

  static Outcome run(const Path& program, const Words& arguments) {
    Outcome outcome = testing::run_program(program, arguments);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return outcome;
  }

  // The hash of census, trained with its data and its job folder below `root`.
  static std::string train(const Path& root, const std::string& steps) {
    const Outcome outcome = run(
        CENSUS_PROGRAM, {"--train-files", root / "data/adult.data.csv", "--eval-files",
                         root / "data/adult.test.csv", "--job-dir", root / "job", "--train-steps",
                         steps, "--save-checkpoints-steps", "5", "--eval-batch-size", "200",
                         "--threads-per-replica", "1", "--seed", "3"});
    EXPECT_THAT(outcome.err, Not(HasSubstr("incomplete")));
    EXPECT_THAT(outcome.err, Not(HasSubstr("ignores If-None-Match")));
    return run(MUSTER_PROGRAM, {"checkpoint", "hash", root / "job"}).out.substr(0, 64);
  }

  const std::string bucket_ = bucket_of_test();
  const Path root_ = "s3://" + bucket_;
  TempDir folder_;
};

TEST_F(Ceph, GrowsFilesAndLosesNothing) {
  ObjectStore& store = *object_store_for(root_);
  const auto log = store.create_growing(root_ / "events");
  std::string all;
  for (char letter = 'a'; letter < 'f'; ++letter) {
    const std::string piece((3 << 20) + 1, letter);
    log->write(piece);
    log->sync();
    all += piece;
    EXPECT_EQ(read_file(root_ / "events"), all);
  }
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      for (int j = 0; j < 5; ++j) {
        const auto file = store.append(root_ / "metrics.jsonl");
        file->write(fmt::format("{} {}\n", i, j));
        file->close();
      }
    });
  }
  threads.clear();
  EXPECT_EQ(read_file(root_ / "metrics.jsonl").size(), 20U * 4);
}

TEST_F(Ceph, LetsOneOfTwoCreateAFile) {
  ObjectStore& store = *object_store_for(root_);
  for (const std::size_t size : {std::size_t{10}, std::size_t{12} << 20}) {
    const Path path = root_ / std::to_string(size);
    const auto first = store.create_new(path);
    const auto second = store.create_new(path);
    first->write(std::string(size, '1'));
    second->write(std::string(size, '2'));
    first->close();
    EXPECT_THROW(second->close(), AlreadyExists);
    EXPECT_EQ(read_file(path), std::string(size, '1'));
  }
}

TEST_F(Ceph, LetsOneProcessWriteToAFolder) {
  ::testing::internal::CaptureStderr();
  const FolderClaim mine(root_ / "run");
  const auto other = make_store();
  EXPECT_THAT(message_of([&] { other->claim(root_ / "run"); }), HasSubstr("wait for its end"));
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), Not(HasSubstr("ignores")));
}

TEST_F(Ceph, TrainsAndResumesToTheHashOfADisk) {
  run(MUSTER_PROGRAM, {"records", "synth", "census", "--output", folder_ / "data", "--train",
                       "1000", "--test", "200"});
  run(MUSTER_PROGRAM, {"fs", "cp", "-r", folder_ / "data", root_ / "data"});
  EXPECT_EQ(train(root_, "20"), train(folder_.path(), "20"));
  EXPECT_EQ(train(root_, "40"), train(folder_.path(), "40"));
  const auto metrics = glob(root_ / "job/**/metrics.jsonl");
  ASSERT_EQ(metrics.size(), 1U);
  EXPECT_THAT(read_file(metrics.front()),
              AllOf(HasSubstr("\"global_step\":20"), HasSubstr("\"global_step\":40")));
}

TEST_F(Ceph, CopiesFoldersButNoKeyThatLeadsOut) {
  std::filesystem::create_directories(folder_ / "tree/inner");
  testing::write_bytes(folder_ / "tree/a \x01\n+%ü", "aaa");
  testing::write_bytes(folder_ / "tree/inner/b", std::string(12 << 20, 'b'));
  run(MUSTER_PROGRAM, {"fs", "cp", "-r", folder_ / "tree", root_ / "tree"});
  EXPECT_EQ(run(MUSTER_PROGRAM, {"fs", "ls", root_ / "tree"}).out, "a \\x01\\x0a+%ü\ninner\n");
  run(MUSTER_PROGRAM, {"fs", "cp", "-r", root_ / "tree", folder_ / "back"});
  EXPECT_EQ(testing::read_bytes(folder_ / "back/a \x01\n+%ü"), "aaa");
  EXPECT_EQ(testing::read_bytes(folder_ / "back/inner/b"), std::string(12 << 20, 'b'));
  const auto api = stores::make_s3_api(stores::S3Settings::from_environment(),
                                       std::make_shared<stores::Transfers>());
  api->put({bucket_, "tree/../../../escaped"}, "attack", {});
  const Outcome outcome = testing::run_program(
      MUSTER_PROGRAM, {"fs", "cp", "-r", root_ / "tree", folder_ / "x/y/z/target"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, HasSubstr("can be no name of a file or folder"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "x"));
  run(MUSTER_PROGRAM, {"fs", "rm", "-r", root_ / "tree"});
  EXPECT_EQ(run(MUSTER_PROGRAM, {"fs", "ls", root_}).out, "");
}

TEST_F(Ceph, SaysThatABucketIsMissing) {
  const Outcome outcome = testing::run_program(MUSTER_PROGRAM, {"fs", "ls", "s3://none-of-ours/x"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, HasSubstr("there is no bucket s3://none-of-ours"));
}

}  // namespace
}  // namespace muster
