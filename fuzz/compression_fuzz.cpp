#include <lzma.h>
#include <zlib.h>
#include <zstd.h>

#include "fuzz/fuzz.h"
#include "muster/base/error.h"
#include "muster/data/records/compression.h"

// The first byte chooses the format and the limits, the rest is the file.

namespace {

using muster::Compression;

constexpr Compression kFormats[] = {Compression::kGzip, Compression::kZlib, Compression::kXz,
                                    Compression::kAuto, Compression::kZstd};

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

std::string xz(const std::string& bytes) {
  std::string out(lzma_stream_buffer_bound(bytes.size()), '\0');
  std::size_t size = 0;
  if (lzma_easy_buffer_encode(0, LZMA_CHECK_CRC32, nullptr,
                              reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size(),
                              reinterpret_cast<std::uint8_t*>(out.data()), &size,
                              out.size()) != LZMA_OK) {
    throw muster::Internal("liblzma could not make a seed");
  }
  out.resize(size);
  return out;
}

std::string zstd(const std::string& bytes) {
  std::string out(::ZSTD_compressBound(bytes.size()), '\0');
  out.resize(::ZSTD_compress(out.data(), out.size(), bytes.data(), bytes.size(), 3));
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::uint8_t choice = data[0];
  try {
    const auto stream = muster::open_input(
        bytes, "fuzz", kFormats[choice % 8 % 5],
        {.max_output_bytes = 1 << 20, .max_ratio = 100, .max_decoder_bytes = 1 << 20});
    char out[777];
    const std::size_t step = (choice & 8) ? 13 : sizeof(out);
    while (stream->read({out, step}) == step) {
    }
  } catch (const muster::Error&) {
  }
  return 0;
}

namespace muster::fuzz {

std::vector<std::string> seeds() {
  std::string text;
  for (int i = 0; i < 60; ++i) text += "a line of text, number " + std::to_string(i * i) + "\n";
  const std::string gzip = deflated(text, 16 + MAX_WBITS);
  return {'\0' + gzip,
          '\x8' + gzip + gzip,
          '\1' + deflated(text, MAX_WBITS),
          '\2' + xz(text),
          '\xa' + xz("short") + xz(text),
          '\4' + zstd(text),
          '\xc' + zstd("short") + zstd(text),
          '\3' + text,
          '\3' + gzip};
}

MemoryBound memory_bound() { return {}; }

}  // namespace muster::fuzz
