#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "muster/base/error.h"
#include "muster/base/folder_claim.h"
#include "muster/base/object_store.h"
#include "muster/platform/stores/object_file_system.h"
#include "muster/platform/stores/register_stores.h"
#include "muster/platform/stores/s3_api.h"
#include "muster/platform/stores/test_environment_internal.h"
#include "muster/testing/fake_s3.h"
#include "muster/testing/message_of.h"
#include "muster/testing/temp_dir.h"

namespace muster::stores {
namespace {

using ::testing::AllOf;
using testing::CannedResponse;
using testing::FakeS3;
using ::testing::HasSubstr;
using testing::HttpCall;
using testing::message_of;
using ::testing::Not;
using testing::TempDir;

class S3Store : public ::testing::Test {
 protected:
  void SetUp() override {
    environment_.set("AWS_ACCESS_KEY_ID", "id");
    environment_.set("AWS_SECRET_ACCESS_KEY", "the-secret");
    store_ = make_store();
    // So that the functions of base find it.
    register_file_system("s3", store_);
  }

  S3Settings settings() const {
    S3Settings settings;
    settings.endpoint = s3_.url();
    settings.retry = kQuickRetries;
    settings.part_bytes = 5 * kMiB;
    return settings;
  }

  std::shared_ptr<ObjectStore> make_store(
      std::chrono::milliseconds lease = std::chrono::milliseconds(200)) const {
    const auto transfers = std::make_shared<Transfers>();
    return make_object_file_system(
        "s3", [=, given = settings()] { return make_s3_api(given, transfers); }, transfers,
        ClaimOptions{.lease = lease});
  }

  // Answers the n-th call of one kind so.
  void fault_once(const std::string& method, CannedResponse answer) {
    auto done = std::make_shared<std::atomic<bool>>(false);
    s3_.set_fault([=](const HttpCall& call) -> std::optional<CannedResponse> {
      if (call.method != method || done->exchange(true)) return std::nullopt;
      return answer;
    });
  }

