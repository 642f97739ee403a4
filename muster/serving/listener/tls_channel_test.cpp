#include "muster/serving/listener/tls_channel.h"

#include <gtest/gtest.h>
#include <openssl/ssl.h>

#include "muster/base/error.h"
#include "muster/serving/listener/tls_identity_fake.h"

namespace muster::serving {
namespace {

/// OpenSSL's own client, without a socket.
class TlsClient {
 public:
  explicit TlsClient(const std::string& protocols, const TlsIdentity* identity = nullptr) {
    if (identity != nullptr) {
      ::SSL_CTX_use_certificate(context_.get(), identity->certificate.get());
      ::SSL_CTX_use_PrivateKey(context_.get(), identity->key.get());
    }
    ssl_.reset(::SSL_new(context_.get()));
    ::SSL_set_bio(ssl_.get(), ::BIO_new(::BIO_s_mem()), ::BIO_new(::BIO_s_mem()));
    ::SSL_set_alpn_protos(ssl_.get(), reinterpret_cast<const unsigned char*>(protocols.data()),
                          static_cast<unsigned>(protocols.size()));
    ::SSL_set_connect_state(ssl_.get());
  }

  // Both sides in turn, until neither has anything to say. False when the server ends it.
  bool exchange(TlsChannel& server, std::string& plain) {
    ::SSL_do_handshake(ssl_.get());
    for (int i = 0; i < 10; ++i) {
      const std::string to_server = taken(::SSL_get_wbio(ssl_.get()));
      const bool goes_on = to_server.empty() || server.receive(to_server, plain);
      std::string to_client;
      server.take_output(to_client);
      if (!to_client.empty()) {
        ::BIO_write(::SSL_get_rbio(ssl_.get()), to_client.data(),
                    static_cast<int>(to_client.size()));
        ::SSL_do_handshake(ssl_.get());
      }
      if (!goes_on) return false;
    }
    return true;
  }
  void send(const std::string& text) {
    ::SSL_write(ssl_.get(), text.data(), static_cast<int>(text.size()));
  }
  std::string read() {
    std::string out(1 << 16, '\0');
    std::string all;
    for (int count = 1; count > 0;) {
      count = ::SSL_read(ssl_.get(), out.data(), static_cast<int>(out.size()));
      if (count > 0) all.append(out, 0, static_cast<std::size_t>(count));
    }
    return all;
  }
  std::string protocol() const {
    const unsigned char* text = nullptr;
    unsigned size = 0;
    ::SSL_get0_alpn_selected(ssl_.get(), &text, &size);
    return {reinterpret_cast<const char*>(text), size};
  }

 private:
  static std::string taken(BIO* bio) {
    std::string out(::BIO_ctrl_pending(bio), '\0');
    if (!out.empty()) ::BIO_read(bio, out.data(), static_cast<int>(out.size()));
    return out;
  }

  std::unique_ptr<SSL_CTX, void (*)(SSL_CTX*)> context_{::SSL_CTX_new(::TLS_client_method()),
                                                        ::SSL_CTX_free};
  std::unique_ptr<SSL, void (*)(SSL*)> ssl_{nullptr, ::SSL_free};
};

const std::string kHttp2 = "\x02h2";
const std::string kHttp1 = "\x08http/1.1";

TEST(TlsChannel, CarriesBytesBothWays) {
  const TlsIdentity identity;
  TlsChannel server(http2_tls_context(identity.options()));
  TlsClient client(kHttp1 + kHttp2);
  std::string plain;
  EXPECT_FALSE(server.is_open());
  ASSERT_TRUE(client.exchange(server, plain));
  EXPECT_TRUE(server.is_open());
  EXPECT_EQ(client.protocol(), "h2");
  client.send("question");
  server.send(std::string(100'000, 'x'));
  ASSERT_TRUE(client.exchange(server, plain));
  EXPECT_EQ(plain, "question");
  EXPECT_EQ(client.read(), std::string(100'000, 'x'));
}

TEST(TlsChannel, RefusesClientsThatDoNotSpeakHttp2) {
  const TlsIdentity identity;
  TlsChannel server(http2_tls_context(identity.options()));
  TlsClient client(kHttp1);
  std::string plain;
  EXPECT_FALSE(client.exchange(server, plain));
}

TEST(TlsChannel, AsksForTheCertificatesOfClients) {
  const TlsIdentity identity;
  const TlsIdentity known;
  const TlsIdentity stranger;
  TlsOptions options = identity.options();
  options.client_ca = known.certificate_text();
  options.require_client = true;
  const auto context = http2_tls_context(options);
  const auto is_taken = [&](const TlsIdentity* who) {
    TlsChannel server(context);
    TlsClient client(kHttp2, who);
    std::string plain;
    return client.exchange(server, plain) && server.is_open();
  };
  EXPECT_TRUE(is_taken(&known));
  EXPECT_FALSE(is_taken(&stranger));
  EXPECT_FALSE(is_taken(nullptr));
}

TEST(TlsChannel, RefusesWhatIsNoTls) {
  const TlsIdentity identity;
  TlsChannel server(http2_tls_context(identity.options()));
  std::string plain;
  EXPECT_FALSE(server.receive("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", plain));
  EXPECT_EQ(plain, "");
}

TEST(TlsChannel, SaysWhatIsWrongWithCertificates) {
  const TlsIdentity identity;
  const TlsIdentity other;
  EXPECT_THROW(http2_tls_context({.certificate = "x", .key = identity.key_text()}),
               InvalidArgument);
  EXPECT_THROW(http2_tls_context({.certificate = identity.certificate_text(), .key = ""}),
               InvalidArgument);
  EXPECT_THROW(
      http2_tls_context({.certificate = identity.certificate_text(), .key = other.key_text()}),
      InvalidArgument);
  TlsOptions asking = identity.options();
  asking.require_client = true;
  EXPECT_THROW(http2_tls_context(asking), InvalidArgument);
  // One of several is damaged.
  asking.client_ca = other.certificate_text() + other.certificate_text();
  EXPECT_NO_THROW(http2_tls_context(asking));
  asking.client_ca.replace(asking.client_ca.size() - 100, 1, "!");
  EXPECT_THROW(http2_tls_context(asking), InvalidArgument);
}

}  // namespace
}  // namespace muster::serving
