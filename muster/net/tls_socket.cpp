#include <fmt/core.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "muster/base/error.h"
#include "muster/net/tls_context_internal.h"
#include "muster/net/tls_socket_internal.h"

namespace muster::net {
namespace {

// What one call encrypts, or reads to be decrypted: small enough to stay in a cache.
constexpr std::size_t kChunk = std::size_t{128} << 10;
// The largest record of TLS.
constexpr std::size_t kRecord = std::size_t{16} << 10;

// A fatal alert of TLS: the protocol version is another.
constexpr std::array kAlert{std::byte{0x15}, std::byte{0x03}, std::byte{0x03}, std::byte{0x00},
                            std::byte{0x02}, std::byte{0x02}, std::byte{0x46}};

bool is_foreign_reason(int reason) {
  return reason == SSL_R_WRONG_VERSION_NUMBER || reason == SSL_R_HTTP_REQUEST;
}

bool is_wrong_key_reason(int reason) {
  switch (reason) {
    case SSL_R_TLSV1_ALERT_DECRYPT_ERROR:
    case SSL_R_BINDER_DOES_NOT_VERIFY:
    case SSL_R_DIGEST_CHECK_FAILED:
    case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
    case SSL_R_CERTIFICATE_VERIFY_FAILED:
    case SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE:
    case SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED:
    case SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE:
    case SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM:
    case SSL_R_NO_SUITABLE_KEY_SHARE:
    case SSL_R_SSLV3_ALERT_ILLEGAL_PARAMETER:
      return true;
    default:
      return false;
  }
}

std::string describe_reason(int reason, bool is_open) {
  const char* const words = ERR_reason_error_string(ERR_PACK(ERR_LIB_SSL, 0, reason));
  const std::string said = words == nullptr ? "unknown error" : words;
  if (is_wrong_key_reason(reason)) {
    return fmt::format(
        "has another key for TLS ({}); give all tasks the same secret, or certificates of one "
        "authority",
        said);
  }
  if (is_foreign_reason(reason)) {
    return fmt::format("does not speak TLS ({}); give all tasks the same MUSTER_TLS", said);
  }
  if (is_open) {
    return fmt::format("sent bytes that were changed on the way (TLS: {})", said);
  }
  return fmt::format("makes no TLS session ({})", said);
}

}  // namespace

/// Encrypted bytes between the session and the socket.
struct TlsSocket::Bytes {
  /// The receiving thread's own; the session takes them from `taken` on.
  std::unique_ptr<std::byte[]> in{new std::byte[kChunk]};
  std::size_t taken = 0;
  std::size_t filled = 0;
  /// What the session made, by whichever thread.
  std::vector<std::byte> encrypted;
  /// The sending thread's own: not sent yet, from `sent` on.
  std::vector<std::byte> out;
  std::size_t sent = 0;

  static int read(BIO* bio, char* to, std::size_t size, std::size_t* count) {
    auto& self = *static_cast<Bytes*>(BIO_get_data(bio));
    BIO_clear_retry_flags(bio);
    *count = std::min(size, self.filled - self.taken);
    if (*count == 0) {
      BIO_set_retry_read(bio);
      return 0;
    }
    std::memcpy(to, self.in.get() + self.taken, *count);
    self.taken += *count;
    return 1;
  }
  static int write(BIO* bio, const char* from, std::size_t size, std::size_t* count) {
    auto& self = *static_cast<Bytes*>(BIO_get_data(bio));
    const auto* const bytes = reinterpret_cast<const std::byte*>(from);
    self.encrypted.insert(self.encrypted.end(), bytes, bytes + size);
    *count = size;
    return 1;
  }
  static long control(BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH ? 1 : 0; }

  static const BIO_METHOD* method() {
    static BIO_METHOD* const made = [] {
      BIO_METHOD* const one = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "muster");
      if (one == nullptr) throw Internal("OpenSSL makes no BIO");
      BIO_meth_set_read_ex(one, read);
      BIO_meth_set_write_ex(one, write);
      BIO_meth_set_ctrl(one, control);
      return one;
    }();
    return made;
  }
};

