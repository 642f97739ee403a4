#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>

#include <atomic>
#include <cstring>
#include <nlohmann/json.hpp>
#include <thread>

#include "muster/base/base64.h"
#include "muster/base/error.h"
#include "muster/base/folder_claim.h"
#include "muster/base/object_store.h"
#include "muster/base/random.h"
#include "muster/stores/gcs_api.h"
#include "muster/stores/object_file_system.h"
#include "muster/stores/test_environment_internal.h"
#include "muster/testing/fake_gcs.h"
#include "muster/testing/message_of.h"
#include "muster/testing/temp_dir.h"

namespace muster::stores {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::FakeGcs;
using ::testing::HasSubstr;
using testing::HttpAnswer;
using testing::HttpCall;
using testing::message_of;
using testing::TempDir;

constexpr std::size_t kMebibyte = std::size_t{1} << 20;

class GcsStore : public ::testing::Test {
 protected:
  void SetUp() override {
    GcsSettings settings;
    settings.endpoint = gcs_.url();
    settings.needs_no_credentials = true;
    settings.retry = {.most_tries = 20,
                      .first_wait = std::chrono::milliseconds(1),
                      .longest_wait = std::chrono::milliseconds(3)};
    settings.part_bytes = 2 * kMebibyte;
    const auto transfers = std::make_shared<Transfers>();
    store_ = make_object_file_system(
        "gs", [=] { return make_gcs_api(settings, transfers); }, transfers,
        ClaimOptions{.lease = std::chrono::milliseconds(200)});
    register_file_system("gs", store_);
  }

  FakeGcs gcs_;
  std::shared_ptr<ObjectStore> store_;
};

TEST_F(GcsStore, WritesAndReadsFiles) {
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{1}, 2 * kMebibyte, 2 * kMebibyte + 1, 9 * kMebibyte}) {
    const std::string bytes = random_bytes(size);
    const auto file = store_->create("gs://bucket/a b/c+%.bin");
    file->write(std::string_view(bytes).substr(0, size / 3));
    file->write(std::string_view(bytes).substr(size / 3));
    file->close();
    EXPECT_EQ(gcs_.bytes_of("bucket/a b/c+%.bin"), bytes) << size;
    EXPECT_EQ(read_file("gs://bucket/a b/c+%.bin"), bytes) << size;
    EXPECT_EQ(store_->map("gs://bucket/a b/c+%.bin")->bytes(), bytes) << size;
    EXPECT_EQ(store_->status("gs://bucket/a b/c+%.bin")->size_bytes, size);
  }
  EXPECT_EQ(gcs_.open_uploads(), 0U);
}

TEST_F(GcsStore, SendsWhatTheStoreHasNotTaken) {
  gcs_.set_most_taken(kMebibyte / 2);
  const std::string bytes = random_bytes(5 * kMebibyte);
  const auto file = store_->create("gs://bucket/x");
  file->write(bytes);
  file->close();
  EXPECT_EQ(gcs_.bytes_of("bucket/x"), bytes);
}

TEST_F(GcsStore, EndsUploadsThatAreNotClosed) {
  {
    const auto file = store_->create("gs://bucket/x");
    file->write(random_bytes(7 * kMebibyte));
    EXPECT_EQ(gcs_.open_uploads(), 1U);
  }
  EXPECT_EQ(gcs_.open_uploads(), 0U);
  EXPECT_FALSE(file_exists("gs://bucket/x"));
}

TEST_F(GcsStore, HasFolders) {
  store_->create_directories("gs://bucket/run");
  EXPECT_THAT(store_->list("gs://bucket/run"), ElementsAre());
  gcs_.set_page_keys(2);
  for (const char* name : {"a", "b", "c", "inner/x", "inner/y"}) {
    write_file_atomically(Path("gs://bucket/run") / name, name);
  }
  EXPECT_THAT(store_->list("gs://bucket/run"), ElementsAre("a", "b", "c", "inner"));
  EXPECT_THAT(glob("gs://bucket/run/*/x"), ElementsAre("gs://bucket/run/inner/x"));
  store_->rename("gs://bucket/run/a", "gs://bucket/run/z");
  EXPECT_EQ(read_file("gs://bucket/run/z"), "a");
  store_->remove_all("gs://bucket/run");
  EXPECT_TRUE(gcs_.objects().empty());
  EXPECT_FALSE(store_->status("gs://bucket/run"));
}