  Environment environment_;
  FakeS3 s3_;
  std::shared_ptr<ObjectStore> store_;
};

TEST_F(S3Store, ReadsWithAsManyRequestsAsThereAreRanges) {
  const std::string bytes = random_bytes(22 * kMiB);
  s3_.set_bytes("bucket/large", bytes);
  EXPECT_EQ(read_file("s3://bucket/large"), bytes);
  EXPECT_EQ(s3_.calls("GET"), 5);
  EXPECT_EQ(s3_.calls("HEAD"), 0);
}

TEST_F(S3Store, SeeksInFiles) {
  const std::string bytes = random_bytes(31 * kMiB);
  s3_.set_bytes("bucket/large", bytes);
  const auto file = store_->open("s3://bucket/large");
  for (const std::size_t place :
       {std::size_t{0}, 12 * kMiB, 3 * kMiB, 30 * kMiB, 31 * kMiB - 2, 6 * kMiB, 11 * kMiB}) {
    file->seek(place);
    std::string some(100, '\0');
    some.resize(file->read(some));
    EXPECT_EQ(some, bytes.substr(place, 100)) << place;
  }
}

TEST_F(S3Store, WritesAtomicFilesUnderTheirOwnName) {
  write_file_atomically("s3://bucket/run/checkpoint", "one");
  write_file_atomically("s3://bucket/run/checkpoint", "two");
  { AtomicFile("s3://bucket/run/checkpoint").write("three"); }
  EXPECT_EQ(read_file("s3://bucket/run/checkpoint"), "two");
  EXPECT_EQ(s3_.objects().size(), 1U);
}

TEST_F(S3Store, GrowsFilesWithoutSendingThemAgain) {
  std::string all;
  const auto file = store_->create_growing("s3://bucket/events");
  for (std::uint64_t i = 0; i < 5; ++i) {
    const std::string piece = random_bytes(3 * kMiB, i);
    file->write(piece);
    EXPECT_EQ(s3_.bytes_of("bucket/events").value_or(""), all);
    file->sync();
    all += piece;
    EXPECT_EQ(s3_.bytes_of("bucket/events").value_or(""), all);
  }
  file->write("end");
  file->close();
  EXPECT_EQ(s3_.bytes_of("bucket/events"), all + "end");
  // Two whole ones, then a copy and a part each time.
  EXPECT_EQ(s3_.calls("PUT"), 2 + 4 * 2);
  EXPECT_EQ(s3_.open_uploads(), 0U);
}

// On a connection that was kept, libcurl sends the request again by itself; on a fresh one, we
// do. The object is there by then, and the precondition no longer holds.
TEST_F(S3Store, TakesAnAnswerThatWasLostForWhatItWas) {
  const std::string large = random_bytes(11 * kMiB);
  for (const bool is_kept : {true, false}) {
    for (const std::string& bytes : {std::string("mine"), large}) {
      SCOPED_TRACE(fmt::format("is_kept={} bytes={}", is_kept, bytes.size()));
      const Path path = fmt::format("s3://bucket/{}-{}", is_kept, bytes.size());
      const auto store = make_store();
      if (is_kept) store->status("s3://bucket/x");
      const bool is_small = bytes.size() < kMiB;
      const auto file = store->create_new(path);
      if (!is_small) file->write(bytes);
      s3_.lose_answer_of(is_small ? "PUT" : "POST");
      if (is_small) file->write(bytes);
      file->close();
      EXPECT_EQ(read_file(path), bytes);
      EXPECT_THROW(store->create_new(path)->close(), AlreadyExists);
    }
  }
  EXPECT_EQ(s3_.open_uploads(), 0U);
}

TEST_F(S3Store, AppendsOnceWhenTheAnswerIsLost) {
  const std::string large = random_bytes(6 * kMiB);
  for (const std::string& begin : {std::string("begin"), large}) {
    SCOPED_TRACE(begin.size());
    s3_.set_bytes("bucket/x", begin);
    const auto file = store_->append("s3://bucket/x");
    file->write("one");
    file->sync();
    file->write("two");
    s3_.lose_answer_of(begin.size() < kMiB ? "PUT" : "POST");
    file->close();
    EXPECT_EQ(s3_.bytes_of("bucket/x"), begin + "onetwo");
  }
}

TEST_F(S3Store, ChecksPartsByCrc32cWhereTheStoreKnowsThat) {
  const std::string bytes = random_bytes(11 * kMiB);
  for (const bool knows : {true, false}) {
    SCOPED_TRACE(knows);
    s3_.set_knows_checksums(knows);
    std::atomic<int> crcs{0}, digests{0};
    s3_.set_fault([&](const HttpCall& call) -> std::optional<CannedResponse> {
      if (!call.parameter("partNumber")) return std::nullopt;
      crcs += call.header("x-amz-checksum-crc32c").empty() ? 0 : 1;
      digests += call.header("content-md5").empty() ? 0 : 1;
      return std::nullopt;
    });
    const auto file = store_->create("s3://bucket/x");
    file->write(bytes);
    file->close();
    s3_.set_fault({});
    EXPECT_EQ(s3_.bytes_of("bucket/x"), bytes);
    EXPECT_EQ(crcs, knows ? 3 : 0);
    EXPECT_EQ(digests, knows ? 0 : 3);
  }
}

TEST_F(S3Store, SendsAgainWhatWasDamagedOnItsWay) {
  fault_once("PUT", {.status = 400, .body = "<Error><Code>BadDigest</Code></Error>"});
  write_file_atomically("s3://bucket/x", "whole");
  EXPECT_EQ(s3_.bytes_of("bucket/x"), "whole");
}

TEST_F(S3Store, SignsPayloadsWhereItIsToldOrThatGoToAnotherHostWithoutTls) {
  struct Row {
    std::string host{};
    std::optional<bool> signs{};
    bool is_signed = false;
  };
  // 0.0.0.0 is reached like 127.0.0.1, and is none of the addresses that stay here by definition.
  for (const Row& row : {Row{"0.0.0.0", std::nullopt, true}, Row{"0.0.0.0", false, false},
                         Row{"127.0.0.1", std::nullopt, false}, Row{"127.0.0.1", true, true},
                         Row{"localhost", std::nullopt, false}}) {
    SCOPED_TRACE(row.host);
    S3Settings given = settings();
    given.endpoint = "http://" + row.host + s3_.url().substr(s3_.url().rfind(':'));
    given.signs_payloads = row.signs;
    std::string hash;
    s3_.set_fault([&](const HttpCall& call) -> std::optional<CannedResponse> {
      hash = call.header("x-amz-content-sha256");
      return std::nullopt;
    });
    make_s3_api(given, std::make_shared<Transfers>())->put({"bucket", "x"}, "bytes", {});
    s3_.set_fault({});
    EXPECT_EQ(hash, row.is_signed ? payload_sha256("bytes") : "UNSIGNED-PAYLOAD");
  }
}

TEST_F(S3Store, NoticesBytesThatAreNotTheObjects) {
  s3_.set_bytes("bucket/x", "right");
  const CannedResponse wrong{.status = 206,
                             .headers = {{"ETag", "\"7b9a0c2a5b3b8f8d6c8e0f7b5f1f3d2e\""},
                                         {"Content-Range", "bytes 0-4/5"}},
                             .body = "wrong"};
  fault_once("GET", wrong);
  EXPECT_EQ(read_file("s3://bucket/x"), "right") << "retried";
  s3_.set_fault([&](const HttpCall& call) {
    return call.method == "GET" ? std::optional(wrong) : std::nullopt;
  });
  EXPECT_THROW(read_file("s3://bucket/x"), DataLoss);
}

TEST_F(S3Store, NoticesARangeThatIsNotTheOneAskedFor) {
  s3_.set_bytes("bucket/x", "0123456789");
  for (const char* range : {"bytes 1-10/11", "bytes 0-9/20", "bytes 0-8/10", "", "bytes 9-0/10"}) {
    fault_once("GET", {.status = 206,
                       .headers = {{"ETag", "\"1\""}, {"Content-Range", range}},
                       .body = "0123456789"});
    EXPECT_EQ(read_file("s3://bucket/x"), "0123456789") << range;
  }
}

TEST_F(S3Store, SaysWhatWasRefused) {
  const auto error_of = [&](int status, const std::string& code) {
    s3_.set_fault([=](const HttpCall&) {
      return CannedResponse{
          .status = status,
          .body = fmt::format("<Error><Code>{}</Code><Message>so it is</Message></Error>", code)};
    });
    try {
      read_file("s3://bucket/x");
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), AllOf(HasSubstr("reading s3://bucket/x: "), HasSubstr(code),
                                      Not(HasSubstr("the-secret"))));
      return error.code();
    }
    return ErrorCode::kOk;
  };
  EXPECT_EQ(error_of(404, "NoSuchBucket"), ErrorCode::kNotFound);
  EXPECT_EQ(error_of(403, "AccessDenied"), ErrorCode::kPermissionDenied);
  EXPECT_EQ(error_of(503, "SlowDown"), ErrorCode::kUnavailable);
  EXPECT_EQ(error_of(501, "NotImplemented"), ErrorCode::kUnimplemented);
  EXPECT_EQ(error_of(400, "InvalidRequest"), ErrorCode::kFailedPrecondition);
}

