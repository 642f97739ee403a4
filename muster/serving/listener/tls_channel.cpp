#include "muster/serving/listener/tls_channel.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include <limits>
#include <new>

#include "muster/serving/listener/tls_context.h"

namespace muster::serving {

std::shared_ptr<ssl_ctx_st> http2_tls_context(const TlsOptions& options) {
  return tls_context(options, kHttp2Protocol);
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

}  // namespace muster::serving