TlsSocket::TlsSocket(Socket& connected, const TlsContext& context, Side side)
    : Socket(connected.release()), bytes_(std::make_unique<Bytes>()) {
  session_ = SSL_new(context.impl_->context);
  BIO* const bio = BIO_new(Bytes::method());
  if (session_ == nullptr || bio == nullptr) {
    BIO_free(bio);
    SSL_free(session_);
    throw Internal("OpenSSL makes no session");
  }
  BIO_set_data(bio, bytes_.get());
  BIO_set_init(bio, 1);
  SSL_set_bio(session_, bio, bio);
  if (side == Side::kClient) {
    SSL_set_connect_state(session_);
  } else {
    SSL_set_accept_state(session_);
  }
}

TlsSocket::~TlsSocket() { SSL_free(session_); }

// With the mutex held.
void TlsSocket::fail(int result) {
  const int error = SSL_get_error(session_, result);
  const bool is_waiting = error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE;
  if (is_waiting || !failure_.empty()) return;
  const auto code = ERR_peek_error();
  failure_ = describe_reason(ERR_GET_REASON(code), is_open_);
  is_wrong_key_ = !is_open_ && is_wrong_key_reason(ERR_GET_REASON(code));
  // OpenSSL says nothing to a peer that speaks something else; a task without TLS knows an alert.
  if (is_foreign_reason(ERR_GET_REASON(code)) && bytes_->encrypted.empty()) {
    bytes_->encrypted.assign(kAlert.begin(), kAlert.end());
  }
}

std::string TlsSocket::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

bool TlsSocket::has_ahead() const {
  const std::lock_guard lock(mutex_);
  if (!failure_.empty()) return false;
  return bytes_->taken < bytes_->filled || SSL_pending(session_) > 0;
}

// With the mutex held; false while it is not over, or when it failed.
bool TlsSocket::shake_hands() {
  if (is_open_) return true;
  ERR_clear_error();
  const int result = SSL_do_handshake(session_);
  is_open_ = result == 1;
  if (!is_open_) fail(result);
  return is_open_;
}

// With the mutex held: into `out`.
void TlsSocket::write_record(const void* data, std::size_t size) {
  ERR_clear_error();
  std::size_t written = 0;
  const int result = SSL_write_ex(session_, data, size, &written);
  if (result == 1) return;
  fail(result);
  if (failure_.empty()) failure_ = "takes no more records (TLS)";
}

// With the mutex held: how much of the pieces; small ones share a record.
std::size_t TlsSocket::encrypt(std::span<const iovec> pieces) {
  std::array<std::byte, kRecord> record;
  std::size_t in_record = 0, total = 0;
  const auto end_record = [&] {
    if (in_record > 0) write_record(record.data(), in_record);
    in_record = 0;
  };
  for (const iovec& piece : pieces) {
    const auto* from = static_cast<const std::byte*>(piece.iov_base);
    std::size_t left = std::min(piece.iov_len, kChunk - total);
    total += left;
    while (left > 0) {
      if (in_record == 0 && left >= kRecord) {
        const std::size_t whole = left / kRecord * kRecord;
        write_record(from, whole);
        from += whole;
        left -= whole;
        continue;
      }
      const std::size_t count = std::min(left, kRecord - in_record);
      std::memcpy(record.data() + in_record, from, count);
      in_record += count;
      from += count;
      left -= count;
      if (in_record == kRecord) end_record();
    }
    if (total == kChunk) break;
  }
  end_record();
  return total;
}

