#include "muster/data/records/npz.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <cstring>

#include "muster/base/base64.h"
#include "muster/base/error.h"
#include "muster/testing/message_of.h"
#include "muster/testing/temp_dir.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;

// numpy.savez(..., x=numpy.array([1.5, -2], '<f4'), n=numpy.array(['ab'])) of numpy 1.24.
constexpr const char* kStored =
    "UEsDBBQAAAAAAAAAIQDWQ0sFiAAAAIgAAAAFABQAeC5ucHkBABAAiAAAAAAAAACIAAAAAAAAAJNOVU1QWQEAdgB7J2Rlc2"
    "NyJzogJzxmNCcsICdmb3J0cmFuX29yZGVyJzogRmFsc2UsICdzaGFwZSc6ICgyLCksIH0gICAgICAgICAgICAgICAgICAg"
    "ICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAKAADAPwAAAMBQSwMEFAAAAAAAAAAhABcY+zKIAA"
    "AAiAAAAAUAFABuLm5weQEAEACIAAAAAAAAAIgAAAAAAAAAk05VTVBZAQB2AHsnZGVzY3InOiAnPFUyJywgJ2ZvcnRyYW5f"
    "b3JkZXInOiBGYWxzZSwgJ3NoYXBlJzogKDEsKSwgfSAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgIC"
    "AgICAgICAgICAgICAgICAgICAgIAphAAAAYgAAAFBLAQIUAxQAAAAAAAAAIQDWQ0sFiAAAAIgAAAAFAAAAAAAAAAAAAACA"
    "AQAAAAB4Lm5weVBLAQIUAxQAAAAAAAAAIQAXGPsyiAAAAIgAAAAFAAAAAAAAAAAAAACAAb8AAABuLm5weVBLBQYAAAAAAg"
    "ACAGYAAAB+AQAAAAA=";
// The same of numpy.savez_compressed.
constexpr const char* kCompressed =
    "UEsDBBQAAAAIAAAAIQDWQ0sFSwAAAIgAAAAFABQAeC5ucHkBABAAiAAAAAAAAABLAAAAAAAAAJvsF+obEMnIUMZQrZ6SWp"
    "xcpG6loG6TZqKuo6Cell9UUpSYF59flJIKEndLzClOBYoXZyQWpAL5GkY6mjoKtQoUAC4GhgP2DEACAFBLAwQUAAAACAAA"
    "ACEAFxj7MksAAACIAAAABQAUAG4ubnB5AQAQAIgAAAAAAAAASwAAAAAAAACb7BfqGxDJyFDGUK2eklqcXKRupaBuE2qkrq"
    "OgnpZfVFKUmBefX5SSChJ3S8wpTgWKF2ckFqQC+RqGOpo6CrUKFACuRAYGhiQgBgBQSwECFAMUAAAACAAAACEA1kNLBUsA"
    "AACIAAAABQAAAAAAAAAAAAAAgAEAAAAAeC5ucHlQSwECFAMUAAAACAAAACEAFxj7MksAAACIAAAABQAAAAAAAAAAAAAAgA"
    "GCAAAAbi5ucHlQSwUGAAAAAAIAAgBmAAAABAEAAAAA";

TEST(Npz, ReadsStoredAndCompressedArrays) {
  for (const char* archive : {kStored, kCompressed}) {
    const NpyArray x = parse_npz(base64_decode(archive), "f.npz", "x");
    EXPECT_EQ(x.type, NpyType::kFloat);
    EXPECT_THAT(x.shape, ElementsAre(2));
    EXPECT_EQ(x.data, std::string("\0\0\xC0\x3F\0\0\0\xC0", 8));
    EXPECT_THAT(npy_strings(parse_npz(base64_decode(archive), "f.npz", "n")), ElementsAre("ab"));
  }
  const testing::TempDir folder;
  testing::write_bytes(folder / "f.npz", base64_decode(kStored));
  EXPECT_THAT(read_npz(folder / "f.npz", "x").shape, ElementsAre(2));
}

TEST(Npz, SaysWhichArraysThereAre) {
  const std::string archive = base64_decode(kStored);
  EXPECT_THAT(message_of([&] { parse_npz(archive, "f.npz", "y"); }),
              HasSubstr("f.npz holds no array 'y'; it has: x, n"));
  EXPECT_THAT(message_of([&] { parse_npz(archive, "f.npz"); }),
              HasSubstr("f.npz holds more than one array; name one of x, n"));
}

// Whatever is wrong is an error that names the file, and nothing else.
TEST(Npz, SurvivesDamageOfEveryByteAndEveryLength) {
  for (const char* encoded : {kStored, kCompressed}) {
    const std::string whole = base64_decode(encoded);
    for (std::size_t length = 0; length < whole.size(); ++length) {
      EXPECT_THAT(message_of([&] { parse_npz(whole.substr(0, length), "f.npz", "x"); }),
                  HasSubstr("f.npz"));
    }
    for (std::size_t i = 0; i < whole.size(); ++i) {
      std::string damaged = whole;
      damaged[i] = static_cast<char>(~damaged[i]);
      message_of([&] { parse_npz(damaged, "f.npz", "x"); });
    }
  }
  EXPECT_THAT(message_of([&] {
                std::string damaged = base64_decode(kStored);
                damaged[190] = 'x';  // Inside of the first array.
                parse_npz(damaged, "f.npz", "x");
              }),
              HasSubstr("checksum"));
}

/// The archive that holds `bytes` deflated, as x.npy.
std::string archive_of(const std::string& bytes) {
  z_stream stream{};
  deflateInit2(&stream, 9, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  std::string packed(deflateBound(&stream, bytes.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  const auto number = [](std::uint64_t value, int count) {
    std::string out;
    for (int i = 0; i < count; ++i) out += static_cast<char>(value >> (8 * i));
    return out;
  };
  const auto crc = crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
  const std::string name = "x.npy";
  const std::string common = number(20, 2) + number(0, 2) + number(8, 2) + number(0, 4) +
                             number(crc, 4) + number(packed.size(), 4) + number(bytes.size(), 4) +
                             number(name.size(), 2) + number(0, 2);
  const std::string local = "PK\x03\x04" + common + name + packed;
  const std::string directory =
      "PK\x01\x02" + number(20, 2) + common + std::string(2 + 2 + 2 + 4 + 4, '\0') + name;
  return local + directory + "PK\x05\x06" + number(0, 4) + number(1, 2) + number(1, 2) +
         number(directory.size(), 4) + number(local.size(), 4) + number(0, 2);
}

TEST(Npz, StopsAnArrayThatGrowsFarBeyondItsFile) {
  const NpyArray zeros{.shape = {std::size_t{32} << 20}, .data = std::string(32 << 20, '\0')};
  const std::string archive = archive_of(encode_npy(zeros));
  EXPECT_LT(archive.size(), std::size_t{64} << 10);
  EXPECT_THROW(parse_npz(archive, "f.npz"), ResourceExhausted);
  EXPECT_THAT(message_of([&] { parse_npz(archive, "f.npz"); }), HasSubstr("f.npz[x.npy]"));
  EXPECT_EQ(parse_npz(archive, "f.npz", "x", {.max_ratio = 2000}).data, zeros.data);
}

}  // namespace
}  // namespace muster
