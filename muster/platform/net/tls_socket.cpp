#include <fmt/core.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/platform/net/tls_context_internal.h"
#include "muster/platform/net/tls_records_internal.h"
#include "muster/platform/net/tls_socket_internal.h"

namespace muster::net {
namespace {

// Bytes that one call encrypts, or reads to be decrypted: small enough to stay in a cache.
constexpr std::size_t kChunk = std::size_t{128} << 10;
// Bytes of the records made of one chunk.
const std::size_t kChunkRecords = RecordWriter::room_for(kChunk);

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

std::string describe_reason(int reason) {
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
  return fmt::format("makes no TLS session ({})", said);
}

}  // namespace

/// Bytes between the socket and those who send and receive.
struct TlsSocket::Bytes {
  TrafficSecrets secrets{};
  /// Output of the handshake, made by any thread.
  std::vector<std::byte> encrypted;

  /// The receiving thread's own: encrypted bytes, taken up to `taken`.
  std::unique_ptr<std::byte[]> in{new std::byte[kChunk]};
  std::size_t taken = 0;
  std::size_t filled = 0;
  /// Text that a record carried beyond the bytes asked for.
  std::unique_ptr<std::byte[]> text{new std::byte[kMostRecordBytes]};
  std::size_t text_taken = 0;
  std::size_t text_filled = 0;
  std::optional<RecordReader> reader{};

  /// The sending thread's own: encrypted bytes, sent up to `sent`.
  std::unique_ptr<std::byte[]> out{new std::byte[kChunkRecords]};
  std::size_t sent = 0;
  std::size_t made = 0;
  std::optional<RecordWriter> writer{};

