#include "muster/server/tls_channel_internal.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>

#include <limits>
#include <new>

#include "muster/base/error.h"

namespace muster::server {
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
  if (!out) ::ERR_clear_error();
  return out;
}

void use_certificates(SSL_CTX* context, const std::string& text) {
  const Bio bio = bio_of(text);
  Certificate first = next_certificate(bio.get());
  if (!first || ::SSL_CTX_use_certificate(context, first.get()) != 1) throw_tls_error();
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

// Clients that offer protocols without HTTP/2 are refused; those that offer none are taken.
int choose_http2(SSL*, const unsigned char** out, unsigned char* out_size, const unsigned char* in,
                 unsigned in_size, void*) {
  const std::string_view offered(reinterpret_cast<const char*>(in), in_size);
  for (std::size_t at = 0; at < offered.size();) {
    const auto size = static_cast<unsigned char>(offered[at]);
    if (offered.substr(at + 1, size) == "h2") {
      *out = in + at + 1;
      *out_size = size;
      return SSL_TLSEXT_ERR_OK;
    }
    at += 1 + std::size_t{size};
  }
  return SSL_TLSEXT_ERR_ALERT_FATAL;
}

}  // namespace

std::shared_ptr<ssl_ctx_st> http2_tls_context(const TlsOptions& options) {
  const std::shared_ptr<SSL_CTX> holder(::SSL_CTX_new(::TLS_server_method()), ::SSL_CTX_free);
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
  ::SSL_CTX_set_alpn_select_cb(context, choose_http2, nullptr);
  return holder;
}

TlsChannel::TlsChannel(std::shared_ptr<ssl_ctx_st> context)
    : context_(std::move(context)), ssl_(::SSL_new(context_.get()), ::SSL_free) {
  if (!ssl_) throw std::bad_alloc();
  // Owned by the SSL object.
  BIO* const in = ::BIO_new(::BIO_s_mem());
  BIO* const out = ::BIO_new(::BIO_s_mem());
  ::SSL_set_bio(ssl_.get(), in, out);
  if (in == nullptr || out == nullptr) throw std::bad_alloc();
  ::SSL_set_accept_state(ssl_.get());
}

TlsChannel::~TlsChannel() = default;

bool TlsChannel::receive(std::string_view bytes, std::string& plain) {
  ::ERR_clear_error();
  const int size = static_cast<int>(bytes.size());
  if (::BIO_write(::SSL_get_rbio(ssl_.get()), bytes.data(), size) != size) return false;
  char piece[16 << 10];
  while (true) {
    const int count = ::SSL_read(ssl_.get(), piece, sizeof piece);
    if (count > 0) {
      plain.append(piece, static_cast<std::size_t>(count));
      continue;
    }
    const int error = ::SSL_get_error(ssl_.get(), count);
    ::ERR_clear_error();
    return error == SSL_ERROR_WANT_READ;
  }
}

void TlsChannel::send(std::string_view plain) {
  ::ERR_clear_error();
  while (!plain.empty()) {
    constexpr std::size_t kMost = std::numeric_limits<int>::max();
    const int count =
        ::SSL_write(ssl_.get(), plain.data(), static_cast<int>(std::min(plain.size(), kMost)));
    if (count <= 0) return;  // The channel is broken; receive() says so, too.
    plain.remove_prefix(static_cast<std::size_t>(count));
  }
}

void TlsChannel::take_output(std::string& out) {
  BIO* const bio = ::SSL_get_wbio(ssl_.get());
  const std::size_t size = ::BIO_ctrl_pending(bio);
  if (size == 0) return;
  const std::size_t at = out.size();
  out.resize(at + size);
  const int count = ::BIO_read(bio, out.data() + at, static_cast<int>(size));
  out.resize(at + static_cast<std::size_t>(std::max(count, 0)));
}

bool TlsChannel::is_open() const { return ::SSL_is_init_finished(ssl_.get()) == 1; }

}  // namespace muster::server
