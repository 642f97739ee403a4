#pragma once

#include <memory>

struct ssl_ctx_st;

namespace muster::serving {

struct TlsOptions;

struct TlsContextFree {
  void operator()(ssl_ctx_st* context) const;
};
/// OpenSSL's SSL_CTX.
using TlsContext = std::unique_ptr<ssl_ctx_st, TlsContextFree>;

/// TLS state that the connections of a port share: certificates, CAs, sessions. `protocol` is the
/// only one that is spoken there, by its name in ALPN, and lives as long as the program; null where
/// clients are not asked. Throws InvalidArgument for invalid certificates.
TlsContext tls_context(const TlsOptions& options, const char* protocol = nullptr);

}  // namespace muster::serving
