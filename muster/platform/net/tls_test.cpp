#include "muster/platform/net/tls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/socket.h>
#include <unistd.h>

#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/platform/net/connection.h"
#include "muster/platform/net/listener.h"
#include "muster/platform/net/tls_socket_internal.h"
#include "muster/testing/eventually.h"
#include "muster/testing/message_of.h"
#include "muster/testing/raw_tcp.h"
#include "muster/testing/tcp_relay.h"
#include "muster/testing/temp_dir.h"

namespace muster::net {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using testing::message_of;
using testing::RawTcp;

constexpr const char* kPlaintext = "a text that must not be readable on the way";

// Longest wait of a test when something is broken.
Deadline in_a_minute() { return Deadline::after(60s); }

Identity identity(const std::string& task, std::shared_ptr<const TlsContext> tls) {
  return {.task = task, .run_id = "run-a", .secret = "open sesame", .tls = std::move(tls)};
}
Identity with_secret(const std::string& task, const std::string& secret = "open sesame") {
  return identity(task, TlsContext::from_secret(secret));
}

/// A listener that hands its connections to the test.
class Door {
 public:
  explicit Door(const Identity& self)
      : listener_("127.0.0.1:0", self, [this](std::unique_ptr<Connection> connection) {
          connection->detach();
          accepted_.set_value(std::move(connection));
        }) {
    log::set_sink([this](log::Level, std::string_view line) {
      const std::lock_guard lock(mutex_);
      log_ += std::string(line) + "\n";
    });
  }
  ~Door() { log::set_sink({}); }
  const std::string& address() const { return listener_.address(); }
  std::unique_ptr<Connection> take() { return accepted_.get_future().get(); }
  std::string log() {
    const std::lock_guard lock(mutex_);
    return log_;
  }