  std::span<const std::byte> come() const { return {in.get() + taken, filled - taken}; }

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
    : Socket(connected.release()), side_(side), bytes_(std::make_unique<Bytes>()) {
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
  SSL_set_app_data(session_, &bytes_->secrets);
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
  if (is_waiting || has_failed_) return;
  const int reason = ERR_GET_REASON(ERR_peek_error());
  failure_ = describe_reason(reason);
  is_wrong_key_ = is_wrong_key_reason(reason);
  has_failed_ = true;
  // OpenSSL says nothing to a peer that speaks something else; a task without TLS knows an alert.
  if (is_foreign_reason(reason) && bytes_->encrypted.empty()) {
    bytes_->encrypted.assign(kAlert.begin(), kAlert.end());
  }
}

// Marks an open session as failed.
void TlsSocket::fail_records(std::string why, bool is_wrong_key) {
  const std::lock_guard lock(mutex_);
  if (has_failed_) return;
  failure_ = std::move(why);
  is_wrong_key_ = is_wrong_key;
  has_failed_ = true;
}

std::string TlsSocket::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

bool TlsSocket::has_ahead() const {
  if (has_failed_) return false;
  if (!is_open_) {
    const std::lock_guard lock(mutex_);
    return bytes_->taken < bytes_->filled;
  }
  if (bytes_->text_taken < bytes_->text_filled) return true;
  try {
    return RecordReader::size_of(bytes_->come()).has_value();
  } catch (const DataLoss&) {
    return true;  // That it is none is what will be received.
  }
}

// With the mutex held; false while it is not over, or when it failed.
bool TlsSocket::shake_hands() {
  if (is_open_) return true;
  if (has_failed_) return false;
  ERR_clear_error();
  const int result = SSL_do_handshake(session_);
  if (result == 1) {
    open();
  } else {
    fail(result);
  }
  return is_open_;
}

// With the mutex held: from here on records are ours. The session has read its own and not a byte
// more.
void TlsSocket::open() {
  auto& [client, server] = bytes_->secrets;
  if (!client || !server) throw Internal("OpenSSL tells no secrets of TLS");
  const bool is_client = side_ == Side::kClient;
  bytes_->writer.emplace(is_client ? *client : *server);
  bytes_->reader.emplace(is_client ? *server : *client);
  OPENSSL_cleanse(client->data(), client->size());
  OPENSSL_cleanse(server->data(), server->size());
  SSL_free(std::exchange(session_, nullptr));
  is_open_ = true;
}

// Into `out`, which is empty: how much of the pieces.
std::size_t TlsSocket::encrypt(std::span<const iovec> pieces) {
  std::size_t size = 0;
  for (const iovec& piece : pieces) size += piece.iov_len;
  size = std::min(size, kChunk);
  bytes_->made = bytes_->writer->write(pieces, size, bytes_->out.get());
  has_unsent_ = bytes_->made > 0;
  return size;
}

std::size_t TlsSocket::decrypt(std::span<const iovec> pieces) {
  std::size_t total = 0;
  for (const iovec& piece : pieces) {
    const std::span room(static_cast<std::byte*>(piece.iov_base), piece.iov_len);
    const std::size_t count = decrypt_into(room);
    total += count;
    if (count < room.size()) break;
  }
  return total;
}

std::size_t TlsSocket::decrypt_into(std::span<std::byte> room) {
  Bytes& bytes = *bytes_;
  std::size_t done = 0;
  try {
    while (done < room.size() && !has_failed_) {
      const std::size_t left = room.size() - done;
      if (bytes.text_taken < bytes.text_filled) {
        const std::size_t count = std::min(left, bytes.text_filled - bytes.text_taken);
        std::memcpy(room.data() + done, bytes.text.get() + bytes.text_taken, count);
        bytes.text_taken += count;
        done += count;
        continue;
      }
      const auto size = RecordReader::size_of(bytes.come());
      if (!size) break;
      const auto record = bytes.come().first(*size);
      bytes.taken += *size;
      if (RecordReader::most_text(*size) <= left) {
        done += bytes.reader->read(record, room.data() + done);
      } else {
        bytes.text_taken = 0;
        bytes.text_filled = bytes.reader->read(record, bytes.text.get());
      }
    }
  } catch (const DataLoss& error) {
    fail_records(fmt::format("sent bytes that were changed on the way (TLS: {})", error.what()),
                 false);
  } catch (const PeerAlert& alert) {
    // OpenSSL's reasons of alerts are their numbers from here on.
    const int reason = SSL_AD_REASON_OFFSET + alert.description;
    const bool is_wrong_key = is_wrong_key_reason(reason);
    fail_records(is_wrong_key ? describe_reason(reason)
                              : fmt::format("ended the TLS session ({})",
                                            SSL_alert_desc_string_long(alert.description)),
                 is_wrong_key);
  }
  return done;
}

// With the mutex held: what the handshake has to send.
void TlsSocket::collect() {
  Bytes& bytes = *bytes_;
  const std::size_t count = std::min(bytes.encrypted.size(), kChunkRecords - bytes.made);
  std::copy_n(bytes.encrypted.begin(), count, bytes.out.get() + bytes.made);
  bytes.encrypted.erase(bytes.encrypted.begin(),
                        bytes.encrypted.begin() + static_cast<std::ptrdiff_t>(count));
  bytes.made += count;
  if (bytes.made > 0) has_unsent_ = true;
}

// Sends it. The socket is the caller's alone to send at.
Moved TlsSocket::flush(bool waits) {
  Bytes& bytes = *bytes_;
  while (bytes.sent < bytes.made) {
    const iovec rest{.iov_base = bytes.out.get() + bytes.sent, .iov_len = bytes.made - bytes.sent};
    const Moved moved = waits ? Socket::send_soon({&rest, 1}) : Socket::send({&rest, 1});
    bytes.sent += moved.bytes;
    if (moved.error != 0) return moved;
  }
  bytes.made = bytes.sent = 0;
  has_unsent_ = false;
  return {};
}

Moved TlsSocket::send(std::span<const iovec> pieces, bool waits) {
  for (;;) {
    if (const Moved moved = flush(waits); moved.error != 0) return moved;
    bool is_open = is_open_;
    if (!is_open) {
      const std::lock_guard lock(mutex_);
      is_open = shake_hands();
      collect();
    }
    // Output of the handshake is sent first.
    if (is_open && bytes_->made > 0) continue;
    if (has_failed_) {
      flush(/*waits=*/false);
      return {.error = EBADMSG};
    }
    const std::size_t taken = is_open ? encrypt(pieces) : 0;
    // Bytes that do not fit now are sent by the next call.
    const Moved moved = flush(waits);
    if (moved.error != 0 && !moved.would_block()) return moved;
    if (is_open) return {.bytes = taken};
    // The peer's part of the handshake.
    if (const Moved came = fill(/*waits=*/false); came.bytes == 0) {
      return {.error = came.error == 0 ? ECONNRESET : came.error};
    }
  }
}

// Reads encrypted bytes, after a record that has not come as a whole.
Moved TlsSocket::fill(bool waits) {
  Bytes& bytes = *bytes_;
  {
    const std::lock_guard lock(mutex_);
    std::memmove(bytes.in.get(), bytes.in.get() + bytes.taken, bytes.filled - bytes.taken);
    bytes.filled -= std::exchange(bytes.taken, 0);
  }
  const iovec room{.iov_base = bytes.in.get() + bytes.filled, .iov_len = kChunk - bytes.filled};
  const Moved moved = waits ? Socket::receive_soon({&room, 1}) : Socket::receive({&room, 1});
  const std::lock_guard lock(mutex_);
  bytes.filled += moved.bytes;
  return moved;
}

Moved TlsSocket::receive(std::span<const iovec> pieces, bool waits) {
  for (;;) {
    const bool was_open = is_open_;
    if (!was_open) {
      const std::lock_guard lock(mutex_);
      shake_hands();
      // Until the handshake is over, the thread that receives sends, too.
      collect();
    }
    if (is_open_) {
      if (const std::size_t count = decrypt(pieces); count > 0) return {.bytes = count};
    }
    if (!was_open) flush(/*waits=*/false);
    if (has_failed_) return {.error = EBADMSG};
    if (const Moved moved = fill(waits); moved.bytes == 0) return moved;
  }
}

bool TlsSocket::wait(short events, const Deadline& deadline, const WaitReason& reason) {
  const bool is_open = is_open_;
  if (is_open && (events & POLLIN) != 0 && has_ahead()) return true;
  // A handshake continues when the peer has answered.
  const auto awaited = static_cast<short>(has_unsent_ ? POLLIN | POLLOUT : POLLIN);
  return Socket::wait(is_open ? events : awaited, deadline, reason);
}

}  // namespace muster::net