TEST_F(S3Store, GoesByTheStoresClock) {
  s3_.set_bytes("bucket/x", "x");
  std::string stamp;
  s3_.set_fault([&](const HttpCall& call) -> std::optional<CannedResponse> {
    stamp = call.header("x-amz-date");
    if (stamp.starts_with("20200301T")) return std::nullopt;
    return CannedResponse{.status = 403,
                          .headers = {{"Date", "Sun, 01 Mar 2020 10:00:00 GMT"}},
                          .body = "<Error><Code>RequestTimeTooSkewed</Code></Error>"};
  });
  EXPECT_EQ(read_file("s3://bucket/x"), "x");
}

TEST_F(S3Store, GoesToTheRegionOfTheBucket) {
  s3_.set_bytes("bucket/x", "x");
  s3_.set_fault([](const HttpCall& call) -> std::optional<CannedResponse> {
    if (call.header("authorization").find("/eu-west-3/s3/") != std::string::npos) {
      return std::nullopt;
    }
    return CannedResponse{.status = 301, .headers = {{"x-amz-bucket-region", "eu-west-3"}}};
  });
  EXPECT_EQ(read_file("s3://bucket/x"), "x");
}

TEST_F(S3Store, CompletesAnUploadThatFailsBehindAStatusOf200) {
  auto done = std::make_shared<std::atomic<int>>(0);
  s3_.set_fault([=](const HttpCall& call) -> std::optional<CannedResponse> {
    if (call.method != "POST" || call.parameter("uploads") || done->fetch_add(1) > 0) {
      return std::nullopt;
    }
    return CannedResponse{.body = "<Error><Code>InternalError</Code><Message>x</Message></Error>"};
  });
  const std::string bytes = random_bytes(11 * kMiB);
  const auto file = store_->create("s3://bucket/x");
  file->write(bytes);
  file->close();
  EXPECT_EQ(s3_.bytes_of("bucket/x"), bytes);
  EXPECT_EQ(*done, 2);
}

