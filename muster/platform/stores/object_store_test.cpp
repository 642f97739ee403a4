#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "muster/base/error.h"
#include "muster/base/folder_claim.h"
#include "muster/base/object_store.h"
#include "muster/platform/stores/gcs_api.h"
#include "muster/platform/stores/object_claim.h"
#include "muster/platform/stores/object_file_system.h"
#include "muster/platform/stores/s3_api.h"
#include "muster/platform/stores/test_environment_internal.h"
#include "muster/testing/fake_gcs.h"
#include "muster/testing/fake_s3.h"
#include "muster/testing/message_of.h"

namespace muster::stores {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;

constexpr std::uint64_t kPartBytes = 5 * kMiB;

/// Tests for every object store, whatever its API; the parameter is the scheme of its paths.
class ObjectStores : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const auto transfers = std::make_shared<Transfers>();
    std::function<std::shared_ptr<ObjectApi>()> make_api;
    if (scheme_ == "s3") {
      environment_.set("AWS_ACCESS_KEY_ID", "id");
      environment_.set("AWS_SECRET_ACCESS_KEY", "the-secret");
      fake_ = std::make_unique<testing::FakeS3>();
      S3Settings settings;
      settings.endpoint = fake_->url();
      settings.retry = kQuickRetries;
      settings.part_bytes = kPartBytes;
      make_api = [=] { return make_s3_api(settings, transfers); };
    } else {
      fake_ = std::make_unique<testing::FakeGcs>();
      GcsSettings settings;
      settings.endpoint = fake_->url();
      settings.needs_no_credentials = true;
      settings.retry = kQuickRetries;
      settings.part_bytes = kPartBytes;
      make_api = [=] { return make_gcs_api(settings, transfers); };
    }
    store_ = make_object_file_system(scheme_, make_api, transfers,
                                     ClaimOptions{.lease = std::chrono::milliseconds(200)});
    // So that the functions of base find it.
    register_file_system(scheme_, store_);
  }

  /// Path of "bucket/key".
  Path at(const std::string& name) const { return Path(scheme_ + "://" + name); }

  const std::string scheme_ = GetParam();
  Environment environment_;
  std::unique_ptr<testing::FakeStore> fake_;
  std::shared_ptr<ObjectStore> store_;
};

INSTANTIATE_TEST_SUITE_P(, ObjectStores, ::testing::Values("s3", "gs"),
                         [](const auto& scheme) { return std::string(scheme.param); });

TEST_P(ObjectStores, WriteAndReadFiles) {
  const Path path = at("bucket/a b/ü+%.bin");
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{1}, std::size_t{1000}, 5 * kMiB, 5 * kMiB + 1, 23 * kMiB}) {
    const std::string bytes = random_bytes(size);
    const auto file = store_->create(path);
    file->write(std::string_view(bytes).substr(0, size / 3));
    file->write(std::string_view(bytes).substr(size / 3));
    file->close();
    EXPECT_EQ(fake_->bytes_of("bucket/a b/ü+%.bin"), bytes) << size;
    EXPECT_EQ(read_file(path), bytes) << size;
    EXPECT_EQ(store_->map(path)->bytes(), bytes) << size;
    EXPECT_EQ(store_->status(path)->size_bytes, size);
  }
  EXPECT_EQ(fake_->open_uploads(), 0U);
}

TEST_P(ObjectStores, ShowNothingBeforeAFileIsClosed) {
  {
    const auto file = store_->create(at("bucket/large"));
    file->write(random_bytes(12 * kMiB));
    EXPECT_FALSE(store_->status(at("bucket/large")));
    EXPECT_EQ(fake_->open_uploads(), 1U);
  }
  EXPECT_FALSE(store_->status(at("bucket/large")));
  EXPECT_EQ(fake_->open_uploads(), 0U) << "what was not closed is aborted";
}

