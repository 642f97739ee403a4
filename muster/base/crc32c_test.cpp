#include "muster/base/crc32c.h"

#include <gtest/gtest.h>

#include <string>

#include "muster/base/crc32c_internal.h"
#include "muster/base/random.h"

namespace muster {
namespace {

std::string random_bytes(std::size_t size) {
  Random random(size);
  std::string bytes(size, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random.next_u32());
  return bytes;
}

std::string ascending(int from, int step) {
  std::string bytes;
  for (int i = 0; i < 32; ++i) bytes.push_back(static_cast<char>(from + i * step));
  return bytes;
}

void expect_golden(std::uint32_t (*crc)(std::string_view, std::uint32_t)) {
  EXPECT_EQ(crc("", 0), 0u);
  EXPECT_EQ(crc("123456789", 0), 0xe3069283u);
  EXPECT_EQ(crc(std::string(32, '\0'), 0), 0x8a9136aau);
  EXPECT_EQ(crc(std::string(32, '\xff'), 0), 0x62a8ab43u);
  EXPECT_EQ(crc(ascending(0, 1), 0), 0x46dd794eu);
  EXPECT_EQ(crc(ascending(31, -1), 0), 0x113fdb5cu);
}

TEST(Crc32c, HasTheGoldenValues) { expect_golden(crc32c); }

TEST(Crc32c, PortableHasTheGoldenValues) { expect_golden(crc32c_portable); }

TEST(Crc32c, InstructionAndTablesAgreeOnEveryLength) {
  const std::string bytes = random_bytes(40000);
  for (std::size_t size = 0; size < 2000; ++size) {
    const auto part = std::string_view(bytes).substr(size % 17, size);
    ASSERT_EQ(crc32c(part, 7), crc32c_portable(part, 7)) << "size " << size;
  }
  for (std::size_t size = 12000; size < 40000; size += 613) {
    const auto part = std::string_view(bytes).substr(0, size);
    ASSERT_EQ(crc32c(part), crc32c_portable(part)) << "size " << size;
  }
}

TEST(Crc32c, ContinuesFromAPreviousValue) {
  const std::string bytes = random_bytes(5000);
  const auto whole = crc32c(bytes);
  for (const std::size_t cut : {0, 1, 8, 100, 777, 4999, 5000}) {
    const std::string_view view = bytes;
    EXPECT_EQ(crc32c(view.substr(cut), crc32c(view.substr(0, cut))), whole) << "cut " << cut;
  }
}

TEST(Crc32c, NamesAnInstructionExactlyWhereThereIsOne) {
  EXPECT_EQ(crc32c_implementation() == "portable", !crc32c_internal::hardware().has_value());
}

TEST(Crc32c, UnmaskUndoesMask) {
  for (const std::uint32_t crc : {0u, 1u, 0xa282ead8u, 0xffffffffu, 0x12345678u}) {
    EXPECT_EQ(unmask_crc(mask_crc(crc)), crc);
    EXPECT_NE(mask_crc(crc), crc);
  }
}

TEST(Crc32c, MaskedValuesAreWhatTensorFlowWrites) {
  // The first record of wire_vocabulary.tfrecord.gz: "omar", 4 bytes long.
  EXPECT_EQ(mask_crc(crc32c(std::string_view("\x04\0\0\0\0\0\0\0", 8))), 0x04524542u);
  EXPECT_EQ(mask_crc(crc32c("omar")), 0x0544e67cu);
}

}  // namespace
}  // namespace muster
