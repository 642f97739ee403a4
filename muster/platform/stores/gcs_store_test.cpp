#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>

#include <atomic>
#include <cstring>
#include <nlohmann/json.hpp>

#include "muster/base/base64.h"
#include "muster/base/error.h"
#include "muster/base/object_store.h"
#include "muster/platform/stores/gcs_api.h"
#include "muster/platform/stores/object_file_system.h"
#include "muster/platform/stores/test_environment_internal.h"
#include "muster/testing/fake_gcs.h"
#include "muster/testing/message_of.h"
#include "muster/testing/temp_dir.h"

namespace muster::stores {
namespace {

using ::testing::AllOf;
using testing::CannedResponse;
using testing::FakeGcs;
using ::testing::HasSubstr;
using testing::HttpCall;
using testing::message_of;
using testing::TempDir;

class GcsStore : public ::testing::Test {
 protected:
  void SetUp() override {
    GcsSettings settings;
    settings.endpoint = gcs_.url();
    settings.needs_no_credentials = true;
    settings.retry = kQuickRetries;
    settings.part_bytes = 2 * kMiB;
    const auto transfers = std::make_shared<Transfers>();
    store_ = make_object_file_system(
        "gs", [=] { return make_gcs_api(settings, transfers); }, transfers,
        ClaimOptions{.lease = std::chrono::milliseconds(200)});
    register_file_system("gs", store_);
  }

  FakeGcs gcs_;
  std::shared_ptr<ObjectStore> store_;
};

TEST_F(GcsStore, SendsWhatTheStoreHasNotTaken) {
  gcs_.set_most_taken(kMiB / 2);
  const std::string bytes = random_bytes(5 * kMiB);
  const auto file = store_->create("gs://bucket/x");
  file->write(bytes);
  file->close();
  EXPECT_EQ(gcs_.bytes_of("bucket/x"), bytes);
}

TEST_F(GcsStore, GrowsFilesByComposingThem) {
  std::string all;
  const auto file = store_->create_growing("gs://bucket/events");
  for (std::uint64_t i = 0; i < 4; ++i) {
    const std::string piece = random_bytes(kMiB, i);
    file->write(piece);
    file->sync();
    all += piece;
    EXPECT_EQ(gcs_.bytes_of("bucket/events"), all);
  }
  file->close();
  EXPECT_EQ(gcs_.objects().size(), 1U);
}

TEST_F(GcsStore, ComparesChecksums) {
  gcs_.set_bytes("bucket/x", "hello");  // With the CRC-32C that Google's documentation gives it.
  EXPECT_EQ(read_file("gs://bucket/x"), "hello");
  gcs_.set_fault([](const HttpCall& call) -> std::optional<CannedResponse> {
    if (call.parameter("alt") != "media") return std::nullopt;
    return CannedResponse{
        .status = 206,
        .headers = {{"x-goog-hash", "crc32c=mnG7TA=="}, {"Content-Range", "bytes 0-4/5"}},
        .body = "jello"};
  });
  EXPECT_THAT(message_of([&] { read_file("gs://bucket/x"); }), HasSubstr("CRC32C"));
}

TEST_F(GcsStore, SaysWhatWasRefused) {
  const auto code_of = [&](int status) {
    gcs_.set_fault([=](const HttpCall&) {
      return CannedResponse{.status = status,
                            .body = R"({"error": {"code": 1, "message": "so it is"}})"};
    });
    try {
      read_file("gs://bucket/x");
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), AllOf(HasSubstr("reading gs://bucket/x: "), HasSubstr("so it is")));
      return error.code();
    }
    return ErrorCode::kOk;
  };
  EXPECT_EQ(code_of(404), ErrorCode::kNotFound);
  EXPECT_EQ(code_of(403), ErrorCode::kPermissionDenied);
  EXPECT_EQ(code_of(503), ErrorCode::kUnavailable);
  EXPECT_EQ(code_of(400), ErrorCode::kFailedPrecondition);
}

