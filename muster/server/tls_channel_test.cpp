#include "muster/server/tls_channel_internal.h"

#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include "muster/base/error.h"

namespace muster::server {
namespace {

template <typename Write>
std::string pem_of(const Write& write) {
  const std::unique_ptr<BIO, int (*)(BIO*)> bio(::BIO_new(::BIO_s_mem()), ::BIO_free);
  write(bio.get());
  char* text = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &text);
  return {text, static_cast<std::size_t>(size)};
}

/// A key and a certificate that it has signed itself.
struct Identity {
  std::unique_ptr<EVP_PKEY, void (*)(EVP_PKEY*)> key{EVP_EC_gen("P-256"), ::EVP_PKEY_free};
  std::unique_ptr<X509, void (*)(X509*)> certificate{::X509_new(), ::X509_free};

  Identity() {
    X509* const made = certificate.get();
    ::X509_set_version(made, 2);
    ::ASN1_INTEGER_set(::X509_get_serialNumber(made), 1);
    ::X509_gmtime_adj(::X509_getm_notBefore(made), -3600);
    ::X509_gmtime_adj(::X509_getm_notAfter(made), 3600);
    ::X509_set_pubkey(made, key.get());
    X509_NAME* const name = ::X509_get_subject_name(made);
    ::X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                                 reinterpret_cast<const unsigned char*>("h"), -1, -1, 0);
    ::X509_set_issuer_name(made, name);
    ::X509_sign(made, key.get(), ::EVP_sha256());
  }
  std::string certificate_text() const {
    return pem_of([&](BIO* bio) { ::PEM_write_bio_X509(bio, certificate.get()); });
  }
  std::string key_text() const {
    return pem_of([&](BIO* bio) {
      ::PEM_write_bio_PrivateKey(bio, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
    });
  }
};

/// OpenSSL's own client, without a socket.
class TlsClient {
 public:
  explicit TlsClient(const std::string& protocols, const Identity* identity = nullptr) {
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

TlsOptions options_of(const Identity& identity) {
  return {.certificate = identity.certificate_text(), .key = identity.key_text()};
}

TEST(TlsChannel, CarriesBytesBothWays) {
  const Identity identity;
  TlsChannel server(http2_tls_context(options_of(identity)));
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
  const Identity identity;
  TlsChannel server(http2_tls_context(options_of(identity)));
  TlsClient client(kHttp1);
  std::string plain;
  EXPECT_FALSE(client.exchange(server, plain));
}

TEST(TlsChannel, AsksForTheCertificatesOfClients) {
  const Identity identity;
  const Identity known;
  const Identity stranger;
  TlsOptions options = options_of(identity);
  options.client_ca = known.certificate_text();
  options.require_client = true;
  const auto context = http2_tls_context(options);
  const auto is_taken = [&](const Identity* who) {
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
  const Identity identity;
  TlsChannel server(http2_tls_context(options_of(identity)));
  std::string plain;
  EXPECT_FALSE(server.receive("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", plain));
  EXPECT_EQ(plain, "");
}

TEST(TlsChannel, SaysWhatIsWrongWithCertificates) {
  const Identity identity;
  const Identity other;
  EXPECT_THROW(http2_tls_context({.certificate = "x", .key = identity.key_text()}),
               InvalidArgument);
  EXPECT_THROW(http2_tls_context({.certificate = identity.certificate_text(), .key = ""}),
               InvalidArgument);
  EXPECT_THROW(
      http2_tls_context({.certificate = identity.certificate_text(), .key = other.key_text()}),
      InvalidArgument);
  TlsOptions asking = options_of(identity);
  asking.require_client = true;
  EXPECT_THROW(http2_tls_context(asking), InvalidArgument);
}

}  // namespace
}  // namespace muster::server
