#include "muster/base/sha256.h"

#include <fmt/core.h>
#include <openssl/evp.h>

#include "muster/base/error.h"

namespace muster {
namespace {

void check(int status) {
  if (status != 1) throw Internal("OpenSSL cannot compute a SHA-256");
}

std::string hex_of(const Sha256::Digest& digest) {
  std::string hex;
  for (const std::uint8_t byte : digest) hex += fmt::format("{:02x}", byte);
  return hex;
}

}  // namespace

void Sha256::Free::operator()(evp_md_ctx_st* context) const { EVP_MD_CTX_free(context); }

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  check(EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr));
}

Sha256::Sha256(const Sha256& other) : context_(EVP_MD_CTX_new()) {
  check(EVP_MD_CTX_copy_ex(context_.get(), other.context_.get()));
}

Sha256& Sha256::operator=(const Sha256& other) { return *this = Sha256(other); }

void Sha256::update(std::string_view bytes) {
  check(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()));
}

Sha256::Digest Sha256::digest() const {
  const Sha256 last = *this;
  Digest result;
  check(EVP_DigestFinal_ex(last.context_.get(), result.data(), nullptr));
  return result;
}

std::string Sha256::hex_digest() const { return hex_of(digest()); }

std::string sha256_hex(std::string_view bytes) {
  Sha256::Digest result;
  check(EVP_Digest(bytes.data(), bytes.size(), result.data(), nullptr, EVP_sha256(), nullptr));
  return hex_of(result);
}

}  // namespace muster
