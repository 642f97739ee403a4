#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "muster/base/error.h"
#include "muster/base/folder_claim.h"
#include "muster/platform/stores/hdfs_api.h"
#include "muster/platform/stores/hdfs_claim_objects.h"
#include "muster/platform/stores/hdfs_file_system.h"
#include "muster/platform/stores/test_environment_internal.h"
#include "muster/testing/eventually.h"
#include "muster/testing/fake_webhdfs.h"
#include "muster/testing/message_of.h"
#include "muster/testing/temp_dir.h"
#include "muster/testing/webhdfs_emulator.h"

namespace muster::stores {
namespace {

using ::testing::AllOf;
using testing::CannedResponse;
using ::testing::ElementsAre;
using testing::FakeWebHdfs;
using ::testing::HasSubstr;
using testing::HttpCall;
using testing::message_of;
using testing::TempDir;

HdfsSettings quick_hdfs(const std::vector<std::string>& endpoints) {
  HdfsSettings settings;
  settings.endpoints = endpoints;
  settings.user = "ada";
  settings.retry = kQuickRetries;
  settings.part_bytes = 2 * kMiB;
  return settings;
}

std::shared_ptr<SharedFileSystem> hdfs_of(const HdfsSettings& settings) {
  auto store = make_hdfs_file_system([settings] { return settings; }, std::make_shared<Transfers>(),
                                     ClaimOptions{.lease = std::chrono::milliseconds(200)});
  // So that the functions of base find it.
  register_file_system("hdfs", store);
  return store;
}

/// Tests that hold for our fake server and for an emulator that others wrote.
class AnyHdfs : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    std::string url;
    if (GetParam() == std::string("fake")) {
      fake_ = std::make_unique<FakeWebHdfs>();
      url = fake_->url();
    } else {
      emulator_ = testing::WebHdfsEmulator::start();
      if (emulator_ == nullptr) {
        GTEST_SKIP() << "MUSTER_WEBHDFS_EMULATOR names no webhdfs_emulator.py, and there is none "
                        "beside MUSTER_DATA_DIR";
      }
      url = emulator_->url();
    }
    store_ = hdfs_of(quick_hdfs({url}));
  }

  std::unique_ptr<FakeWebHdfs> fake_;
  std::unique_ptr<testing::WebHdfsEmulator> emulator_;
  std::shared_ptr<SharedFileSystem> store_;
};

INSTANTIATE_TEST_SUITE_P(, AnyHdfs, ::testing::Values("fake", "emulator"),
                         [](const auto& server) { return std::string(server.param); });

TEST_P(AnyHdfs, WritesAndReadsFiles) {
  const Path path = "hdfs://namenode:8020/a b/ü+%.bin";
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{1}, 2 * kMiB, 2 * kMiB + 1, 9 * kMiB}) {
    const std::string bytes = random_bytes(size);
    const auto file = store_->create(path);
    file->write(std::string_view(bytes).substr(0, size / 3));
    file->write(std::string_view(bytes).substr(size / 3));
    file->close();
    EXPECT_EQ(read_file(path), bytes) << size;
    EXPECT_EQ(store_->map(path)->bytes(), bytes) << size;
    EXPECT_EQ(store_->status(path)->size_bytes, size);
  }
}

TEST_P(AnyHdfs, HasFoldersAndRenamesThem) {
  const Path run = "hdfs://namenode/run";
  EXPECT_FALSE(store_->status(run));
  EXPECT_THROW(store_->list(run), NotFound);
  store_->create_directories(run / "inner");
  EXPECT_TRUE(store_->status(run)->is_directory);
  for (const char* name : {"b", "a", "inner/x"}) write_file_atomically(run / name, name);
  EXPECT_THAT(store_->list(run), ElementsAre("a", "b", "inner"));
  EXPECT_THAT(glob(run / "*/x"), ElementsAre(run / "inner/x"));
  EXPECT_THROW(store_->list(run / "a"), FailedPrecondition);
  EXPECT_THROW(store_->remove(run / "inner"), FailedPrecondition);
  publish_directory(run / "inner", run / "1");
  EXPECT_EQ(read_file(run / "1/x"), "inner/x");
  store_->create_directories(run / "again");
  EXPECT_THROW(publish_directory(run / "again", run / "1"), AlreadyExists);
  EXPECT_THROW(store_->rename(run / "again", run / "1"), AlreadyExists);
  store_->remove(run / "a");
  store_->remove(run / "a");
  store_->remove_all(run);
  EXPECT_FALSE(store_->status(run));
}

