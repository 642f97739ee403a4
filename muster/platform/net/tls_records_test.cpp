#include <gtest/gtest.h>

#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/error.h"
#include "muster/platform/net/tls_records_internal.h"
#include "muster/testing/message_of.h"

namespace muster::net {
namespace {

using testing::message_of;

TrafficKey::Secret secret_of(std::string_view hex) {
  TrafficKey::Secret secret;
  for (std::size_t i = 0; i < secret.size(); ++i) {
    std::from_chars(hex.data() + 2 * i, hex.data() + 2 * i + 2, secret[i], 16);
  }
  return secret;
}
std::vector<std::byte> bytes_of_hex(std::string_view hex) {
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    unsigned value = 0;
    std::from_chars(hex.data() + i, hex.data() + i + 2, value, 16);
    bytes.push_back(static_cast<std::byte>(value));
  }
  return bytes;
}

// RFC 8448, section 3: the client's application traffic secret, and its record of the bytes 0
// to 49.
constexpr std::string_view kSecret =
    "9e40646ce79a7f9dc05af8889bce6552875afa0b06df0087f792ebb7c17504a5";
constexpr std::string_view kRecordOfFifty =
    "1703030043a23f7054b62c94d0affafe8228ba55cbefacea42f914aa66bcab3f2b9819a8a5b46b395bd54a9a20441e"
    "2b"
    "62974e1f5a6292a2977014bd1e3deae63aeebb21694915e4";

std::vector<std::byte> counted(std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i);
  return bytes;
}

iovec piece_of(std::vector<std::byte>& bytes) { return {bytes.data(), bytes.size()}; }

std::vector<std::byte> written(RecordWriter& writer, std::vector<std::byte> text) {
  std::vector<std::byte> out(RecordWriter::room_for(text.size()));
  const iovec piece = piece_of(text);
  out.resize(writer.write({&piece, 1}, text.size(), out.data()));
  return out;
}

std::vector<std::byte> read_all(RecordReader& reader, std::span<const std::byte> wire) {
  std::vector<std::byte> text;
  while (!wire.empty()) {
    const auto size = RecordReader::size_of(wire);
    if (!size) throw Internal("a part of a record");
    std::vector<std::byte> room(RecordReader::most_text(*size));
    room.resize(reader.read(wire.first(*size), room.data()));
    text.insert(text.end(), room.begin(), room.end());
    wire = wire.subspan(*size);
  }
  return text;
}

TEST(TlsRecords, AreThoseOfRfc8448) {
  RecordWriter writer(secret_of(kSecret));
  EXPECT_EQ(written(writer, counted(50)), bytes_of_hex(kRecordOfFifty));
  RecordReader reader(secret_of(kSecret));
  EXPECT_EQ(read_all(reader, bytes_of_hex(kRecordOfFifty)), counted(50));
}

TEST(TlsRecords, CarryPiecesOfAllSizes) {
  RecordWriter writer(secret_of(kSecret));
  RecordReader reader(secret_of(kSecret));
  for (const std::size_t size : {0, 1, 16'383, 16'384, 16'385, 70'000}) {
    auto first = counted(20), second = counted(size), third = counted(3);
    const std::vector<iovec> pieces{piece_of(first), piece_of(second), piece_of(third)};
    std::vector<std::byte> wire(RecordWriter::room_for(size + 23));
    wire.resize(writer.write(pieces, size + 23, wire.data()));
    auto expected = first;
    expected.insert(expected.end(), second.begin(), second.end());
    expected.insert(expected.end(), third.begin(), third.end());
    EXPECT_EQ(read_all(reader, wire), expected) << size;
  }
}

TEST(TlsRecords, HaveANewKeyFromTimeToTime) {
  RecordWriter writer(secret_of(kSecret), /*records_of_a_key=*/3);
  RecordReader reader(secret_of(kSecret));
  RecordWriter with_one_key(secret_of(kSecret));
  std::vector<std::byte> last, last_of_one_key;
  for (int i = 0; i < 10; ++i) {
    last = written(writer, counted(100));
    last_of_one_key = written(with_one_key, counted(100));
    EXPECT_EQ(last.size() > last_of_one_key.size(), i == 3 || i == 6 || i == 9) << i;
    EXPECT_EQ(read_all(reader, last), counted(100)) << i;
  }
  EXPECT_THROW(read_all(reader, last_of_one_key), DataLoss);
}

