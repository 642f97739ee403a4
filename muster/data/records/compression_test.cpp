#include "muster/data/records/compression.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <lzma.h>
#include <zlib.h>
#include <zstd.h>

#include <functional>
#include <memory>
#include <string>

#include "muster/base/error.h"
#include "muster/base/sha256.h"
#include "muster/testing/data_dir.h"
#include "muster/testing/long_tests.h"
#include "muster/testing/message_of.h"
#include "muster/testing/temp_dir.h"

namespace muster {
namespace {

using muster::testing::message_of;
using ::testing::HasSubstr;
using testing::TempDir;
using testing::write_bytes;

std::string deflated(const std::string& bytes, int window_bits) {
  z_stream stream{};
  deflateInit2(&stream, 6, Z_DEFLATED, window_bits, 8, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&stream, bytes.size()) + 32, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

std::string gzip(const std::string& bytes) { return deflated(bytes, 16 + MAX_WBITS); }
std::string zlib(const std::string& bytes) { return deflated(bytes, MAX_WBITS); }

/// With the delta filter that the CIFAR-10 files have.
std::string xz(const std::string& bytes) {
  lzma_options_delta delta{};
  delta.type = LZMA_DELTA_TYPE_BYTE;
  delta.dist = 1;
  lzma_options_lzma lzma{};
  lzma_lzma_preset(&lzma, 1);
  const lzma_filter filters[] = {
      {LZMA_FILTER_DELTA, &delta}, {LZMA_FILTER_LZMA2, &lzma}, {LZMA_VLI_UNKNOWN, nullptr}};
  std::string out(lzma_stream_buffer_bound(bytes.size()), '\0');
  std::size_t size = 0;
  const lzma_ret result =
      lzma_stream_buffer_encode(const_cast<lzma_filter*>(filters), LZMA_CHECK_CRC64, nullptr,
                                reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size(),
                                reinterpret_cast<std::uint8_t*>(out.data()), &size, out.size());
  EXPECT_EQ(result, LZMA_OK);
  out.resize(size);
  return out;
}

/// With a checksum, as the program zstd writes one.
std::string zstd(const std::string& bytes) {
  const std::unique_ptr<ZSTD_CCtx, decltype(&::ZSTD_freeCCtx)> context(::ZSTD_createCCtx(),
                                                                       &::ZSTD_freeCCtx);
  ::ZSTD_CCtx_setParameter(context.get(), ZSTD_c_checksumFlag, 1);
  std::string out(::ZSTD_compressBound(bytes.size()), '\0');
  out.resize(::ZSTD_compress2(context.get(), out.data(), out.size(), bytes.data(), bytes.size()));
  return out;
}

std::string text() {
  std::string text;
  for (int i = 0; i < 20000; ++i) text += fmt::format("line {}\n", i * 7919);
  return text;
}

std::string unpack(const std::string& bytes, Compression compression = Compression::kAuto,
                   const DecompressionLimits& limits = {}) {
  return read_all(*open_input(bytes, "test", compression, limits), std::uint64_t{1} << 30);
}

TEST(Compression, ParsesNamesInAnyCase) {
  EXPECT_EQ(parse_compression(""), Compression::kNone);
  EXPECT_EQ(parse_compression("gzip"), Compression::kGzip);
  EXPECT_EQ(parse_compression("ZLIB"), Compression::kZlib);
  EXPECT_EQ(parse_compression("Xz"), Compression::kXz);
  EXPECT_EQ(parse_compression("zstd"), Compression::kZstd);
  EXPECT_EQ(parse_compression("auto"), Compression::kAuto);
  EXPECT_THROW(parse_compression("snappy"), InvalidArgument);
}

TEST(Compression, AutoRecognisesGzipXzAndZstdAndTakesTheRestAsItIs) {
  EXPECT_EQ(unpack(gzip(text())), text());
  EXPECT_EQ(unpack(xz(text())), text());
  EXPECT_EQ(unpack(zstd(text())), text());
  EXPECT_EQ(unpack(text()), text());
  EXPECT_EQ(unpack("ab"), "ab");
  EXPECT_EQ(unpack(""), "");
}

TEST(Compression, ReadsZlibWhenTold) {
  EXPECT_EQ(unpack(zlib(text()), Compression::kZlib), text());
}

TEST(Compression, ReadsGzipMembersOneAfterAnother) {
  EXPECT_EQ(unpack(gzip("one ") + gzip("") + gzip("two ") + gzip(text())), "one two " + text());
}

TEST(Compression, ReadsXzStreamsOneAfterAnother) {
  EXPECT_EQ(unpack(xz("one ") + xz("two ")), "one two ");
}

TEST(Compression, ReadsZstdFramesOneAfterAnotherAndSkipsThoseWithoutData) {
  const std::string skippable("\x50\x2a\x4d\x18\x03\0\0\0abc", 11);
  EXPECT_EQ(unpack(zstd("one ") + zstd("") + skippable + zstd("two ") + zstd(text())),
            "one two " + text());
}

TEST(Compression, ReadsFiles) {
  const TempDir folder;
  write_bytes(folder / "a.gz", gzip(text()));
  EXPECT_EQ(read_all(*open_input(folder / "a.gz"), 1 << 20), text());
  EXPECT_THROW(open_input(folder / "none.gz"), NotFound);
}

TEST(Compression, FillsSmallBuffersToTheBrim) {
  const std::string packed = gzip(text());
  const auto stream = open_input(packed, "test");
  std::string all;
  std::string buffer(7, '\0');
  while (const std::size_t count = stream->read(buffer)) {
    all.append(buffer, 0, count);
    if (count < buffer.size()) break;
  }
  EXPECT_EQ(all, text());
}

class CompressionDamage : public ::testing::TestWithParam<Compression> {
 protected:
  std::string packed() const {
    if (GetParam() == Compression::kGzip) return gzip(text());
    if (GetParam() == Compression::kZstd) return zstd(text());
    return GetParam() == Compression::kZlib ? zlib(text()) : xz(text());
  }
};

TEST_P(CompressionDamage, FlippedByteIsDataLossThatNamesTheOffset) {
  std::string bytes = packed();
  bytes[bytes.size() / 2] ^= 0x55;
  EXPECT_THROW(unpack(bytes, GetParam()), DataLoss);
  const std::string message = message_of([&] { unpack(bytes, GetParam()); });
  EXPECT_THAT(message, HasSubstr("test: damaged"));
  EXPECT_THAT(message, HasSubstr("at byte "));
}

TEST_P(CompressionDamage, EarlyEndSaysTruncated) {
  const std::string bytes = packed();
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{1}, bytes.size() / 2, bytes.size() - 1}) {
    const std::string cut = bytes.substr(0, size);
    EXPECT_THROW(unpack(cut, GetParam()), DataLoss);
    EXPECT_THAT(message_of([&] { unpack(cut, GetParam()); }), HasSubstr("truncated")) << size;
  }
}

TEST_P(CompressionDamage, BytesBehindTheEndAreDataLoss) {
  EXPECT_THROW(unpack(packed() + "junk", GetParam()), DataLoss);
}

TEST_P(CompressionDamage, OutputLimitIsKept) {
  EXPECT_THROW(unpack(packed(), GetParam(), {.max_output_bytes = text().size() - 1}),
               ResourceExhausted);
  EXPECT_EQ(unpack(packed(), GetParam(), {.max_output_bytes = text().size()}), text());
}

INSTANTIATE_TEST_SUITE_P(Formats, CompressionDamage,
                         ::testing::Values(Compression::kGzip, Compression::kZlib, Compression::kXz,
                                           Compression::kZstd),
                         [](const auto& test) { return std::string(name_of(test.param)); });

TEST(Compression, RatioLimitStopsABomb) {
  const std::string zeros(std::size_t{40} << 20, '\0');
  for (const std::string& bomb : {xz(zeros), gzip(zeros), zstd(zeros)}) {
    EXPECT_THROW(unpack(bomb), ResourceExhausted);
    EXPECT_THAT(message_of([&] { unpack(bomb); }), HasSubstr("MUSTER_MAX_RATIO"));
  }
  EXPECT_THROW(unpack(zlib(zeros), Compression::kZlib), ResourceExhausted);
  EXPECT_EQ(unpack(gzip(zeros), Compression::kAuto, {.max_ratio = 1100}).size(), zeros.size());
}

// However much is asked for at once, the limits are looked at in between.
TEST(Compression, ABombIsStoppedWithinAMebibyteOfItsLimit) {
  const std::string bomb = gzip(std::string(std::size_t{40} << 20, '\0'));
  const auto stream = open_input(bomb, "bomb");
  std::string out(std::size_t{40} << 20, 'x');
  EXPECT_THROW(stream->read(out), ResourceExhausted);
  EXPECT_LE(out.find('x'), std::size_t{18} << 20);
}

TEST(Compression, TheEnvironmentSetsTheRatio) {
  const std::string bomb = gzip(std::string(std::size_t{20} << 20, '\0'));
  ::setenv("MUSTER_MAX_RATIO", "2000", 1);
  EXPECT_NO_THROW(unpack(bomb));
  ::setenv("MUSTER_MAX_RATIO", "many", 1);
  EXPECT_THAT(message_of([] { DecompressionLimits(); }), HasSubstr("MUSTER_MAX_RATIO"));
  ::unsetenv("MUSTER_MAX_RATIO");
  EXPECT_THROW(unpack(bomb), ResourceExhausted);
}

TEST(Compression, DecoderMemoryLimitIsKept) {
  EXPECT_THROW(unpack(xz(text()), Compression::kXz, {.max_decoder_bytes = 1000}),
               ResourceExhausted);
  EXPECT_THROW(unpack(zstd(text()), Compression::kZstd, {.max_decoder_bytes = 1000}),
               ResourceExhausted);
}

TEST(Compression, ReadAllRefusesMoreThanItsLimit) {
  EXPECT_THROW(read_all(*open_input("abcdef", "test"), 5), ResourceExhausted);
  EXPECT_EQ(read_all(*open_input("abcdef", "test"), 6), "abcdef");
}

std::string sha256_of_file(const Path& path) {
  const auto stream = open_input(path);
  Sha256 hash;
  std::string block(std::size_t{1} << 20, '\0');
  while (const std::size_t count = stream->read(block)) hash.update({block.data(), count});
  return hash.hex_digest();
}

TEST(CompressionRealData, Cifar10FilesHaveTheirPublishedHashes) {
  MUSTER_DATA_DIR_OR_SKIP(data);
  const std::pair<const char*, const char*> files[] = {
      {"data_batch_1", "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5"},
      {"data_batch_2", "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed"},
      {"data_batch_3", "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67"},
      {"data_batch_4", "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48"},
      {"data_batch_5", "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add"},
      {"test_batch", "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b"}};
  for (const auto& [name, hash] : files) {
    // Each takes seconds to unpack.
    if (!testing::are_tests_long() && std::string_view(name) != "data_batch_1") continue;
    EXPECT_EQ(sha256_of_file(data / "cifar-10" / fmt::format("{}.bin.xz", name)), hash) << name;
  }
}

TEST(CompressionRealData, MnistFilesUnpackToTheirSizes) {
  MUSTER_DATA_DIR_OR_SKIP(data);
  const std::pair<const char*, std::size_t> files[] = {{"train-images-idx3-ubyte.gz", 47'040'016},
                                                       {"train-labels-idx1-ubyte.gz", 60'008},
                                                       {"t10k-images-idx3-ubyte.gz", 7'840'016},
                                                       {"t10k-labels-idx1-ubyte.gz", 10'008}};
  // Each ends with the checksum of all its bytes, which unpacking verifies.
  for (const auto& [name, size] : files) {
    EXPECT_EQ(read_all(*open_input(data / "mnist" / name), 1 << 26).size(), size) << name;
  }
}

}  // namespace
}  // namespace muster
