#include "muster/serving/listener/tls_context.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/pemerr.h>
#include <openssl/ssl.h>

#include <new>
#include <string>

#include "muster/base/error.h"
#include "muster/serving/listener/tls_options.h"

namespace muster::serving {
namespace {

struct Free {
  void operator()(BIO* bio) const { ::BIO_free(bio); }
  void operator()(X509* certificate) const { ::X509_free(certificate); }
  void operator()(EVP_PKEY* key) const { ::EVP_PKEY_free(key); }
};
using Bio = std::unique_ptr<BIO, Free>;
using Certificate = std::unique_ptr<X509, Free>;
using Key = std::unique_ptr<EVP_PKEY, Free>;

[[noreturn]] void throw_tls_error() {
  char text[256] = "";
  ::ERR_error_string_n(::ERR_get_error(), text, sizeof text);
  ::ERR_clear_error();
  throw InvalidArgument("the certificate or key for TLS cannot be used: {}", text);
}

Bio bio_of(const std::string& text) {
  return Bio(::BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

// Nothing at the end of the text.
Certificate next_certificate(BIO* bio) {
  Certificate out(::PEM_read_bio_X509(bio, nullptr, nullptr, nullptr));
  if (out) return out;
  const unsigned long error = ::ERR_peek_last_error();
  if (ERR_GET_LIB(error) != ERR_LIB_PEM || ERR_GET_REASON(error) != PEM_R_NO_START_LINE) {
    throw_tls_error();
  }
  ::ERR_clear_error();
  return out;
}

void use_certificates(SSL_CTX* context, const std::string& text) {
  const Bio bio = bio_of(text);
  const Certificate first = next_certificate(bio.get());
  if (!first) throw InvalidArgument("the certificate for TLS cannot be used: there is none");
  if (::SSL_CTX_use_certificate(context, first.get()) != 1) throw_tls_error();
  while (Certificate more = next_certificate(bio.get())) {
    if (::SSL_CTX_add0_chain_cert(context, more.get()) != 1) throw_tls_error();
    static_cast<void>(more.release());
  }
}

void use_key(SSL_CTX* context, const std::string& text) {
  const Bio bio = bio_of(text);
  const Key key(::PEM_read_bio_PrivateKey(bio.get(), nullptr, nullptr, nullptr));
  if (!key || ::SSL_CTX_use_PrivateKey(context, key.get()) != 1 ||
      ::SSL_CTX_check_private_key(context) != 1) {
    throw_tls_error();
  }
}

void trust(SSL_CTX* context, const std::string& text) {
  const Bio bio = bio_of(text);
  while (const Certificate one = next_certificate(bio.get())) {
    if (::X509_STORE_add_cert(::SSL_CTX_get_cert_store(context), one.get()) != 1) throw_tls_error();
    ::SSL_CTX_add_client_CA(context, one.get());
  }
}

// Clients that offer protocols without the one that is spoken are refused; those that offer none
// are taken. `spoken` is its name, which ends with a zero.
int choose_protocol(SSL*, const unsigned char** out, unsigned char* out_size,
                    const unsigned char* in, unsigned in_size, void* spoken) {
  const std::string_view offered(reinterpret_cast<const char*>(in), in_size);
  for (std::size_t at = 0; at < offered.size();) {
    const auto size = static_cast<unsigned char>(offered[at]);
    if (offered.substr(at + 1, size) == static_cast<const char*>(spoken)) {
      *out = in + at + 1;
      *out_size = size;
      return SSL_TLSEXT_ERR_OK;
    }
    at += 1 + std::size_t{size};
  }
  return SSL_TLSEXT_ERR_ALERT_FATAL;
}

}  // namespace

void TlsContextFree::operator()(ssl_ctx_st* context) const { ::SSL_CTX_free(context); }

TlsContext tls_context(const TlsOptions& options, const char* protocol) {
  TlsContext holder(::SSL_CTX_new(::TLS_server_method()));
  SSL_CTX* const context = holder.get();
  if (context == nullptr) throw std::bad_alloc();
  ::SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  ::SSL_CTX_set_options(context, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION);
  ::SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  use_certificates(context, options.certificate);
  use_key(context, options.key);
  if (!options.client_ca.empty()) trust(context, options.client_ca);
  if (options.require_client) {
    if (options.client_ca.empty()) {
      throw InvalidArgument("client certificates are asked for, but there is no custom_ca");
    }
    ::SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  }
  // Sessions that are taken up again must know whose they are.
  constexpr std::string_view kName = "muster";
  ::SSL_CTX_set_session_id_context(context, reinterpret_cast<const unsigned char*>(kName.data()),
                                   kName.size());
  if (protocol != nullptr) {
    ::SSL_CTX_set_alpn_select_cb(context, choose_protocol, const_cast<char*>(protocol));
  }
  return holder;
}

}  // namespace muster::serving
