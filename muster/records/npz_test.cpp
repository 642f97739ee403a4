#include "muster/records/npz.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "muster/base/base64.h"
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

}  // namespace
}  // namespace muster
