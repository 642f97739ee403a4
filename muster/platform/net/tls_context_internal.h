#pragma once

#include <openssl/ssl.h>

#include <optional>

#include "muster/base/sha256.h"
#include "muster/platform/net/tls.h"

namespace muster::net {

/// Secrets that the keys of records derive from, once a handshake has come so far. A session of a
/// TlsContext writes them to where its app data points.
struct TrafficSecrets {
  std::optional<Sha256::Digest> client{};
  std::optional<Sha256::Digest> server{};
};

struct TlsContext::Impl {
  Impl();
  ~Impl();
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  SSL_CTX* const context;
  /// Where it is derived from a secret.
  Sha256::Digest key{};
};

}  // namespace muster::net
