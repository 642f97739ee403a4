#pragma once

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "muster/base/sha256.h"
#include "muster/platform/net/gcm_internal.h"

/// Records of TLS 1.3 (RFC 8446, section 5), once a handshake has agreed on TLS_AES_128_GCM_SHA256
/// and its secrets. OpenSSL copies a record twice on each side, which takes longer than to encrypt
/// it; these are encrypted from where the bytes lie, and decrypted to where they are wanted.
namespace muster::net {

/// Most bytes of text that one record carries.
inline constexpr std::size_t kMostRecordText = std::size_t{16} << 10;
inline constexpr std::size_t kRecordHeaderBytes = 5;
/// Bytes that a record adds to its text: the header, the kind of content, the tag.
inline constexpr std::size_t kRecordExtra = kRecordHeaderBytes + 1 + sizeof(Gcm::Tag);
/// With what others may add to hide how long it is.
inline constexpr std::size_t kMostRecordBytes = kRecordHeaderBytes + kMostRecordText + 256;

/// The key of one direction, which is a new one from time to time, made of the last.
class TrafficKey {
 public:
  using Secret = Sha256::Digest;

  TrafficKey(const Secret& secret, Gcm::Direction direction);
  ~TrafficKey();

  /// Begins the next record.
  Gcm& begin_record(std::span<const unsigned char> header);
  std::uint64_t records() const { return records_; }
  void update();

 private:
  void derive();

  const Gcm::Direction direction_;
  Secret secret_;
  std::unique_ptr<Gcm> gcm_;
  Gcm::Nonce nonce_{};
  std::uint64_t records_ = 0;
};

/// Makes records.
class RecordWriter {
 public:
  /// RFC 8446 wants a new key before 2^24.5 records.
  static constexpr std::uint64_t kRecordsOfAKey = std::uint64_t{1} << 24;
  static constexpr std::size_t kKeyUpdateBytes = 5;

  explicit RecordWriter(const TrafficKey::Secret& secret,
                        std::uint64_t records_of_a_key = kRecordsOfAKey)
      : key_(secret, Gcm::Direction::kSeal), records_of_a_key_(records_of_a_key) {}

  /// Most room that write() needs for this many bytes, with a new key for each record.
  static std::size_t room_for(std::size_t size) {
    return size + (size / kMostRecordText + 1) * (2 * kRecordExtra + kKeyUpdateBytes);
  }
  /// Writes the first `size` bytes of the pieces, small ones in one record. Returns the bytes
  /// written at `to`.
  std::size_t write(std::span<const iovec> pieces, std::size_t size, std::byte* to);

 private:
  std::byte* write_record(std::span<const iovec>& pieces, std::size_t& offset, std::size_t size,
                          std::byte* to);
  std::byte* update_key(std::byte* to);

  TrafficKey key_;
  const std::uint64_t records_of_a_key_;
};

/// Reads records.
class RecordReader {
 public:
  explicit RecordReader(const TrafficKey::Secret& secret) : key_(secret, Gcm::Direction::kOpen) {}

  /// The size of the record that begins here, with its header; nothing while that has not come.
  /// Throws DataLoss for what begins no record.
  static std::optional<std::size_t> size_of(std::span<const std::byte> bytes);
  /// Decrypts a whole record to `to`, where there is room for what it may carry, and returns how
  /// much it is. Throws DataLoss for one that was changed, and PeerAlert for the peer's word that
  /// something is wrong.
  std::size_t read(std::span<const std::byte> record, std::byte* to);
  /// The most that a record of this size may carry.
  static std::size_t most_text(std::size_t record_bytes) { return record_bytes - kRecordExtra; }

 private:
  void take_handshake(std::span<const std::byte> message);

  TrafficKey key_;
};

/// The peer ends the session, for this reason (RFC 8446, section 6).
struct PeerAlert {
  int description = 0;
};

}  // namespace muster::net