// With the mutex held.
std::size_t TlsSocket::decrypt(std::span<const iovec> pieces) {
  std::size_t total = 0;
  for (const iovec& piece : pieces) {
    for (std::size_t done = 0; done < piece.iov_len;) {
      ERR_clear_error();
      std::size_t count = 0;
      const int result = SSL_read_ex(session_, static_cast<std::byte*>(piece.iov_base) + done,
                                     piece.iov_len - done, &count);
      if (result != 1) {
        fail(result);
        return total;
      }
      done += count;
      total += count;
    }
  }
  return total;
}

// With the mutex held: what is to be sent.
void TlsSocket::collect() {
  if (bytes_->encrypted.empty()) return;
  if (bytes_->out.empty()) {
    std::swap(bytes_->out, bytes_->encrypted);
  } else {
    bytes_->out.insert(bytes_->out.end(), bytes_->encrypted.begin(), bytes_->encrypted.end());
  }
  bytes_->encrypted.clear();
  has_unsent_ = true;
}

// Sends it. The socket is the caller's alone to send at.
Moved TlsSocket::flush(bool waits) {
  std::vector<std::byte>& out = bytes_->out;
  while (bytes_->sent < out.size()) {
    const iovec rest{.iov_base = out.data() + bytes_->sent, .iov_len = out.size() - bytes_->sent};
    const Moved moved = waits ? Socket::send_soon({&rest, 1}) : Socket::send({&rest, 1});
    bytes_->sent += moved.bytes;
    if (moved.error != 0) return moved;
  }
  out.clear();
  bytes_->sent = 0;
  has_unsent_ = false;
  return {};
}

Moved TlsSocket::send(std::span<const iovec> pieces, bool waits) {
  for (;;) {
    if (const Moved moved = flush(waits); moved.error != 0) return moved;
    bool is_open = false;
    std::size_t taken = 0;
    {
      const std::lock_guard lock(mutex_);
      is_open = shake_hands();
      if (is_open) taken = encrypt(pieces);
      collect();
    }
    // What does not fit now is sent by the next call.
    const Moved moved = flush(waits);
    if (!failure().empty()) return {.error = EBADMSG};
    if (moved.error != 0 && !moved.would_block()) return moved;
    if (is_open) return {.bytes = taken};
    // The peer's part of the handshake.
    if (const Moved came = fill(/*waits=*/false); came.bytes == 0) {
      return {.error = came.error == 0 ? ECONNRESET : came.error};
    }
  }
}

// Reads encrypted bytes, when those before are used up.
Moved TlsSocket::fill(bool waits) {
  const iovec room{.iov_base = bytes_->in.get(), .iov_len = kChunk};
  const Moved moved = waits ? Socket::receive_soon({&room, 1}) : Socket::receive({&room, 1});
  if (moved.bytes == 0) return moved;
  const std::lock_guard lock(mutex_);
  bytes_->taken = 0;
  bytes_->filled = moved.bytes;
  return moved;
}

Moved TlsSocket::receive(std::span<const iovec> pieces, bool waits) {
  for (;;) {
    bool was_open = false;
    {
      const std::lock_guard lock(mutex_);
      was_open = is_open_;
      if (shake_hands()) {
        if (const std::size_t count = decrypt(pieces); count > 0) return {.bytes = count};
      }
      // Until the handshake is over, the thread that receives sends, too.
      if (!was_open) collect();
    }
    if (!was_open) flush(/*waits=*/false);
    if (!failure().empty()) return {.error = EBADMSG};
    if (const Moved moved = fill(waits); moved.bytes == 0) return moved;
  }
}

bool TlsSocket::wait(short events, const Deadline& deadline, const WaitReason& reason) {
  bool is_open = false;
  {
    const std::lock_guard lock(mutex_);
    is_open = is_open_;
  }
  if (is_open && (events & POLLIN) != 0 && has_ahead()) return true;
  // A handshake goes on when the peer has answered.
  const auto awaited = static_cast<short>(has_unsent_ ? POLLIN | POLLOUT : POLLIN);
  return Socket::wait(is_open ? events : awaited, deadline, reason);
}

}  // namespace muster::net