TEST_P(ObjectStores, HaveFolders) {
  const Path run = at("bucket/run");
  EXPECT_FALSE(store_->status(run));
  EXPECT_THROW(store_->list(run), NotFound);
  store_->create_directories(run);
  EXPECT_TRUE(store_->status(run)->is_directory);
  EXPECT_THAT(store_->list(run), ElementsAre());
  fake_->set_page_keys(2);
  for (const char* name : {"a", "b", "c", "inner/x", "inner/y", "run-2/x"}) {
    write_file_atomically(run / name, name);
  }
  write_file_atomically(at("bucket/run-2/x"), "x");
  EXPECT_THAT(store_->list(run), ElementsAre("a", "b", "c", "inner", "run-2"));
  EXPECT_THAT(store_->list(at("bucket/run/")), ElementsAre("a", "b", "c", "inner", "run-2"));
  EXPECT_THAT(store_->list(at("bucket")), ElementsAre("run", "run-2"));
  EXPECT_THAT(glob(run / "*/[xy]"), ElementsAre(run / "inner/x", run / "inner/y", run / "run-2/x"));
  EXPECT_THROW(store_->remove(run / "inner"), FailedPrecondition);
  store_->remove(run / "a");
  store_->remove(run / "a");
  store_->remove_all(run);
  EXPECT_FALSE(store_->status(run));
  EXPECT_EQ(fake_->objects().size(), 1U);
}

TEST_P(ObjectStores, RefuseToListWhatCanBeNoName) {
  const std::pair<std::string, std::string> rows[] = {
      {"d/../../../../escaped",
       "\"d/..\" there, of which \"..\" can be no name of a file or folder"},
      {"d/./x", "it has the part '.'"},
      {"d//x", "it is empty"},
      {std::string("d/a\0b", 5), "it has a NUL in it"}};
  for (const auto& [key, said] : rows) {
    if (scheme_ == "gs" && key.find('\0') != std::string::npos) continue;  // It allows none such.
    fake_->set_bytes("bucket/" + key, "x");
    EXPECT_THAT(message_of([&] { store_->list(at("bucket/d")); }), HasSubstr(said)) << key;
    EXPECT_THAT(message_of([&] { glob(at("bucket/d/*")); }), HasSubstr(said)) << key;
    store_->remove_all(at("bucket/d"));
    EXPECT_TRUE(fake_->objects().empty()) << "and it can be removed: " << key;
  }
  fake_->set_bytes("bucket/d/..a", "x");
  EXPECT_THAT(store_->list(at("bucket/d")), ElementsAre("..a"));
}

TEST_P(ObjectStores, RefuseToWriteWhatCanBeNoName) {
  for (const char* name : {"bucket/d/../x", "bucket/d//x", "bucket/./x"}) {
    EXPECT_THROW(store_->create(at(name)), InvalidArgument) << name;
    EXPECT_THROW(store_->create_new(at(name)), InvalidArgument) << name;
    EXPECT_THROW(store_->create_growing(at(name)), InvalidArgument) << name;
    EXPECT_THROW(store_->append(at(name)), InvalidArgument) << name;
    EXPECT_THROW(store_->create_directories(at(name)), InvalidArgument) << name;
    EXPECT_THROW(store_->claim(at(name)), InvalidArgument) << name;
  }
  EXPECT_TRUE(fake_->objects().empty());
}

TEST_P(ObjectStores, EndAListThatHasNoEnd) {
  for (const bool is_empty : {true, false}) {
    fake_->set_fault([&](const testing::HttpCall& call) {
      if (call.path.find("/o/") != std::string::npos) return testing::CannedResponse{.status = 404};
      const std::string item =
          scheme_ == "s3" ? "<Contents><Key>d/x</Key><Size>1</Size></Contents>"
                          : R"("items": [{"name": "d/x", "size": "1", "generation": "1"}], )";
      const std::string entry = is_empty ? "" : item;
      return testing::CannedResponse{
          .body = scheme_ == "s3"
                      ? "<ListBucketResult>" + entry +
                            "<IsTruncated>true</IsTruncated><NextContinuationToken>again</"
                            "NextContinuationToken></ListBucketResult>"
                      : "{" + entry + R"("nextPageToken": "again"})"};
    });
    const auto said = AllOf(HasSubstr("listing " + at("bucket/d").string()),
                            HasSubstr("the store's list does not end"));
    EXPECT_THAT(message_of([&] { store_->list(at("bucket/d")); }), said);
    EXPECT_THAT(message_of([&] { store_->remove_all(at("bucket/d")); }), said);
  }
}