TEST_P(AnyHdfs, ReplacesAFileAndAppendsToOne) {
  const Path path = "hdfs://namenode/dir/state";
  store_->create_directories("hdfs://namenode/dir");
  for (const char* text : {"one", "two"}) {
    write_file_atomically(path, text);
    EXPECT_EQ(read_file(path), text);
  }
  EXPECT_THAT(store_->list("hdfs://namenode/dir"), ElementsAre("state"));
  for (int i = 0; i < 3; ++i) {
    const auto file = store_->append("hdfs://namenode/dir/log");
    file->write("line\n");
    file->close();
  }
  EXPECT_EQ(read_file("hdfs://namenode/dir/log"), "line\nline\nline\n");
}

TEST_P(AnyHdfs, ShowsAGrowingFileAsFarAsItWasSynced) {
  const Path path = "hdfs://namenode/events";
  const auto file = store_->create_growing(path);
  file->write("one");
  file->sync();
  EXPECT_EQ(read_file(path), "one");
  file->write("two");
  EXPECT_EQ(read_file(path), "one");
  file->close();
  EXPECT_EQ(read_file(path), "onetwo");
}

TEST_P(AnyHdfs, LetsOneOfTwoClaimAFolder) {
  const Path folder = "hdfs://namenode/job";
  {
    const FolderClaim first(folder);
    EXPECT_THAT(message_of([&] { FolderClaim second(folder); }),
                AllOf(HasSubstr("process "), HasSubstr(" writes to hdfs://namenode/job")));
    EXPECT_THAT(store_->list(folder), ElementsAre(ObjectClaim::kObjectName));
  }
  EXPECT_THAT(store_->list(folder), ElementsAre());
  EXPECT_NO_THROW(FolderClaim{folder});
}

class HdfsStore : public ::testing::Test {
 protected:
  void SetUp() override { store_ = hdfs_of(quick_hdfs({hdfs_.url()})); }

  FakeWebHdfs hdfs_;
  std::shared_ptr<SharedFileSystem> store_;
};

TEST_F(HdfsStore, TakesOverAClaimThatIsNotRenewed) {
  hdfs_.set_bytes("job/" + std::string(ObjectClaim::kObjectName), R"({"pid": 1, "host": "gone"})");
  const FolderClaim claim("hdfs://namenode/job");
  EXPECT_THAT(store_->list("hdfs://namenode/job"), ElementsAre(ObjectClaim::kObjectName));
  EXPECT_THAT(read_file(Path("hdfs://namenode/job") / ObjectClaim::kObjectName),
              Not(HasSubstr("gone")));
}

TEST_F(HdfsStore, LetsOneOfManyTakeOverAClaim) {
  hdfs_.set_bytes("job/.muster-writer", "of a process that is gone");
  constexpr int kProcesses = 4;
  std::atomic<int> won{0};
  std::atomic<int> lost{0};
  std::vector<std::jthread> threads;
  for (int i = 0; i < kProcesses; ++i) {
    threads.emplace_back([&] {
      const auto objects = std::make_shared<HdfsClaimObjects>(std::make_shared<HdfsApi>(
          quick_hdfs({hdfs_.url()}), std::vector{hdfs_.url()}, "hdfs://namenode"));
      try {
        const ObjectClaim claim(objects, {.key = "/job/.muster-writer"}, "hdfs://namenode/job",
                                {.lease = std::chrono::milliseconds(100)});
        ++won;
        // Until all others have seen that it is taken.
        EXPECT_TRUE(testing::eventually([&] { return lost == kProcesses - 1; }));
      } catch (const FailedPrecondition&) {
        ++lost;
      }
    });
  }
  threads.clear();
  EXPECT_EQ(won, 1);
}

TEST_F(HdfsStore, RefusesToWriteToAFolderThatWasTakenOver) {
  const Path folder = "hdfs://namenode/job";
  const FolderClaim claim(folder);
  write_file_atomically(folder / "before", "x");
  hdfs_.set_bytes("job/.muster-writer", "of another");
  EXPECT_TRUE(testing::eventually([&] {
    try {
      write_file_atomically(folder / "after", "x");
    } catch (const FailedPrecondition& error) {
      EXPECT_THAT(error.what(), HasSubstr("another process has taken over hdfs://namenode/job"));
      return true;
    }
    return false;
  }));
}