TEST(TlsRecords, AreRefusedWhenTheyWereChangedLostOrRepeated) {
  const std::string reason = "bad record mac";
  RecordWriter writer(secret_of(kSecret));
  const auto first = written(writer, counted(50));
  const auto second = written(writer, counted(60));
  RecordReader loses(secret_of(kSecret));
  EXPECT_EQ(message_of([&] { read_all(loses, second); }), reason);
  RecordReader repeats(secret_of(kSecret));
  EXPECT_EQ(read_all(repeats, first), counted(50));
  EXPECT_EQ(message_of([&] { read_all(repeats, first); }), reason);
  for (const std::size_t at : {5, 30, 60}) {
    auto changed = first;
    changed[at] ^= std::byte{1};
    RecordReader reader(secret_of(kSecret));
    EXPECT_EQ(message_of([&] { read_all(reader, changed); }), reason) << at;
  }
}

TEST(TlsRecords, WithAWrongHeaderAreNone) {
  auto record = bytes_of_hex(kRecordOfFifty);
  EXPECT_EQ(RecordReader::size_of(record), record.size());
  EXPECT_EQ(RecordReader::size_of(std::span(record).first(4)), std::nullopt);
  EXPECT_EQ(RecordReader::size_of(std::span(record).first(71)), std::nullopt);
  for (const auto& [at, value] : {std::pair{0, 22}, {1, 4}, {2, 1}, {3, 0x42}}) {
    auto wrong = record;
    wrong[static_cast<std::size_t>(at)] = static_cast<std::byte>(value);
    EXPECT_EQ(message_of([&] { RecordReader::size_of(wrong); }), "wrong record") << at;
  }
  record[4] = std::byte{16};  // Less than a tag and a kind.
  EXPECT_EQ(message_of([&] { RecordReader::size_of(record); }), "wrong record");
}

// Records that OpenSSL would make: text with zeros after it, alerts.
class OtherRecords : public ::testing::Test {
 protected:
  std::vector<std::byte> record_of(std::string_view text) {
    TrafficKey key(secret_of(kSecret), Gcm::Direction::kSeal);
    const std::size_t size = text.size() + sizeof(Gcm::Tag);
    const std::array<unsigned char, 5> header{23, 3, 3, static_cast<unsigned char>(size >> 8),
                                              static_cast<unsigned char>(size)};
    std::vector<std::byte> out(header.size() + text.size());
    std::memcpy(out.data(), header.data(), header.size());
    Gcm& gcm = key.begin_record(header);
    gcm.add(reinterpret_cast<const std::byte*>(text.data()), text.size(), out.data() + 5);
    for (const unsigned char byte : gcm.seal()) out.push_back(static_cast<std::byte>(byte));
    return out;
  }
  RecordReader reader_{secret_of(kSecret)};
};

TEST_F(OtherRecords, MayBePadded) {
  EXPECT_EQ(read_all(reader_, record_of(std::string("\0\1\x17\0\0\0", 6))), counted(2));
}
TEST_F(OtherRecords, MayBeAlerts) {
  try {
    read_all(reader_, record_of(std::string("\2\x30\x15", 3)));
    FAIL();
  } catch (const PeerAlert& alert) {
    EXPECT_EQ(alert.description, 48);
  }
}
TEST_F(OtherRecords, OfNoKindAreRefused) {
  EXPECT_EQ(message_of([&] { read_all(reader_, record_of(std::string(9, '\0'))); }),
            "wrong kind of record");
}
TEST_F(OtherRecords, OfOtherMessagesAreRefused) {
  EXPECT_EQ(message_of([&] { read_all(reader_, record_of(std::string("\4\0\0\0\x16", 5))); }),
            "unexpected message");
}

}  // namespace
}  // namespace muster::net