TEST_F(GcsStore, GrowsFilesByComposingThem) {
  std::string all;
  const auto file = store_->create_growing("gs://bucket/events");
  for (std::uint64_t i = 0; i < 4; ++i) {
    const std::string piece = random_bytes(kMebibyte, i);
    file->write(piece);
    file->sync();
    all += piece;
    EXPECT_EQ(gcs_.bytes_of("bucket/events"), all);
  }
  file->close();
  EXPECT_EQ(gcs_.objects().size(), 1U);
}

TEST_F(GcsStore, LetsOneOfTwoCreateAFile) {
  for (const std::size_t size : {std::size_t{10}, 3 * kMebibyte}) {
    const Path path = fmt::format("gs://bucket/{}", size);
    const auto first = store_->create_new(path);
    const auto second = store_->create_new(path);
    const std::string bytes = random_bytes(size, 1);
    first->write(bytes);
    second->write(random_bytes(size, 2));
    first->close();
    EXPECT_THROW(second->close(), AlreadyExists);
    EXPECT_EQ(read_file(path), bytes);
  }
}

TEST_F(GcsStore, AppendsWithoutLosingWhatOthersAppend) {
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([this, i] {
      for (int j = 0; j < 5; ++j) {
        const auto file = store_->append("gs://bucket/log");
        file->write(fmt::format("{} {}\n", i, j));
        file->close();
      }
    });
  }
  threads.clear();
  EXPECT_EQ(read_file("gs://bucket/log").size(), 20U * 4);
}

TEST_F(GcsStore, DoesNotMixAFileThatIsReplacedWhileItIsRead) {
  gcs_.set_bytes("bucket/x", random_bytes(5 * kMebibyte, 1));
  const auto file = store_->open("gs://bucket/x");
  gcs_.set_bytes("bucket/x", random_bytes(5 * kMebibyte, 2));
  std::string all(5 * kMebibyte, '\0');
  EXPECT_THAT(message_of([&] { file->read(all); }), HasSubstr("it was replaced while it was read"));
}

TEST_F(GcsStore, ComparesChecksums) {
  gcs_.set_bytes("bucket/x", "hello");  // With the CRC-32C that Google's documentation gives it.
  EXPECT_EQ(read_file("gs://bucket/x"), "hello");
  gcs_.set_fault([](const HttpCall& call) -> std::optional<HttpAnswer> {
    if (call.parameter("alt") != "media") return std::nullopt;
    return HttpAnswer{
        .status = 206,
        .headers = {{"x-goog-hash", "crc32c=mnG7TA=="}, {"Content-Range", "bytes 0-4/5"}},
        .body = "jello"};
  });
  EXPECT_THAT(message_of([&] { read_file("gs://bucket/x"); }), HasSubstr("CRC32C"));
}

TEST_F(GcsStore, LosesNothingWhenATenthOfAllCallsFails) {
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    gcs_.fail_randomly(10, seed);
    const Path folder = fmt::format("gs://bucket/run-{}", seed);
    const FolderClaim claim(folder);
    const std::string large = random_bytes(7 * kMebibyte, seed);
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
    EXPECT_THAT(store_->list(folder),
                ElementsAre(ObjectClaim::kObjectName, "large", "log", "state"));
  }
}

TEST_F(GcsStore, SaysWhatWasRefused) {
  const auto code_of = [&](int status) {
    gcs_.set_fault([=](const HttpCall&) {
      return HttpAnswer{.status = status,
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

  HttpAnswer answer(const HttpCall& call) {
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

TEST_F(GcsCredentials, OfOtherKindsAreRefusedByName) {
  testing::write_bytes(folder_ / "key.json", R"({"type": "external_account"})");
  environment_.set("GOOGLE_APPLICATION_CREDENTIALS", (folder_ / "key.json").string());
  EXPECT_THAT(message_of([&] { token(); }),
              HasSubstr("'external_account', which is not supported"));
}

}  // namespace
}  // namespace muster::stores