TEST_P(ObjectStores, SayThatABucketIsMissing) {
  fake_->set_fault([](const testing::HttpCall& call) {
    const bool has_body = call.method != "HEAD";
    return testing::CannedResponse{
        .status = 404, .body = has_body ? "<Error><Code>NoSuchBucket</Code></Error>" : ""};
  });
  const auto said = HasSubstr("there is no bucket " + at("nowhere").string());
  EXPECT_THAT(message_of([&] { store_->status(at("nowhere")); }), said);
  EXPECT_THAT(message_of([&] { store_->status(at("nowhere/x")); }), said);
  EXPECT_THAT(message_of([&] { store_->list(at("nowhere/x")); }), said);
  EXPECT_THAT(message_of([&] { store_->create_directories(at("nowhere/x")); }), said);
  EXPECT_THAT(message_of([&] { store_->create(at("nowhere/x"))->close(); }), said);
  EXPECT_THAT(message_of([&] { glob(at("nowhere/*.csv")); }), said);
}

TEST_P(ObjectStores, RenameFilesAndNoFolders) {
  write_file_atomically(at("bucket/a/x"), "x");
  store_->rename(at("bucket/a/x"), at("bucket/b/y"));
  EXPECT_EQ(read_file(at("bucket/b/y")), "x");
  EXPECT_FALSE(file_exists(at("bucket/a/x")));
  EXPECT_THAT(message_of([&] { store_->rename(at("bucket/b"), at("bucket/c")); }),
              HasSubstr("a folder of an object store cannot be renamed"));
}

TEST_P(ObjectStores, AppendWithoutLosingWhatOthersAppend) {
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([this, i] {
      for (int j = 0; j < 5; ++j) {
        const auto file = store_->append(at("bucket/metrics.jsonl"));
        file->write(fmt::format("{} {}\n", i, j));
        file->close();
      }
    });
  }
  threads.clear();
  const std::string lines = read_file(at("bucket/metrics.jsonl"));
  for (int i = 0; i < 4; ++i) {
    for (int j = 0; j < 5; ++j) EXPECT_THAT(lines, HasSubstr(fmt::format("{} {}\n", i, j)));
  }
  EXPECT_EQ(lines.size(), 20U * 4);
}

TEST_P(ObjectStores, LetOneOfTwoCreateAFile) {
  for (const std::size_t size : {std::size_t{10}, 6 * kMiB}) {
    const Path path = at(fmt::format("bucket/{}", size));
    const auto first = store_->create_new(path);
    const auto second = store_->create_new(path);
    const std::string bytes = random_bytes(size, 1);
    first->write(bytes);
    second->write(random_bytes(size + kMiB, 2));
    first->close();
    EXPECT_THROW(second->close(), AlreadyExists);
    EXPECT_EQ(read_file(path), bytes);
  }
}

TEST_P(ObjectStores, DoNotMixAFileThatIsReplacedWhileItIsRead) {
  fake_->set_bytes("bucket/x", random_bytes(12 * kMiB, 1));
  const auto file = store_->open(at("bucket/x"));
  fake_->set_bytes("bucket/x", random_bytes(12 * kMiB, 2));
  std::string all(12 * kMiB, '\0');
  EXPECT_THAT(message_of([&] { file->read(all); }), HasSubstr("it was replaced while it was read"));
}

TEST_P(ObjectStores, LoseNothingWhenATenthOfAllCallsFails) {
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    fake_->fail_randomly(10, seed);
    const Path folder = at(fmt::format("bucket/run-{}", seed));
    {
      const FolderClaim claim(folder);
      const std::string large = random_bytes(11 * kMiB, seed);
      const auto file = store_->create(folder / "large");
      file->write(large);
      file->close();
      EXPECT_EQ(read_file(folder / "large"), large);
      for (int i = 0; i < 5; ++i) {
        write_file_atomically(folder / "state", std::to_string(i));
        EXPECT_EQ(read_file(folder / "state"), std::to_string(i));
        const auto log = store_->append(folder / "log");
        log->write("line\n");
        log->close();
      }
      store_->rename(folder / "large", folder / "larger");
      EXPECT_THAT(store_->list(folder),
                  ElementsAre(ObjectClaim::kObjectName, "larger", "log", "state"));
    }
    EXPECT_EQ(fake_->orphans(), 0U) << "seed " << seed;
  }
}

}  // namespace
}  // namespace muster::stores