/// A key pair that is made for a test.
class TestKey {
 public:
  TestKey() : key_(EVP_RSA_gen(2048)) {}
  ~TestKey() { EVP_PKEY_free(key_); }
  TestKey(const TestKey&) = delete;
  TestKey& operator=(const TestKey&) = delete;

  std::string private_pem() const {
    BIO* bio = BIO_new(BIO_s_mem());
    PEM_write_bio_PrivateKey(bio, key_, nullptr, nullptr, 0, nullptr, nullptr);
    char* text = nullptr;
    const long size = BIO_get_mem_data(bio, &text);
    std::string pem(text, static_cast<std::size_t>(size));
    BIO_free(bio);
    return pem;
  }

  bool has_signed(const std::string& jwt) const {
    const auto dot = jwt.rfind('.');
    const std::string signature = decoded(jwt.substr(dot + 1));
    EVP_MD_CTX* context = EVP_MD_CTX_new();
    EVP_DigestVerifyInit(context, nullptr, EVP_sha256(), nullptr, key_);
    const int verdict =
        EVP_DigestVerify(context, reinterpret_cast<const unsigned char*>(signature.data()),
                         signature.size(), reinterpret_cast<const unsigned char*>(jwt.data()), dot);
    EVP_MD_CTX_free(context);
    return verdict == 1;
  }

  static std::string decoded(std::string text) {
    for (char& c : text) c = c == '-' ? '+' : c == '_' ? '/' : c;
    return base64_decode(text);
  }

 private:
  EVP_PKEY* key_;
};

class GcsCredentials : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"GOOGLE_AUTH_TOKEN_FOR_TESTING", "GOOGLE_APPLICATION_CREDENTIALS",
                             "CLOUDSDK_CONFIG", "NO_GCE_CHECK"}) {
      environment_.set(name, std::nullopt);
    }
    environment_.set("HOME", folder_.path().string());
    environment_.set("GCE_METADATA_HOST", server_.url().substr(7));
  }

  CannedResponse answer(const HttpCall& call) {
    if (call.path == "/token") {
      asked_ = HttpCall{.query = call.body};
      return {.body = R"({"access_token": "of-a-key", "expires_in": 3600})"};
    }
    if (!has_metadata_ || call.header("metadata-flavor") != "Google") return {.status = 404};
    return {
        .headers = {{"Metadata-Flavor", "Google"}},
        .body = fmt::format(R"({{"access_token": "of-metadata-{}", "expires_in": 30}})", ++given_)};
  }

  std::string token() { return GcsCredentialSource(std::make_shared<HttpClient>()).token(); }

  TempDir folder_;
  Environment environment_;
  std::atomic<bool> has_metadata_{false};
  std::atomic<int> given_{0};
  HttpCall asked_;
  testing::HttpTestServer server_{[this](const HttpCall& call) { return answer(call); }};
};

TEST_F(GcsCredentials, AreSignedWithTheKeyOfAServiceAccount) {
  const TestKey key;
  testing::write_bytes(folder_ / "key.json", nlohmann::json{{"type", "service_account"},
                                                            {"client_email", "trainer@project"},
                                                            {"private_key", key.private_pem()},
                                                            {"token_uri", server_.url() + "/token"}}
                                                 .dump());
  environment_.set("GOOGLE_APPLICATION_CREDENTIALS", (folder_ / "key.json").string());
  EXPECT_EQ(token(), "of-a-key");
  const std::string jwt = asked_.parameter("assertion").value_or("");
  EXPECT_TRUE(key.has_signed(jwt));
  const auto claims = nlohmann::json::parse(
      TestKey::decoded(jwt.substr(jwt.find('.') + 1, jwt.rfind('.') - jwt.find('.') - 1)));
  EXPECT_EQ(claims["iss"], "trainer@project");
  EXPECT_EQ(claims["aud"], server_.url() + "/token");
}