TEST_F(HdfsStore, LosesNothingWhenATenthOfAllCallsFails) {
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    hdfs_.fail_randomly(10, seed);
    const Path folder = "hdfs://namenode/run-" + std::to_string(seed);
    {
      const FolderClaim claim(folder);
      const std::string large = random_bytes(5 * kMiB, seed);
      write_file_atomically(folder / "large", large);
      EXPECT_EQ(read_file(folder / "large"), large);
      std::string lines;
      for (int i = 0; i < 5; ++i) {
        write_file_atomically(folder / "state", std::to_string(i));
        EXPECT_EQ(read_file(folder / "state"), std::to_string(i));
        const std::string line = fmt::format("line {}\n", i);
        const auto log = store_->append(folder / "log");
        log->write(line);
        log->close();
        lines += line;
      }
      EXPECT_EQ(read_file(folder / "log"), lines);
      store_->rename(folder / "large", folder / "larger");
      EXPECT_THAT(store_->list(folder),
                  ElementsAre(ObjectClaim::kObjectName, "larger", "log", "state"));
    }
    EXPECT_EQ(hdfs_.open_uploads(), 0U) << "seed " << seed;
  }
}

TEST_F(HdfsStore, SendsTheRestOfAnAppendThatWasCut) {
  const auto file = store_->create_growing("hdfs://namenode/events");
  file->write("begin ");
  file->sync();
  hdfs_.cut_appends(2);
  file->write("0123456789");
  file->close();
  EXPECT_EQ(hdfs_.bytes_of("events"), "begin 0123456789");
}

TEST_F(HdfsStore, DoesNotMixAFileThatIsReplacedWhileItIsRead) {
  hdfs_.set_bytes("x", random_bytes(6 * kMiB, 1));
  const auto file = store_->open("hdfs://namenode/x");
  hdfs_.set_bytes("x", random_bytes(6 * kMiB, 2));
  std::string all(6 * kMiB, '\0');
  EXPECT_THAT(message_of([&] { file->read(all); }), HasSubstr("it was replaced while it was read"));
}

TEST_F(HdfsStore, ReplacesFilesInTwoStepsWhereAGatewayKnowsNoOptions) {
  hdfs_.ignore_rename_options();
  const Path path = "hdfs://namenode/dir/state";
  store_->create_directories("hdfs://namenode/dir");
  for (const char* text : {"one", "two"}) write_file_atomically(path, text);
  EXPECT_EQ(read_file(path), "two");
  EXPECT_THROW(store_->rename("hdfs://namenode/none", path), NotFound);
  EXPECT_EQ(read_file(path), "two");
}

TEST_F(HdfsStore, TurnsToTheActiveNamenode) {
  std::atomic<int> asked{0};
  const testing::HttpTestServer standby([&](const HttpCall&) {
    ++asked;
    return CannedResponse{
        .status = 403,
        .body = R"({"RemoteException": {"exception": "StandbyException", "message": "no"}})"};
  });
  hdfs_.set_bytes("x", "bytes");
  store_ = hdfs_of(quick_hdfs({standby.url(), hdfs_.url()}));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(read_file("hdfs://pair/x"), "bytes");
  EXPECT_EQ(asked, 1) << "it is remembered which one is active";
  store_ = hdfs_of(quick_hdfs({"http://127.0.0.1:1", hdfs_.url()}));
  EXPECT_EQ(read_file("hdfs://pair/x"), "bytes");
}

TEST_F(HdfsStore, SaysWhoAsks) {
  hdfs_.set_bytes("x", "bytes");
  read_file("hdfs://namenode/x");
  EXPECT_THAT(hdfs_.users(), ElementsAre("ada"));
  HdfsSettings settings = quick_hdfs({hdfs_.url()});
  settings.delegation_token = "the-secret";
  hdfs_of(settings);
  read_file("hdfs://namenode/x");
  EXPECT_THAT(hdfs_.users(), ElementsAre("ada", "token the-secret"));
  hdfs_.set_fault([](const HttpCall&) {
    return CannedResponse{.status = 401, .body = R"({"RemoteException": {"exception": "S"}})"};
  });
  EXPECT_THAT(message_of([] { read_file("hdfs://namenode/x"); }),
              AllOf(HasSubstr("which may have expired"), Not(HasSubstr("the-secret"))));
}