 private:
  std::mutex mutex_;
  std::string log_;
  std::promise<std::unique_ptr<Connection>> accepted_;
  Listener listener_;
};

std::unique_ptr<Connection> knock(const std::string& address, const Identity& self,
                                  std::chrono::milliseconds patience = 60s) {
  return Connection::connect(address, self, "test", Deadline::after(patience));
}

TEST(Tls, FramesOfAllSizesPassBothWaysAtOnce) {
  Door door(with_secret("ps:0"));
  const auto client = knock(door.address(), with_secret("worker:1"));
  const auto server = door.take();
  EXPECT_EQ(client->peer_task(), "ps:0");
  EXPECT_EQ(server->peer_task(), "worker:1");
  // Around the sizes of records, and more than the kernel keeps.
  const std::vector<std::size_t> sizes = {0,       1,         16'383, 16'384,    16'385,
                                          131'072, 1'000'003, 0,      24'000'000};
  const auto send_all = [&](Connection& connection) {
    for (const std::size_t size : sizes) {
      connection.send(7, std::string(size % 300, 'h'),
                      std::vector<std::byte>(size, static_cast<std::byte>(size % 251)),
                      in_a_minute());
    }
  };
  const auto expect_all = [&](Connection& connection) {
    for (const std::size_t size : sizes) {
      const auto frame = connection.receive(in_a_minute());
      ASSERT_TRUE(frame.has_value());
      EXPECT_EQ(frame->header, std::string(size % 300, 'h'));
      ASSERT_EQ(frame->body.size(), size);
      EXPECT_TRUE(std::ranges::all_of(frame->body.bytes(), [&](std::byte byte) {
        return byte == static_cast<std::byte>(size % 251);
      }));
    }
  };
  std::jthread from_client([&] { send_all(*client); });
  std::jthread from_server([&] { send_all(*server); });
  std::jthread at_client([&] { expect_all(*client); });
  expect_all(*server);
}

TEST(Tls, ARecordedSessionShowsNoPlaintext) {
  for (const bool is_encrypted : {true, false}) {
    const auto tls = is_encrypted ? TlsContext::from_secret("open sesame") : nullptr;
    Door door(identity("ps:0", tls));
    testing::TcpRelay wire(door.address());
    const auto client = knock(wire.address(), identity("worker:1", tls));
    const auto server = door.take();
    client->send(7, kPlaintext, in_a_minute());
    EXPECT_EQ(server->receive(in_a_minute())->header, kPlaintext);
    const std::string seen = wire.seen();
    for (const char* word : {kPlaintext, "worker:1", "run-a", "MUSTER/", "MFRM"}) {
      EXPECT_EQ(seen.find(word) == std::string::npos, is_encrypted) << word;
    }
  }
}

TEST(Tls, AFlippedByteEndsTheConnectionWithAnErrorThatSaysSo) {
  Door door(with_secret("ps:0"));
  testing::TcpRelay wire(door.address());
  const auto client = knock(wire.address(), with_secret("worker:1"));
  const auto server = door.take();
  wire.flip(40'000);
  const std::vector<std::byte> body(100'000);
  client->send(7, "", body, in_a_minute());
  EXPECT_THAT(message_of([&] { server->receive(in_a_minute()); }),
              AllOf(HasSubstr("worker:1 at 127.0.0.1:"), HasSubstr("changed on the way (TLS: ")));
  EXPECT_THROW(server->send(7, "", in_a_minute()), Unavailable);
}

TEST(Tls, AnotherSecretIsRefusedOnBothSides) {
  Door door(with_secret("ps:0"));
  EXPECT_THAT(message_of([&] { knock(door.address(), with_secret("worker:1", "close sesame")); }),
              HasSubstr("has another key for TLS"));
  EXPECT_TRUE(testing::eventually([&] {
    return door.log().find("has another key for TLS") != std::string::npos;
  })) << door.log();
}

TEST(Tls, TasksWithAndWithoutItAreToldSo) {
  Door encrypted(with_secret("ps:0"));
  EXPECT_THAT(message_of([&] { knock(encrypted.address(), identity("worker:1", nullptr)); }),
              AllOf(HasSubstr("speaks TLS"), HasSubstr("MUSTER_TLS")));
  EXPECT_TRUE(testing::eventually([&] {
    return encrypted.log().find("does not speak TLS") != std::string::npos;
  })) << encrypted.log();
}

TEST(Tls, ATaskWithoutItTellsOneWithIt) {
  Door plain(identity("ps:0", nullptr));
  EXPECT_THROW(knock(plain.address(), with_secret("worker:1"), 300ms), Error);
  EXPECT_TRUE(testing::eventually([&] {
    return plain.log().find("speaks TLS") != std::string::npos;
  })) << plain.log();
}

TEST(Tls, StrangersChangeNothing) {
  Door door(with_secret("ps:0"));
  RawTcp browser(door.address());
  browser.send("GET / HTTP/1.1\r\n\r\n");
  RawTcp noise(door.address());
  noise.send(std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11) +
             std::string(600, '\xaa'));
  const auto client = knock(door.address(), with_secret("worker:1"));
  client->send(7, "hello", in_a_minute());
  EXPECT_EQ(door.take()->receive(in_a_minute())->header, "hello");
}

TEST(Tls, HasNoKeyWithoutASecret) {
  EXPECT_THAT(message_of([] { TlsContext::from_secret(""); }), HasSubstr("MUSTER_SECRET"));
}

// ---------------------------------------------------------- certificates

/// An authority, or a task's certificate that one has signed.
struct Certificate {
  explicit Certificate(const Certificate* authority) : key(EVP_EC_gen("P-256")), x509(X509_new()) {
    ASN1_INTEGER_set(X509_get_serialNumber(x509), authority == nullptr ? 1 : 2);
    X509_set_version(x509, 2);
    X509_gmtime_adj(X509_getm_notBefore(x509), -60);
    X509_gmtime_adj(X509_getm_notAfter(x509), 3600);
    X509_set_pubkey(x509, key);
    const std::string name = authority == nullptr ? "an authority" : "a task";
    X509_NAME_add_entry_by_txt(X509_get_subject_name(x509), "CN", MBSTRING_ASC,
                               reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
    if (authority == nullptr) {
      X509_EXTENSION* const is_authority =
          X509V3_EXT_conf_nid(nullptr, nullptr, NID_basic_constraints, "critical,CA:TRUE");
      X509_add_ext(x509, is_authority, -1);
      X509_EXTENSION_free(is_authority);
    }
    const Certificate& issuer = authority == nullptr ? *this : *authority;
    X509_set_issuer_name(x509, X509_get_subject_name(issuer.x509));
    X509_sign(x509, issuer.key, EVP_sha256());
  }
  ~Certificate() {
    X509_free(x509);
    EVP_PKEY_free(key);
  }
  Certificate(const Certificate&) = delete;
  Certificate& operator=(const Certificate&) = delete;

  void write(const Path& certificate_file, const Path& key_file) const {
    BIO* file = BIO_new_file(certificate_file.c_str(), "w");
    PEM_write_bio_X509(file, x509);
    BIO_free(file);
    file = BIO_new_file(key_file.c_str(), "w");
    PEM_write_bio_PrivateKey(file, key, nullptr, nullptr, 0, nullptr, nullptr);
    BIO_free(file);
  }

  EVP_PKEY* key;
  X509* x509;
};

TlsFiles write_files(const Path& folder, const Certificate& authority, const Certificate& task) {
  const TlsFiles files{folder / "task.pem", folder / "task.key", folder / "authority.pem"};
  authority.write(files.authority, folder / "authority.key");
  task.write(files.certificate, files.key);
  return files;
}

TEST(TlsFiles, ConnectTasksOfOneAuthorityAndNoOthers) {
  const testing::TempDir ours, theirs;
  const Certificate authority(nullptr), task(&authority);
  const Certificate other_authority(nullptr), other_task(&other_authority);
  const auto tls = TlsContext::from_files(write_files(ours.path(), authority, task));
  const auto other =
      TlsContext::from_files(write_files(theirs.path(), other_authority, other_task));
  Door door(identity("ps:0", tls));
  EXPECT_THROW(knock(door.address(), identity("worker:1", other), 300ms), Error);
  EXPECT_THROW(knock(door.address(), with_secret("worker:1"), 300ms), Error);
  const auto client = knock(door.address(), identity("worker:1", tls));
  client->send(7, "hello", in_a_minute());
  EXPECT_EQ(door.take()->receive(in_a_minute())->header, "hello");
}

/// OpenSSL's own client at the other end of a pair of sockets, by a thread of the test.
class OpenSslPeer {
 public:
  OpenSslPeer(const TlsFiles& files, int descriptor)
      : descriptor_(descriptor),
        context_(SSL_CTX_new(TLS_client_method()), SSL_CTX_free),
        session_(nullptr, SSL_free) {
    SSL_CTX_use_certificate_file(context_.get(), files.certificate.c_str(), SSL_FILETYPE_PEM);
    SSL_CTX_use_PrivateKey_file(context_.get(), files.key.c_str(), SSL_FILETYPE_PEM);
    SSL_CTX_set_ciphersuites(context_.get(), "TLS_AES_128_GCM_SHA256");
    session_.reset(SSL_new(context_.get()));
    SSL_set_fd(session_.get(), descriptor);
  }
  ~OpenSslPeer() { ::close(descriptor_); }
  OpenSslPeer(const OpenSslPeer&) = delete;
  OpenSslPeer& operator=(const OpenSslPeer&) = delete;

  bool connect() { return SSL_connect(session_.get()) == 1; }
  bool write(const std::string& text) {
    return SSL_write(session_.get(), text.data(), static_cast<int>(text.size())) ==
           static_cast<int>(text.size());
  }
  // From the next record on.
  bool change_key() { return SSL_key_update(session_.get(), SSL_KEY_UPDATE_NOT_REQUESTED) == 1; }
  std::string read(std::size_t size) {
    std::string text(size, 0);
    for (std::size_t done = 0; done < size;) {
      const int count = SSL_read(session_.get(), text.data() + done, static_cast<int>(size - done));
      if (count <= 0) return text.substr(0, done);
      done += static_cast<std::size_t>(count);
    }
    return text;
  }
  void shut_down() { SSL_shutdown(session_.get()); }

 private:
  int descriptor_;
  std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context_;
  std::unique_ptr<SSL, decltype(&SSL_free)> session_;
};

std::string received(Socket& socket, std::size_t size) {
  std::string text(size, 0);
  for (std::size_t done = 0; done < size;) {
    const iovec room{text.data() + done, size - done};
    const Moved moved = socket.receive({&room, 1});
    done += moved.bytes;
    if (moved.would_block()) {
      socket.wait(POLLIN, in_a_minute(), [] { return std::string("a test"); });
    } else if (moved.bytes == 0) {
      return text.substr(0, done);
    }
  }
  return text;
}

void send_all(Socket& socket, std::string text) {
  for (std::size_t done = 0; done < text.size() || socket.has_unsent();) {
    const iovec rest{text.data() + done, text.size() - done};
    const Moved moved = socket.send({&rest, 1});
    done += moved.bytes;
    if (moved.would_block() || socket.has_unsent())
      socket.wait(POLLOUT, in_a_minute(), [] { return std::string("a test"); });
  }
}

TEST(TlsFiles, LetAClientOfOpenSslSpeakWithUs) {
  const testing::TempDir folder;
  const Certificate authority(nullptr), task(&authority);
  const TlsFiles files = write_files(folder.path(), authority, task);
  int pair[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
  const std::string text = std::string(100'000, 'a') + std::string(50'000, 'b');
  std::jthread client([&] {
    OpenSslPeer peer(files, pair[1]);
    EXPECT_TRUE(peer.connect());
    EXPECT_TRUE(peer.write(text));
    EXPECT_TRUE(peer.change_key());
    EXPECT_TRUE(peer.write("behind a new key"));
    EXPECT_EQ(peer.read(text.size()), text);
    peer.shut_down();
  });
  Socket plain(pair[0]);
  TlsSocket socket(plain, *TlsContext::from_files(files), TlsSocket::Side::kServer);
  EXPECT_EQ(received(socket, text.size()), text);
  EXPECT_EQ(received(socket, 16), "behind a new key");
  send_all(socket, text);
  EXPECT_EQ(received(socket, 1), "");
  EXPECT_EQ(socket.failure(), "ended the TLS session (close notify)");
}

TEST(TlsFiles, AreNamedWhenTheyAreNone) {
  const testing::TempDir folder;
  const Certificate authority(nullptr), task(&authority);
  TlsFiles files = write_files(folder.path(), authority, task);
  files.key = folder.path() / "none.key";
  EXPECT_THAT(message_of([&] { TlsContext::from_files(files); }),
              AllOf(HasSubstr("none.key"), HasSubstr("private key")));
}

}  // namespace
}  // namespace muster::net
