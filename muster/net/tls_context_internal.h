#pragma once

#include <openssl/ssl.h>

#include "muster/base/sha256.h"
#include "muster/net/tls.h"

namespace muster::net {

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