TEST_F(S3Store, AbortsAnUploadOfWhichAPartIsRefused) {
  s3_.set_fault([](const HttpCall& call) -> std::optional<CannedResponse> {
    if (call.parameter("partNumber") != "2") return std::nullopt;
    return CannedResponse{.status = 403, .body = "<Error><Code>AccessDenied</Code></Error>"};
  });
  {
    const auto file = store_->create("s3://bucket/x");
    EXPECT_THROW(
        {
          file->write(random_bytes(16 * kMiB));
          file->close();
        },
        PermissionDenied);
  }
  EXPECT_EQ(s3_.open_uploads(), 0U);
  EXPECT_FALSE(s3_.bytes_of("bucket/x"));
}

TEST_F(S3Store, LetsOneProcessWriteToAFolder) {
  // Renewed every second: a busy machine that holds up a thread for less loses no claim.
  const auto lease = std::chrono::seconds(3);
  register_file_system("s3", make_store(lease));
  const FolderClaim mine("s3://bucket/run");
  const auto other = make_store(lease);
  EXPECT_THAT(message_of([&] { other->claim("s3://bucket/run"); }),
              AllOf(HasSubstr(fmt::format("process {} on ", ::getpid())),
                    HasSubstr("writes to s3://bucket/run; wait for its end")));
}

TEST_F(S3Store, GivesAFolderUpAtTheEnd) {
  { const FolderClaim mine("s3://bucket/run"); }
  const FolderClaim again("s3://bucket/run");
  EXPECT_EQ(s3_.objects().count("bucket/run/.muster-writer"), 1U);
}

TEST_F(S3Store, TakesAFolderOverFromAProcessThatIsNotHeardOf) {
  s3_.set_bytes("bucket/run/.muster-writer",
                R"({"host": "far", "pid": 7, "start": "1", "numbering": "elsewhere"})");
  const auto begin = std::chrono::steady_clock::now();
  const FolderClaim claim("s3://bucket/run");
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(200));
}

TEST_F(S3Store, RefusesToWriteToAFolderThatWasTakenOver) {
  const FolderClaim claim("s3://bucket/run");
  write_file_atomically("s3://bucket/run/state", "mine");
  s3_.set_bytes("bucket/run/.muster-writer", "{}");  // Another one, that took this one for dead.
  std::this_thread::sleep_for(std::chrono::milliseconds(250));
  EXPECT_THAT(message_of([&] { write_file_atomically("s3://bucket/run/state", "still mine"); }),
              HasSubstr("another process has taken over s3://bucket/run"));
  EXPECT_EQ(read_file("s3://bucket/run/state"), "mine");
}

// Ceph refuses If-Match with the ETag as it gave it, and takes it without its quotes.
TEST_F(S3Store, GrowsFilesInCeph) {
  s3_.set_is_ceph(true);
  const auto log = store_->create_growing("s3://bucket/events");
  const auto metrics = store_->append("s3://bucket/metrics.jsonl");
  std::string all, lines;
  for (std::uint64_t i = 0; i < 5; ++i) {
    const std::string piece = random_bytes(3 * kMiB, i);
    log->write(piece);
    log->sync();
    all += piece;
    metrics->write("line\n");
    metrics->sync();
    lines += "line\n";
    EXPECT_EQ(s3_.bytes_of("bucket/events").value_or(""), all);
    EXPECT_EQ(s3_.bytes_of("bucket/metrics.jsonl"), lines);
  }
  EXPECT_EQ(s3_.open_uploads(), 0U);
}

TEST_F(S3Store, AsksOnceHowCephWantsETags) {
  s3_.set_is_ceph(true);
  const auto file = store_->append("s3://bucket/metrics.jsonl");
  for (int i = 0; i < 5; ++i) {
    file->write("line\n");
    file->sync();
  }
  EXPECT_EQ(s3_.calls("PUT"), 5 + 1);
  EXPECT_EQ(s3_.calls("HEAD"), 1);
}

