#include "muster/data/records/compressor_internal.h"

#include <zlib.h>

#include <vector>

#include "muster/base/error.h"

namespace muster::compression_internal {
namespace {

class PlainCompressor final : public Compressor {
 public:
  explicit PlainCompressor(WritableFile& file) : file_(file) {}
  void write(std::string_view bytes) override { file_.write(bytes); }
  void flush() override {}
  void finish() override {}

 private:
  WritableFile& file_;
};

class DeflateCompressor final : public Compressor {
 public:
  DeflateCompressor(WritableFile& file, bool gzip, int level)
      : file_(file), block_(std::size_t{64} << 10) {
    constexpr int kMemoryLevel = 8;  // zlib's default.
    const int window_bits = gzip ? 16 + MAX_WBITS : MAX_WBITS;
    if (::deflateInit2(&stream_, level, Z_DEFLATED, window_bits, kMemoryLevel,
                       Z_DEFAULT_STRATEGY) != Z_OK) {
      throw ResourceExhausted("no memory for a compressor");
    }
  }
  ~DeflateCompressor() override { ::deflateEnd(&stream_); }
  DeflateCompressor(const DeflateCompressor&) = delete;
  DeflateCompressor& operator=(const DeflateCompressor&) = delete;

  void write(std::string_view bytes) override {
    constexpr std::size_t kMaxStep = std::size_t{1} << 30;  // zlib counts in 32 bits.
    for (; bytes.size() > kMaxStep; bytes.remove_prefix(kMaxStep)) {
      deflate_all(bytes.substr(0, kMaxStep), Z_NO_FLUSH);
    }
    deflate_all(bytes, Z_NO_FLUSH);
  }
  void flush() override { deflate_all({}, Z_SYNC_FLUSH); }
  void finish() override { deflate_all({}, Z_FINISH); }

 private:
  /// Runs until zlib leaves room in the block: then it has nothing more to say.
  void deflate_all(std::string_view bytes, int flush) {
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
    stream_.avail_in = static_cast<uInt>(bytes.size());
    do {
      stream_.next_out = reinterpret_cast<Bytef*>(block_.data());
      stream_.avail_out = static_cast<uInt>(block_.size());
      if (::deflate(&stream_, flush) == Z_STREAM_ERROR) throw Internal("zlib's state is broken");
      file_.write({block_.data(), block_.size() - stream_.avail_out});
    } while (stream_.avail_out == 0);
  }

  WritableFile& file_;
  z_stream stream_{};
  std::vector<char> block_;
};

}  // namespace

std::unique_ptr<Compressor> make_compressor(WritableFile& file, Compression compression,
                                            std::optional<int> level) {
  if (level && (*level < 0 || *level > 9)) {
    throw InvalidArgument("the compression level must be 0 to 9: {}", *level);
  }
  const bool gzip = compression == Compression::kGzip;
  if (gzip || compression == Compression::kZlib) {
    return std::make_unique<DeflateCompressor>(file, gzip, level.value_or(Z_DEFAULT_COMPRESSION));
  }
  if (compression == Compression::kNone) return std::make_unique<PlainCompressor>(file);
  throw InvalidArgument("cannot write {} compression; use NONE, ZLIB or GZIP",
                        name_of(compression));
}

}  // namespace muster::compression_internal