TEST_F(GcsCredentials, AreThoseOfAUserWhoLoggedIn) {
  std::filesystem::create_directories(folder_ / ".config/gcloud");
  testing::write_bytes(folder_ / ".config/gcloud/application_default_credentials.json",
                       nlohmann::json{{"type", "authorized_user"},
                                      {"client_id", "id"},
                                      {"client_secret", "s"},
                                      {"refresh_token", "again"},
                                      {"token_uri", server_.url() + "/token"}}
                           .dump());
  EXPECT_EQ(token(), "of-a-key");
  EXPECT_EQ(asked_.parameter("refresh_token"), "again");
}

TEST_F(GcsCredentials, AreAskedOfTheMetadataServerAndRenewed) {
  EXPECT_EQ(token(), "") << "anonymous";
  has_metadata_ = true;
  GcsCredentialSource source(std::make_shared<HttpClient>());
  const std::string first = source.token();
  EXPECT_THAT(first, HasSubstr("of-metadata-"));
  EXPECT_NE(source.token(), first) << "it ends within a minute";
  environment_.set("GOOGLE_AUTH_TOKEN_FOR_TESTING", "given");
  EXPECT_EQ(token(), "given");
}

TEST(GcsSettings, AreThoseOfTensorFlowsVariables) {
  Environment environment;
  for (const char* name :
       {"GCS_RETRY_CONFIG_MAX_RETRIES", "GCS_RETRY_CONFIG_INIT_DELAY_TIME_US",
        "GCS_RETRY_CONFIG_MAX_DELAY_TIME_US", "GCS_REQUEST_CONNECTION_TIMEOUT_SECS",
        "GCS_REQUEST_IDLE_TIMEOUT_SECS"}) {
    environment.set(name, std::nullopt);
  }
  EXPECT_EQ(GcsSettings::from_environment().retry.most_tries, 12);
  EXPECT_EQ(GcsSettings::from_environment().retry.longest_wait, std::chrono::seconds(10));
  environment.set("GCS_RETRY_CONFIG_MAX_RETRIES", "3");
  environment.set("GCS_RETRY_CONFIG_INIT_DELAY_TIME_US", "5000");
  environment.set("GCS_RETRY_CONFIG_MAX_DELAY_TIME_US", "32000000");
  environment.set("GCS_REQUEST_CONNECTION_TIMEOUT_SECS", "120");
  environment.set("GCS_REQUEST_IDLE_TIMEOUT_SECS", "60");
  const GcsSettings settings = GcsSettings::from_environment();
  EXPECT_EQ(settings.retry.most_tries, 4);
  EXPECT_EQ(settings.retry.first_wait, std::chrono::milliseconds(5));
  EXPECT_EQ(settings.retry.longest_wait, std::chrono::seconds(32));
  EXPECT_EQ(settings.http.connect_timeout, std::chrono::seconds(120));
  EXPECT_EQ(settings.http.idle_timeout, std::chrono::seconds(60));
  environment.set("GCS_REQUEST_IDLE_TIMEOUT_SECS", "soon");
  EXPECT_THAT(message_of([] { GcsSettings::from_environment(); }),
              HasSubstr("GCS_REQUEST_IDLE_TIMEOUT_SECS must be a number from 1 to 3600: soon"));
}

TEST(GcsSettings, NameTensorFlowsVariablesThatHaveNoEffect) {
  Environment environment;
  environment.set("GCS_THROTTLE_TOKEN_RATE", "100");
  environment.set("GCS_STAT_CACHE_MAX_AGE", "5");
  ::testing::internal::CaptureStderr();
  GcsSettings::from_environment();
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("set in the environment, but without effect: GCS_STAT_CACHE_MAX_AGE, "
                        "GCS_THROTTLE_TOKEN_RATE"));
}

TEST_F(GcsCredentials, OfOtherKindsAreRefusedByName) {
  testing::write_bytes(folder_ / "key.json", R"({"type": "external_account"})");
  environment_.set("GOOGLE_APPLICATION_CREDENTIALS", (folder_ / "key.json").string());
  EXPECT_THAT(message_of([&] { token(); }),
              HasSubstr("'external_account', which is not supported"));
}

}  // namespace
}  // namespace muster::stores
