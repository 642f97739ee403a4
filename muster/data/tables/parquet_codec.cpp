#include <snappy.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>

#include "muster/base/error.h"
#include "muster/data/records/compression.h"
#include "muster/data/tables/parquet_codec_internal.h"

namespace muster::parquet_internal {
namespace {

constexpr std::int32_t kUncompressed = 0;
constexpr std::int32_t kSnappy = 1;
constexpr std::int32_t kGzip = 2;
constexpr std::int32_t kZstd = 6;

/// Pages up to this length may grow as they like: writers make pages of a megabyte.
constexpr std::size_t kFreePageBytes = std::size_t{16} << 20;

void check_growth(std::string_view stored, std::size_t plain_bytes) {
  const std::uint64_t ratio = default_max_ratio();
  if (plain_bytes <= kFreePageBytes || plain_bytes / ratio <= stored.size()) return;
  throw ResourceExhausted(
      "a page of {} bytes says that it becomes {}, more than {} to 1; if that is right, raise "
      "MUSTER_MAX_RATIO in the environment",
      stored.size(), plain_bytes, ratio);
}

void unpack_snappy(std::string_view stored, char* out, std::size_t plain_bytes) {
  std::size_t size = 0;
  if (!snappy::GetUncompressedLength(stored.data(), stored.size(), &size) || size != plain_bytes ||
      !snappy::RawUncompress(stored.data(), stored.size(), out)) {
    throw DataLoss("damaged SNAPPY data");
  }
}

void unpack_zstd(std::string_view stored, char* out, std::size_t plain_bytes) {
  const std::size_t size = ::ZSTD_decompress(out, plain_bytes, stored.data(), stored.size());
  if (::ZSTD_isError(size) != 0) {
    throw DataLoss("damaged ZSTD data: {}", ::ZSTD_getErrorName(size));
  }
  if (size != plain_bytes) throw DataLoss("damaged ZSTD data: another length than the page's");
}

/// A decoder of zlib, ended with its owner.
struct Inflater {
  Inflater() {
    if (::inflateInit2(&stream, 32 + MAX_WBITS) != Z_OK) {
      throw ResourceExhausted("no memory for a decoder of GZIP");
    }
  }
  ~Inflater() { ::inflateEnd(&stream); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  z_stream stream{};
};

// Several members one after the other are one page.
void unpack_gzip(std::string_view stored, char* out, std::size_t plain_bytes) {
  Inflater inflater;
  z_stream& stream = inflater.stream;
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(stored.data()));
  stream.avail_in = static_cast<uInt>(stored.size());
  stream.next_out = reinterpret_cast<Bytef*>(out);
  stream.avail_out = static_cast<uInt>(plain_bytes);
  while (true) {
    const int result = ::inflate(&stream, Z_FINISH);
    if (result != Z_STREAM_END) throw DataLoss("damaged GZIP data");
    if (stream.avail_in == 0) break;
    if (::inflateReset(&stream) != Z_OK) throw DataLoss("damaged GZIP data");
  }
  if (stream.avail_out != 0) throw DataLoss("damaged GZIP data: another length than the page's");
}

}  // namespace

std::string_view codec_name(std::int32_t codec) {
  constexpr std::string_view kNames[] = {"UNCOMPRESSED", "SNAPPY", "GZIP", "LZO",
                                         "BROTLI",       "LZ4",    "ZSTD", "LZ4_RAW"};
  if (codec < 0 || codec >= static_cast<std::int32_t>(std::size(kNames))) return "of no known name";
  return kNames[codec];
}

bool is_known_codec(std::int32_t codec) {
  return codec == kUncompressed || codec == kSnappy || codec == kGzip || codec == kZstd;
}

PageBytes decompress_page(std::int32_t codec, std::string_view stored, std::size_t plain_bytes) {
  check_growth(stored, plain_bytes);
  const std::shared_ptr<char[]> plain = std::make_shared_for_overwrite<char[]>(plain_bytes);
  if (plain_bytes > 0 || codec != kZstd) {
    switch (codec) {
      case kSnappy:
        unpack_snappy(stored, plain.get(), plain_bytes);
        break;
      case kGzip:
        unpack_gzip(stored, plain.get(), plain_bytes);
        break;
      case kZstd:
        unpack_zstd(stored, plain.get(), plain_bytes);
        break;
      default:
        throw Unimplemented("pages are compressed with {}, which muster cannot read",
                            codec_name(codec));
    }
  }
  return {{plain.get(), plain_bytes}, plain};
}

}  // namespace muster::parquet_internal