TEST_F(S3Store, BelievesCephWhereTheObjectHasChanged) {
  s3_.set_is_ceph(true);
  const auto api = make_s3_api(settings(), std::make_shared<Transfers>());
  const ObjectName name{"bucket", "x"};
  const std::string first = api->put(name, "first", Precondition::absent());
  EXPECT_THROW(api->put(name, "other", Precondition::absent()), AlreadyExists);
  api->put(name, "second", Precondition::unchanged(first));
  EXPECT_THROW(api->put(name, "third", Precondition::unchanged(first)), Aborted);
  EXPECT_EQ(s3_.bytes_of("bucket/x"), "second");
  api->remove(name);
  EXPECT_THROW(api->put(name, "third", Precondition::unchanged(first)), Aborted);
}

TEST_F(S3Store, LetsOneProcessWriteToAFolderInCeph) {
  s3_.set_is_ceph(true);
  const auto lease = std::chrono::seconds(3);
  register_file_system("s3", make_store(lease));
  ::testing::internal::CaptureStderr();
  const FolderClaim mine("s3://bucket/run");
  const auto other = make_store(lease);
  EXPECT_THAT(message_of([&] { other->claim("s3://bucket/run"); }),
              HasSubstr("writes to s3://bucket/run; wait for its end"));
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), Not(HasSubstr("ignores")));
}

TEST_F(S3Store, RefusesASecondWriterWhereTheStoreIgnoresPreconditions) {
  s3_.set_ignores_preconditions(true);
  const auto lease = std::chrono::seconds(3);
  register_file_system("s3", make_store(lease));
  ::testing::internal::CaptureStderr();
  const FolderClaim mine("s3://bucket/run");
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("the store of s3://bucket/run ignores If-None-Match or If-Match"));
  const auto other = make_store(lease);
  EXPECT_THAT(message_of([&] { other->claim("s3://bucket/run"); }),
              HasSubstr("writes to s3://bucket/run; wait for its end"));
  write_file_atomically("s3://bucket/run/state", "mine");
}

TEST_F(S3Store, FindsTheOtherOfTwoThatClaimAtOnceWherePreconditionsAreIgnored) {
  s3_.set_ignores_preconditions(true);
  std::atomic<int> heads{0};
  // The first look finds nothing; before the second one the other process has written.
  s3_.set_fault([&](const HttpCall& call) -> std::optional<CannedResponse> {
    if (call.method == "HEAD" && ++heads == 2) s3_.set_bytes("bucket/run/.muster-writer", "{}");
    return std::nullopt;
  });
  EXPECT_THAT(message_of([&] { store_->claim("s3://bucket/run"); }),
              HasSubstr("another process has just claimed s3://bucket/run"));
  EXPECT_EQ(s3_.bytes_of("bucket/run/.muster-writer"), "{}") << "it is left to the other";
}

TEST_F(S3Store, GivesAFolderUpThatAnotherTookWherePreconditionsAreIgnored) {
  s3_.set_ignores_preconditions(true);
  const FolderClaim claim("s3://bucket/run");
  s3_.set_bytes("bucket/run/.muster-writer", "{}");
  std::this_thread::sleep_for(std::chrono::milliseconds(250));
  EXPECT_THAT(message_of([&] { write_file_atomically("s3://bucket/run/state", "still mine"); }),
              HasSubstr("another process has taken over s3://bucket/run"));
}

TEST_F(S3Store, RemovesKeysThatXmlCannotHave) {
  s3_.set_bytes("bucket/d/a\x01", "x");
  s3_.set_bytes("bucket/d/b\n", "x");
  s3_.set_bytes("bucket/d/c", "x");
  s3_.set_bytes("bucket/d/d", "x");
  store_->remove_all("s3://bucket/d");
  EXPECT_TRUE(s3_.objects().empty());
  EXPECT_EQ(s3_.calls("DELETE"), 2);
}

TEST_F(S3Store, RemovesUploadsOfAWriterThatWasKilled) {
  const auto killed = make_s3_api(settings(), std::make_shared<Transfers>());
  auto upload = killed->begin_upload({"bucket", "run/model.ckpt-1.data-00000-of-00001"}, {});
  auto deeper = killed->begin_upload({"bucket", "run/eval/events"}, {});
  EXPECT_EQ(s3_.open_uploads(), 2U);
  const FolderClaim claim("s3://bucket/run");
  EXPECT_EQ(s3_.open_uploads(), 1U) << "those of folders below are others'";
}

