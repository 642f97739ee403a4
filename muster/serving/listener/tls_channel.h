#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "muster/serving/listener/tls_options.h"

struct ssl_st;
struct ssl_ctx_st;

namespace muster::serving {

/// HTTP/2's name in ALPN.
inline constexpr const char* kHttp2Protocol = "h2";

/// The certificates of a server whose clients speak HTTP/2 (ALPN "h2"). Throws InvalidArgument for
/// invalid certificates.
std::shared_ptr<ssl_ctx_st> http2_tls_context(const TlsOptions& options);

/// The server's end of TLS without a socket: what came goes in, what is to be sent comes out. One
/// thread at a time.
class TlsChannel {
 public:
  explicit TlsChannel(std::shared_ptr<ssl_ctx_st> context);
  ~TlsChannel();
  TlsChannel(const TlsChannel&) = delete;
  TlsChannel& operator=(const TlsChannel&) = delete;

  /// Appends to `plain` what the bytes say. False when the handshake fails, the client closes or
  /// the bytes are no TLS; what is to be sent says why.
  bool receive(std::string_view bytes, std::string& plain);
  /// Encrypts, once the handshake is done.
  void send(std::string_view plain);
  /// Appends what is to be sent.
  void take_output(std::string& out);
  bool is_open() const;

 private:
  std::shared_ptr<ssl_ctx_st> context_;
  std::unique_ptr<ssl_st, void (*)(ssl_st*)> ssl_;
};

}  // namespace muster::serving
