#include "muster/platform/net/tls_records_internal.h"

#include <openssl/crypto.h>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

#include "muster/base/error.h"
#include "muster/platform/net/hmac_internal.h"

namespace muster::net {
namespace {

// Content types of records.
enum class RecordKind : unsigned char { kNone = 0, kAlert = 21, kHandshake = 22, kText = 23 };

// Says that what follows has a new key, and wants none in return.
constexpr std::array<std::byte, RecordWriter::kKeyUpdateBytes> kKeyUpdate{
    std::byte{24}, std::byte{0}, std::byte{0}, std::byte{1}, std::byte{0}};

using RecordHeader = std::array<unsigned char, kRecordHeaderBytes>;

// Header of a record with this many bytes after it. All look like text of TLS 1.2.
RecordHeader record_header(std::size_t size) {
  return {static_cast<unsigned char>(RecordKind::kText), 3, 3,
          static_cast<unsigned char>(size >> 8), static_cast<unsigned char>(size)};
}

// HKDF-Expand-Label (RFC 8446, section 7.1) without a context, of a hash's bytes at most.
Sha256::Digest expanded(const TrafficKey::Secret& secret, std::string_view label,
                        unsigned char size) {
  std::string info{'\0', static_cast<char>(size), static_cast<char>(6 + label.size())};
  info.append("tls13 ").append(label);
  info.append({'\0', '\1'});
  return hmac_sha256({reinterpret_cast<const char*>(secret.data()), secret.size()}, info);
}

}  // namespace

TrafficKey::TrafficKey(const Secret& secret, Gcm::Direction direction)
    : direction_(direction), secret_(secret) {
  derive();
}
TrafficKey::~TrafficKey() {
  OPENSSL_cleanse(secret_.data(), secret_.size());
  OPENSSL_cleanse(nonce_.data(), nonce_.size());
}

void TrafficKey::derive() {
  Sha256::Digest key = expanded(secret_, "key", Gcm::kKeyBytes);
  gcm_ = make_gcm(std::span(key).first<Gcm::kKeyBytes>(), direction_);
  OPENSSL_cleanse(key.data(), key.size());
  const Sha256::Digest nonce = expanded(secret_, "iv", sizeof nonce_);
  std::copy_n(nonce.begin(), nonce_.size(), nonce_.begin());
  records_ = 0;
}

void TrafficKey::update() {
  secret_ = expanded(secret_, "traffic upd", sizeof secret_);
  derive();
}

Gcm& TrafficKey::begin_record(std::span<const unsigned char> header) {
  Gcm::Nonce nonce = nonce_;
  std::uint64_t number = records_++;
  for (std::size_t at = nonce.size(); number > 0; number >>= 8) {
    nonce[--at] ^= static_cast<unsigned char>(number);
  }
  gcm_->begin(nonce, header);
  return *gcm_;
}

// ------------------------------------------------------------------------------------- writing

namespace {

// After the text of a record: its kind and the tag.
std::byte* end_record(Gcm& gcm, RecordKind kind, std::byte* to) {
  const auto last = static_cast<std::byte>(kind);
  gcm.add(&last, 1, to);
  const Gcm::Tag tag = gcm.seal();
  std::memcpy(to + 1, tag.data(), tag.size());
  return to + 1 + tag.size();
}

}  // namespace

std::byte* RecordWriter::update_key(std::byte* to) {
  const RecordHeader header = record_header(kKeyUpdate.size() + 1 + sizeof(Gcm::Tag));
  std::memcpy(to, header.data(), header.size());
  to += header.size();
  Gcm& gcm = key_.begin_record(header);
  gcm.add(kKeyUpdate.data(), kKeyUpdate.size(), to);
  to = end_record(gcm, RecordKind::kHandshake, to + kKeyUpdate.size());
  key_.update();
  return to;
}

// One record of `size` bytes, from `offset` of the first piece on; takes from the pieces what it
// carries.
std::byte* RecordWriter::write_record(std::span<const iovec>& pieces, std::size_t& offset,
                                      std::size_t size, std::byte* to) {
  const RecordHeader header = record_header(size + 1 + sizeof(Gcm::Tag));
  std::memcpy(to, header.data(), header.size());
  to += header.size();
  Gcm& gcm = key_.begin_record(header);
  while (size > 0) {
    const iovec& piece = pieces.front();
    const std::size_t count = std::min(size, piece.iov_len - offset);
    gcm.add(static_cast<const std::byte*>(piece.iov_base) + offset, count, to);
    to += count;
    size -= count;
    offset += count;
    if (offset == piece.iov_len) {
      pieces = pieces.subspan(1);
      offset = 0;
    }
  }
  return end_record(gcm, RecordKind::kText, to);
}

std::size_t RecordWriter::write(std::span<const iovec> pieces, std::size_t size, std::byte* to) {
  std::byte* const begin = to;
  std::size_t offset = 0;
  while (size > 0) {
    if (key_.records() >= records_of_a_key_) to = update_key(to);
    const std::size_t of_record = std::min(size, kMostRecordText);
    to = write_record(pieces, offset, of_record, to);
    size -= of_record;
  }
  return static_cast<std::size_t>(to - begin);
}

// ------------------------------------------------------------------------------------- reading

std::optional<std::size_t> RecordReader::size_of(std::span<const std::byte> bytes) {
  if (bytes.size() < kRecordHeaderBytes) return std::nullopt;
  const auto byte = [&](std::size_t at) { return std::to_integer<std::size_t>(bytes[at]); };
  const std::size_t size = kRecordHeaderBytes + byte(3) * 256 + byte(4);
  const bool is_record = byte(0) == static_cast<std::size_t>(RecordKind::kText) && byte(1) == 3 &&
                         byte(2) == 3 && size >= kRecordExtra && size <= kMostRecordBytes;
  if (!is_record) throw DataLoss("wrong record");
  return bytes.size() < size ? std::nullopt : std::optional(size);
}

std::size_t RecordReader::read(std::span<const std::byte> record, std::byte* to) {
  RecordHeader header;
  std::memcpy(header.data(), record.data(), header.size());
  Gcm& gcm = key_.begin_record(header);
  std::size_t size = most_text(record.size());
  const std::byte* const from = record.data() + header.size();
  std::byte last{};
  gcm.add(from, size, to);
  gcm.add(from + size, 1, &last);
  Gcm::Tag tag;
  std::memcpy(tag.data(), from + size + 1, tag.size());
  if (!gcm.check(tag)) throw DataLoss("bad record mac");
  // Zeros after the kind hide how long the text is.
  while (last == std::byte{0} && size > 0) last = to[--size];
  switch (static_cast<RecordKind>(last)) {
    case RecordKind::kText:
      return size;
    case RecordKind::kAlert:
      if (size != 2) throw DataLoss("wrong alert");
      throw PeerAlert{std::to_integer<int>(to[1])};
    case RecordKind::kHandshake:
      take_handshake({to, size});
      return 0;
    default:
      throw DataLoss("wrong kind of record");
  }
}

void RecordReader::take_handshake(std::span<const std::byte> message) {
  if (!std::ranges::equal(message, kKeyUpdate)) throw DataLoss("unexpected message");
  key_.update();
}

}  // namespace muster::net
