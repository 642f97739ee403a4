#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

struct evp_md_ctx_st;

namespace muster {

/// The SHA-256 (FIPS 180-4) of bytes that come in pieces, by OpenSSL. Copying it copies the state.
class Sha256 {
 public:
  using Digest = std::array<std::uint8_t, 32>;

  Sha256();
  ~Sha256() = default;
  Sha256(const Sha256& other);
  Sha256& operator=(const Sha256& other);
  Sha256(Sha256&&) noexcept = default;
  Sha256& operator=(Sha256&&) noexcept = default;

  void update(std::string_view bytes);
  /// The digest of everything so far; more may follow.
  Digest digest() const;
  /// The same as 64 hexadecimal letters.
  std::string hex_digest() const;

 private:
  struct Free {
    void operator()(evp_md_ctx_st* context) const;
  };
  std::unique_ptr<evp_md_ctx_st, Free> context_;
};

/// The SHA-256 of some bytes as 64 hexadecimal letters.
std::string sha256_hex(std::string_view bytes);

}  // namespace muster
