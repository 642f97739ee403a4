#include "muster/platform/net/gcm_internal.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include "muster/base/error.h"

#ifdef MUSTER_IPSEC_MB
#define NO_COMPAT_IMB_API_053  // Old names, among them OpenSSL's SHA1.
#include <dlfcn.h>
#include <intel-ipsec-mb.h>
#endif

namespace muster::net {
namespace {

constexpr int kTagBytes = sizeof(Gcm::Tag);

class OpenSslGcm final : public Gcm {
 public:
  OpenSslGcm(GcmKey key, Direction direction)
      : context_(EVP_CIPHER_CTX_new(), EVP_CIPHER_CTX_free) {
    if (!context_) throw Internal("OpenSSL makes no cipher");
    expect(EVP_CipherInit_ex(context_.get(), EVP_aes_128_gcm(), nullptr, key.data(), nullptr,
                             direction == Direction::kSeal ? 1 : 0));
  }

  void begin(const Nonce& nonce, std::span<const unsigned char> header) override {
    int count = 0;
    expect(EVP_CipherInit_ex(context_.get(), nullptr, nullptr, nullptr, nonce.data(), -1));
    expect(EVP_CipherUpdate(context_.get(), nullptr, &count, header.data(),
                            static_cast<int>(header.size())));
  }
  void add(const std::byte* from, std::size_t size, std::byte* to) override {
    int count = 0;
    expect(EVP_CipherUpdate(context_.get(), reinterpret_cast<unsigned char*>(to), &count,
                            reinterpret_cast<const unsigned char*>(from), static_cast<int>(size)));
  }
  Tag seal() override {
    Tag tag;
    expect(finish());
    expect(EVP_CIPHER_CTX_ctrl(context_.get(), EVP_CTRL_AEAD_GET_TAG, kTagBytes, tag.data()));
    return tag;
  }
  bool check(const Tag& tag) override {
    expect(EVP_CIPHER_CTX_ctrl(context_.get(), EVP_CTRL_AEAD_SET_TAG, kTagBytes,
                               const_cast<unsigned char*>(tag.data())));
    return finish() == 1;
  }

 private:
  int finish() {
    unsigned char none = 0;
    int count = 0;
    return EVP_CipherFinal_ex(context_.get(), &none, &count);
  }
  static void expect(int result) {
    if (result != 1) throw Internal("OpenSSL cannot compute AES-128-GCM");
  }

  std::unique_ptr<EVP_CIPHER_CTX, decltype(&EVP_CIPHER_CTX_free)> context_;
};

#ifdef MUSTER_IPSEC_MB

// Manager with pointers to the library's functions, which any thread may call; null for none.
IMB_MGR* make_manager() {
  // Not linked: programs run without it, too.
  void* const library = ::dlopen("libIPSec_MB.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return nullptr;
  const auto allocate = reinterpret_cast<decltype(&alloc_mb_mgr)>(::dlsym(library, "alloc_mb_mgr"));
  const auto start =
      reinterpret_cast<decltype(&init_mb_mgr_auto)>(::dlsym(library, "init_mb_mgr_auto"));
  const auto release = reinterpret_cast<decltype(&free_mb_mgr)>(::dlsym(library, "free_mb_mgr"));
  const bool is_whole = allocate != nullptr && start != nullptr && release != nullptr;
  IMB_MGR* const made = is_whole ? allocate(0) : nullptr;
  if (made == nullptr) return nullptr;
  start(made, nullptr);
  constexpr std::uint64_t kNeeded =
      IMB_FEATURE_AVX512_SKX | IMB_FEATURE_VAES | IMB_FEATURE_VPCLMULQDQ;
  if ((made->features & kNeeded) == kNeeded) return made;
  release(made);
  return nullptr;
}

const IMB_MGR* manager() {
  static const IMB_MGR* const made = make_manager();
  return made;
}

class FastGcm final : public Gcm {
 public:
  FastGcm(GcmKey key, Direction direction) : direction_(direction) {
    IMB_AES128_GCM_PRE(manager(), key.data(), &key_);
  }
  ~FastGcm() override {
    OPENSSL_cleanse(&key_, sizeof key_);
    OPENSSL_cleanse(&state_, sizeof state_);
  }

  void begin(const Nonce& nonce, std::span<const unsigned char> header) override {
    IMB_AES128_GCM_INIT(manager(), &key_, &state_, nonce.data(), header.data(), header.size());
  }
  void add(const std::byte* from, std::size_t size, std::byte* to) override {
    const auto* const source = reinterpret_cast<const std::uint8_t*>(from);
    auto* const target = reinterpret_cast<std::uint8_t*>(to);
    if (direction_ == Direction::kSeal) {
      IMB_AES128_GCM_ENC_UPDATE(manager(), &key_, &state_, target, source, size);
    } else {
      IMB_AES128_GCM_DEC_UPDATE(manager(), &key_, &state_, target, source, size);
    }
  }
  Tag seal() override {
    Tag tag;
    IMB_AES128_GCM_ENC_FINALIZE(manager(), &key_, &state_, tag.data(), tag.size());
    return tag;
  }
  bool check(const Tag& tag) override {
    Tag computed;
    IMB_AES128_GCM_DEC_FINALIZE(manager(), &key_, &state_, computed.data(), computed.size());
    return CRYPTO_memcmp(computed.data(), tag.data(), tag.size()) == 0;
  }

 private:
  const Direction direction_;
  // The library moves whole registers.
  alignas(64) gcm_key_data key_{};
  alignas(64) gcm_context_data state_{};
};

#endif

}  // namespace

std::unique_ptr<Gcm> make_openssl_gcm(GcmKey key, Gcm::Direction direction) {
  return std::make_unique<OpenSslGcm>(key, direction);
}

std::unique_ptr<Gcm> make_fast_gcm([[maybe_unused]] GcmKey key,
                                   [[maybe_unused]] Gcm::Direction direction) {
#ifdef MUSTER_IPSEC_MB
  if (manager() != nullptr) return std::make_unique<FastGcm>(key, direction);
#endif
  return nullptr;
}

std::unique_ptr<Gcm> make_gcm(GcmKey key, Gcm::Direction direction) {
  if (auto fast = make_fast_gcm(key, direction)) return fast;
  return make_openssl_gcm(key, direction);
}

}  // namespace muster::net
