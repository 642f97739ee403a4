#include "muster/platform/net/tls.h"

#include <fmt/core.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include <array>
#include <charconv>
#include <string_view>
#include <utility>

#include "muster/base/error.h"
#include "muster/platform/net/hmac_internal.h"
#include "muster/platform/net/tls_context_internal.h"

namespace muster::net {
namespace {

// Derives the key of TLS from the secret, which proves tasks to each other by another word.
constexpr std::string_view kKeyWord = "muster tls 1.3";
// It is sent before anything is encrypted, so it tells nothing.
constexpr std::string_view kKeyName = "muster";
constexpr const char* kSuites = "TLS_AES_128_GCM_SHA256";
constexpr std::array<unsigned char, 2> kSuiteNumber{0x13, 0x01};

std::string last_reason() {
  const char* const reason = ERR_reason_error_string(ERR_peek_last_error());
  ERR_clear_error();
  return reason == nullptr ? "unknown error" : reason;
}

SSL_SESSION* session_of_key(SSL* ssl) {
  const auto* const key =
      static_cast<const Sha256::Digest*>(SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl)));
  SSL_SESSION* const session = SSL_SESSION_new();
  const SSL_CIPHER* const suite = SSL_CIPHER_find(ssl, kSuiteNumber.data());
  const bool is_made = session != nullptr && suite != nullptr &&
                       SSL_SESSION_set1_master_key(session, key->data(), key->size()) == 1 &&
                       SSL_SESSION_set_cipher(session, suite) == 1 &&
                       SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) == 1;
  if (is_made) return session;
  SSL_SESSION_free(session);
  return nullptr;
}

// Callback of a connecting client: gives the key that it has.
int use_key(SSL* ssl, const EVP_MD* digest, const unsigned char** name, std::size_t* name_bytes,
            SSL_SESSION** session) {
  *session = nullptr;
  // For another hash the client has none.
  if (digest != nullptr && EVP_MD_get_type(digest) != NID_sha256) return 1;
  *session = session_of_key(ssl);
  *name = reinterpret_cast<const unsigned char*>(kKeyName.data());
  *name_bytes = kKeyName.size();
  return *session != nullptr ? 1 : 0;
}

// Callback of a server: finds the key of that name.
int find_key(SSL* ssl, const unsigned char* name, std::size_t name_bytes, SSL_SESSION** session) {
  const std::string_view asked(reinterpret_cast<const char*>(name), name_bytes);
  *session = asked == kKeyName ? session_of_key(ssl) : nullptr;
  return 1;
}

// OpenSSL's way to tell secrets, a line of text each: "CLIENT_TRAFFIC_SECRET_0", the session's
// random bytes, the secret.
void keep_secret(const SSL* ssl, const char* line) {
  auto* const secrets = static_cast<TrafficSecrets*>(SSL_get_app_data(ssl));
  const std::string_view text(line);
  const bool is_clients = text.starts_with("CLIENT_TRAFFIC_SECRET_0 ");
  if (secrets == nullptr || (!is_clients && !text.starts_with("SERVER_TRAFFIC_SECRET_0 "))) return;
  const std::string_view hex = text.substr(text.rfind(' ') + 1);
  Sha256::Digest secret;
  if (hex.size() != 2 * secret.size()) return;
  for (std::size_t i = 0; i < secret.size(); ++i) {
    const char* const digits = hex.data() + 2 * i;
    if (std::from_chars(digits, digits + 2, secret[i], 16).ptr != digits + 2) return;
  }
  (is_clients ? secrets->client : secrets->server) = secret;
  OPENSSL_cleanse(secret.data(), secret.size());
}

SSL_CTX* make_context() {
  SSL_CTX* const context = SSL_CTX_new(TLS_method());
  const bool is_made =
      context != nullptr && SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) == 1 &&
      SSL_CTX_set_max_proto_version(context, TLS1_3_VERSION) == 1 &&
      SSL_CTX_set_ciphersuites(context, kSuites) == 1 && SSL_CTX_set_num_tickets(context, 0) == 1;
  if (!is_made) throw Internal("OpenSSL makes no context for TLS 1.3: {}", last_reason());
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_quiet_shutdown(context, 1);
  SSL_CTX_set_keylog_callback(context, keep_secret);
  return context;
}

[[noreturn]] void throw_bad_file(const char* what, const Path& file) {
  throw InvalidArgument("{} cannot be read as {}: {}; give a file in PEM format", file.string(),
                        what, last_reason());
}

}  // namespace

TlsContext::Impl::Impl() : context(make_context()) {}
TlsContext::Impl::~Impl() { SSL_CTX_free(context); }

TlsContext::TlsContext(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
TlsContext::~TlsContext() = default;

std::shared_ptr<const TlsContext> TlsContext::from_secret(const std::string& secret) {
  if (secret.empty()) {
    throw InvalidArgument(
        "TLS has no key: set MUSTER_SECRET to the same long random text for all tasks, or "
        "name a certificate, its key and the authority");
  }
  auto impl = std::make_unique<Impl>();
  impl->key = hmac_sha256(secret, kKeyWord);
  SSL_CTX_set_app_data(impl->context, &impl->key);
  SSL_CTX_set_psk_use_session_callback(impl->context, use_key);
  SSL_CTX_set_psk_find_session_callback(impl->context, find_key);
  return std::shared_ptr<const TlsContext>(new TlsContext(std::move(impl)));
}

std::shared_ptr<const TlsContext> TlsContext::from_files(const TlsFiles& files) {
  auto impl = std::make_unique<Impl>();
  SSL_CTX* const context = impl->context;
  if (SSL_CTX_use_certificate_chain_file(context, files.certificate.c_str()) != 1) {
    throw_bad_file("a certificate", files.certificate);
  }
  if (SSL_CTX_use_PrivateKey_file(context, files.key.c_str(), SSL_FILETYPE_PEM) != 1) {
    throw_bad_file("a private key of the certificate", files.key);
  }
  if (SSL_CTX_load_verify_locations(context, files.authority.c_str(), nullptr) != 1) {
    throw_bad_file("the certificates of an authority", files.authority);
  }
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  return std::shared_ptr<const TlsContext>(new TlsContext(std::move(impl)));
}

}  // namespace muster::net