TEST_F(HdfsStore, SaysWhatWasRefused) {
  const auto code_of = [&](int status, const std::string& exception) {
    hdfs_.set_fault([=](const HttpCall&) {
      return CannedResponse{.status = status,
                            .body = fmt::format(R"({{"RemoteException": {{"exception": "{}", )"
                                                R"("message": "so it is\n\tat java"}}}})",
                                                exception)};
    });
    try {
      read_file("hdfs://namenode/x");
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("looking at hdfs://namenode/x: "));
      EXPECT_THAT(error.what(), AllOf(HasSubstr("so it is"), Not(HasSubstr("at java"))));
      return error.code();
    }
    return ErrorCode::kOk;
  };
  EXPECT_EQ(code_of(403, "AccessControlException"), ErrorCode::kPermissionDenied);
  EXPECT_EQ(code_of(403, "SafeModeException"), ErrorCode::kUnavailable);
  EXPECT_EQ(code_of(403, "DSQuotaExceededException"), ErrorCode::kResourceExhausted);
  EXPECT_EQ(code_of(400, "IllegalArgumentException"), ErrorCode::kFailedPrecondition);
  EXPECT_EQ(code_of(500, "RuntimeException"), ErrorCode::kUnavailable);
  hdfs_.set_fault([](const HttpCall&) { return CannedResponse{.status = 404, .body = "<html>"}; });
  EXPECT_THAT(message_of([&] { store_->status("hdfs://namenode:8020/x"); }),
              AllOf(HasSubstr("speaks no WebHDFS"), HasSubstr("MUSTER_WEBHDFS")));
}

class HdfsNamenodes : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"MUSTER_WEBHDFS", "HADOOP_CONF_DIR", "HADOOP_HDFS_HOME", "HADOOP_HOME",
                             "MUSTER_HDFS_DELEGATION_TOKEN"}) {
      environment_.set(name, std::nullopt);
    }
  }

  static std::vector<std::string> of(const char* scheme, const std::string& authority) {
    return namenodes_of(HdfsSettings::from_environment(), scheme, authority);
  }

  Environment environment_;
  TempDir folder_;
};

TEST_F(HdfsNamenodes, AreThoseOfThePath) {
  EXPECT_THAT(of("hdfs", "h:8020"), ElementsAre("http://h:9870"));
  EXPECT_THAT(of("hdfs", "h"), ElementsAre("http://h:9870"));
  EXPECT_THAT(of("webhdfs", "h:50070"), ElementsAre("http://h:50070"));
  EXPECT_THAT(of("swebhdfs", "h"), ElementsAre("https://h:9871"));
  EXPECT_THAT(message_of([] { of("hdfs", "default"); }), HasSubstr("MUSTER_WEBHDFS"));
}

TEST_F(HdfsNamenodes, AreThoseOfTheVariable) {
  environment_.set("MUSTER_WEBHDFS", "http://a:9870, http://b:9870/");
  EXPECT_THAT(of("hdfs", "h:8020"), ElementsAre("http://a:9870", "http://b:9870"));
  environment_.set("MUSTER_WEBHDFS", "a:9870");
  EXPECT_THAT(message_of([] { of("hdfs", "h"); }), HasSubstr("MUSTER_WEBHDFS must be URLs"));
}

TEST_F(HdfsNamenodes, AreThoseOfHadoopsFiles) {
  const auto site = [](const std::map<std::string, std::string>& properties) {
    std::string text = "<?xml version=\"1.0\"?>\n<configuration>\n";
    for (const auto& [name, value] : properties) {
      text += fmt::format("<property><name>{}</name><value>{}</value></property>\n", name, value);
    }
    return text + "</configuration>\n";
  };
  std::filesystem::create_directories(folder_ / "etc/hadoop");
  testing::write_bytes(folder_ / "etc/hadoop/core-site.xml",
                       site({{"fs.defaultFS", "hdfs://pair"}}));
  testing::write_bytes(folder_ / "etc/hadoop/hdfs-site.xml",
                       site({{"dfs.ha.namenodes.pair", "nn1,nn2"},
                             {"dfs.namenode.http-address.pair.nn1", "one:9870"},
                             {"dfs.namenode.http-address.pair.nn2", "two:50070"},
                             {"dfs.namenode.http-address", "0.0.0.0:7070"}}));
  environment_.set("HADOOP_HDFS_HOME", folder_.path().string());
  for (const char* authority : {"pair", "default", ""}) {
    EXPECT_THAT(of("hdfs", authority), ElementsAre("http://one:9870", "http://two:50070"));
  }
  EXPECT_THAT(of("hdfs", "h:8020"), ElementsAre("http://h:7070"));
  testing::write_bytes(folder_ / "etc/hadoop/hdfs-site.xml", "no XML");
  EXPECT_THAT(message_of([] { of("hdfs", "pair"); }), HasSubstr("is no configuration of Hadoop"));
}

}  // namespace
}  // namespace muster::stores