TEST(S3Settings, AreReadFromTheEnvironmentAndFiles) {
  Environment environment;
  TempDir folder;
  for (const char* name :
       {"AWS_REGION", "AWS_DEFAULT_REGION", "S3_REGION", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL",
        "S3_ENDPOINT", "AWS_PROFILE", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY",
        "MUSTER_S3_ADDRESSING_STYLE", "MUSTER_S3_PAYLOAD_SIGNING", "AWS_WEB_IDENTITY_TOKEN_FILE"}) {
    environment.set(name, std::nullopt);
  }
  testing::write_bytes(folder / "config",
                       "[default]\nregion = eu-central-1\n[profile other]\nregion=us-west-2\n"
                       "endpoint_url = http://store:9000/\ns3 =\n  addressing_style = virtual\n"
                       "  payload_signing_enabled = false\n");
  testing::write_bytes(folder / "credentials",
                       "[default]\naws_access_key_id = one\naws_secret_access_key = 1\n"
                       "[other]\naws_access_key_id = two\naws_secret_access_key = 2\n");
  environment.set("AWS_CONFIG_FILE", (folder / "config").string());
  environment.set("AWS_SHARED_CREDENTIALS_FILE", (folder / "credentials").string());
  EXPECT_EQ(S3Settings::from_environment().region, "eu-central-1");
  environment.set("AWS_PROFILE", "other");
  const S3Settings settings = S3Settings::from_environment();
  EXPECT_EQ(settings.region, "us-west-2");
  EXPECT_EQ(settings.endpoint, "http://store:9000");
  EXPECT_EQ(settings.path_style, false);
  EXPECT_EQ(settings.signs_payloads, false);
  const auto credentials =
      S3CredentialSource(std::make_shared<HttpClient>(), settings.region).current();
  EXPECT_EQ(credentials.access_key_id, "two");
  EXPECT_EQ(credentials.secret_access_key, "2");
  environment.set("AWS_ENDPOINT_URL", "http://other:1");
  EXPECT_EQ(S3Settings::from_environment().endpoint, "http://other:1");
  environment.set("AWS_MAX_ATTEMPTS", "many");
  EXPECT_THAT(message_of([] { S3Settings::from_environment(); }),
              HasSubstr("AWS_MAX_ATTEMPTS must be a number"));
}

TEST(S3Credentials, AreAskedOfAnInstanceAndAContainer) {
  Environment environment;
  TempDir none;
  for (const char* name :
       {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_WEB_IDENTITY_TOKEN_FILE",
        "AWS_EC2_METADATA_DISABLED", "AWS_CONTAINER_CREDENTIALS_FULL_URI",
        "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"}) {
    environment.set(name, std::nullopt);
  }
  environment.set("HOME", none.path().string());
  environment.set("AWS_CONFIG_FILE", (none / "none").string());
  environment.set("AWS_SHARED_CREDENTIALS_FILE", (none / "none").string());
  std::atomic<int> given{0};
  testing::HttpTestServer server([&](const HttpCall& call) -> CannedResponse {
    const std::string credentials = fmt::format(
        R"({{"AccessKeyId": "temporary-{}", "SecretAccessKey": "s", "Token": "t",
            "Expiration": "2020-01-01T00:00:00Z"}})",
        ++given);
    if (call.path == "/container") {
      return {.status = call.header("authorization") == "word" ? 200 : 401, .body = credentials};
    }
    if (call.method == "PUT" && call.path == "/latest/api/token") return {.body = "the-token"};
    if (call.header("x-aws-ec2-metadata-token") != "the-token") return {.status = 401};
    const std::string roles = "/latest/meta-data/iam/security-credentials/";
    if (call.path == roles) return {.body = "trainer\n"};
    if (call.path == roles + "trainer") return {.body = credentials};
    return {.status = 404};
  });
  environment.set("AWS_EC2_METADATA_SERVICE_ENDPOINT", server.url());
  S3CredentialSource source(std::make_shared<HttpClient>(), "us-east-1");
  const S3Credentials first = source.current();
  EXPECT_EQ(first.session_token, "t");
  EXPECT_NE(source.current().access_key_id, first.access_key_id) << "expired ones are renewed";
  environment.set("AWS_CONTAINER_CREDENTIALS_FULL_URI", server.url() + "/container");
  environment.set("AWS_CONTAINER_AUTHORIZATION_TOKEN", "word");
  EXPECT_EQ(source.current().session_token, "t");
  environment.set("AWS_CONTAINER_CREDENTIALS_FULL_URI", std::nullopt);
  environment.set("AWS_EC2_METADATA_DISABLED", "true");
  EXPECT_TRUE(source.current().is_anonymous());
}

}  // namespace
}  // namespace muster::stores
