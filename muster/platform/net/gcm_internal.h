#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>

namespace muster::net {

/// AES-128-GCM with one key, in one direction: what is proved by the same key is decrypted, all
/// else is refused. A message is begin(), add() for each piece of it, then seal() or check().
class Gcm {
 public:
  static constexpr std::size_t kKeyBytes = 16;
  using Nonce = std::array<unsigned char, 12>;
  using Tag = std::array<unsigned char, 16>;
  enum class Direction { kSeal, kOpen };

  Gcm() = default;
  virtual ~Gcm() = default;
  Gcm(const Gcm&) = delete;
  Gcm& operator=(const Gcm&) = delete;

  /// A nonce serves for one message only. `header` is proved with it and not encrypted.
  virtual void begin(const Nonce& nonce, std::span<const unsigned char> header) = 0;
  /// Encrypts or decrypts; `to` may be `from`. What was decrypted is not to be used before check().
  virtual void add(const std::byte* from, std::size_t size, std::byte* to) = 0;
  virtual Tag seal() = 0;
  virtual bool check(const Tag& tag) = 0;
};

using GcmKey = std::span<const unsigned char, Gcm::kKeyBytes>;

/// The fastest that there is here.
std::unique_ptr<Gcm> make_gcm(GcmKey key, Gcm::Direction direction);

std::unique_ptr<Gcm> make_openssl_gcm(GcmKey key, Gcm::Direction direction);
/// Intel's multi-buffer library: where OpenSSL 3.0 encrypts a block by an instruction, this does
/// four, on processors that have VAES with AVX-512, at three times the speed. Null on others, and
/// where the library is not installed.
std::unique_ptr<Gcm> make_fast_gcm(GcmKey key, Gcm::Direction direction);

}  // namespace muster::net
