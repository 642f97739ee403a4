#include "muster/platform/net/hmac_internal.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "muster/base/error.h"

namespace muster::net {

Sha256::Digest hmac_sha256(std::string_view key, std::string_view message) {
  Sha256::Digest digest;
  const char* held = key.empty() ? "" : key.data();  // OpenSSL takes no null for a key.
  const auto* bytes = reinterpret_cast<const unsigned char*>(message.data());
  if (HMAC(EVP_sha256(), held, static_cast<int>(key.size()), bytes, message.size(), digest.data(),
           nullptr) == nullptr) {
    throw Internal("OpenSSL cannot compute an HMAC");
  }
  return digest;
}

bool same_digest(const Sha256::Digest& a, const Sha256::Digest& b) {
  return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace muster::net
