#include "muster/data/records/compression.h"

#include <lzma.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <bit>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/data/records/compression_internal.h"

namespace muster {
namespace compression_internal {

std::size_t PartialInput::read(std::span<char> out) {
  std::size_t done = 0;
  while (done < out.size()) {
    const std::size_t count = read_some(out.subspan(done));
    if (count == 0) break;
    done += count;
  }
  return done;
}

namespace {

class FileInput final : public PartialInput {
 public:
  explicit FileInput(const Path& path) : file_(file_system_for(path).open(path)) {}
  std::size_t read_some(std::span<char> out) override { return file_->read(out); }

 private:
  std::unique_ptr<ReadableFile> file_;
};

class MemoryInput final : public PartialInput {
 public:
  explicit MemoryInput(std::string_view bytes) : rest_(bytes) {}
  std::size_t read_some(std::span<char> out) override {
    const std::size_t count = rest_.copy(out.data(), out.size());
    rest_.remove_prefix(count);
    return count;
  }

 private:
  std::string_view rest_;
};

class PrefixedInput final : public PartialInput {
 public:
  PrefixedInput(std::string first, std::unique_ptr<PartialInput> rest)
      : first_(std::move(first)), left_(first_), rest_(std::move(rest)) {}
  std::size_t read_some(std::span<char> out) override {
    if (left_.empty()) return rest_->read_some(out);
    const std::size_t count = left_.copy(out.data(), out.size());
    left_.remove_prefix(count);
    return count;
  }

 private:
  std::string first_;
  std::string_view left_;
  std::unique_ptr<PartialInput> rest_;
};

constexpr std::size_t kInputBlockBytes = std::size_t{64} << 10;
/// Output of one step, before the limits are looked at again.
constexpr std::size_t kOutputStepBytes = std::size_t{1} << 20;
/// Below this much output the ratio is not looked at: small files of zeros are no attack.
constexpr std::uint64_t kRatioFreeBytes = std::uint64_t{16} << 20;

/// Base of all decoders: the input block, the counts, the limits, and the error that is kept back
/// until the good bytes before it are taken.
class Decoder : public PartialInput {
 public:
  Decoder(std::unique_ptr<PartialInput> input, std::string name, const DecompressionLimits& limits)
      : limits_(limits),
        name_(std::move(name)),
        input_(std::move(input)),
        block_(kInputBlockBytes) {}

  std::size_t read_some(std::span<char> out) final {
    if (failure_) std::rethrow_exception(failure_);
    std::size_t count = 0;
    try {
      while (count == 0 && !out.empty() && !finished_) {
        if (at_ == end_ && !input_ended_) refill();
        decode(out.first(std::min(out.size(), kOutputStepBytes)), count);
        check_limits(count);
      }
    } catch (const Error&) {
      failure_ = std::current_exception();
      if (count == 0) throw;
    }
    return count;
  }

 protected:
  /// Moves what it can from the input block to `out`, adding to `count`.
  virtual void decode(std::span<char> out, std::size_t& count) = 0;

  std::string_view available() const { return {block_.data() + at_, end_ - at_}; }
  void consume(std::size_t count) {
    at_ += count;
    consumed_ += count;
  }
  bool input_ended() const { return input_ended_; }
  void finish() { finished_ = true; }

  [[noreturn]] void fail_damaged(std::string_view format, std::string_view why) const {
    throw DataLoss("{}: damaged {} data at byte {}: {}", name_, format, consumed_, why);
  }
  [[noreturn]] void fail_truncated(std::string_view format) const {
    throw DataLoss("{}: truncated: the {} data ends too early, at byte {}", name_, format,
                   consumed_);
  }
  const std::string& name() const { return name_; }

  const DecompressionLimits limits_;

 private:
  void refill() {
    at_ = 0;
    end_ = input_->read_some(block_);
    input_ended_ = end_ == 0;
  }

  void check_limits(std::size_t count) {
    produced_ += count;
    if (produced_ > limits_.max_output_bytes) {
      throw ResourceExhausted("{}: more than {} bytes come out of it; raise max_output_bytes",
                              name_, limits_.max_output_bytes);
    }
    const std::uint64_t max_ratio = std::max<std::uint64_t>(limits_.max_ratio, 1);
    if (produced_ > kRatioFreeBytes && produced_ / max_ratio > consumed_) {
      throw ResourceExhausted(
          "{}: {} bytes in have become {} out, more than {} to 1; if that is right, raise "
          "max_ratio (MUSTER_MAX_RATIO of the environment)",
          name_, consumed_, produced_, max_ratio);
    }
  }

  std::string name_;
  std::unique_ptr<PartialInput> input_;
  std::vector<char> block_;
  std::size_t at_ = 0;
  std::size_t end_ = 0;
  bool input_ended_ = false;
  bool finished_ = false;
  std::uint64_t consumed_ = 0;
  std::uint64_t produced_ = 0;
  std::exception_ptr failure_;
};

enum class InflateFormat { kZlib, kGzip, kBare };

int window_bits(InflateFormat format) {
  if (format == InflateFormat::kBare) return -MAX_WBITS;
  return format == InflateFormat::kGzip ? 16 + MAX_WBITS : MAX_WBITS;
}

std::string_view name_of(InflateFormat format) {
  if (format == InflateFormat::kBare) return "DEFLATE";
  return format == InflateFormat::kGzip ? "GZIP" : "ZLIB";
}

/// One zlib or bare deflate stream, or gzip members one after another.
class InflateDecoder final : public Decoder {
 public:
  InflateDecoder(std::unique_ptr<PartialInput> input, std::string name,
                 const DecompressionLimits& limits, InflateFormat format)
      : Decoder(std::move(input), std::move(name), limits),
        is_gzip_(format == InflateFormat::kGzip),
        format_(name_of(format)) {
    if (::inflateInit2(&stream_, window_bits(format)) != Z_OK) {
      throw ResourceExhausted("no memory for a decoder of {}", this->name());
    }
  }
  ~InflateDecoder() override { ::inflateEnd(&stream_); }

 private:
  void decode(std::span<char> out, std::size_t& count) override {
    if (at_boundary_) {
      if (available().empty()) return finish();
      if (!is_gzip_) fail_damaged(format_, "there are bytes behind its end");
      ::inflateReset(&stream_);
      at_boundary_ = false;
    }
    const std::size_t taken = inflate_some(out, count);
    if (taken == 0 && count == 0 && input_ended() && !at_boundary_) fail_truncated(format_);
  }

  std::size_t inflate_some(std::span<char> out, std::size_t& count) {
    const std::string_view in = available();
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(in.data()));
    stream_.avail_in = static_cast<uInt>(in.size());
    stream_.next_out = reinterpret_cast<Bytef*>(out.data());
    const auto room = static_cast<uInt>(out.size());
    stream_.avail_out = room;
    const int result = ::inflate(&stream_, Z_NO_FLUSH);
    const std::size_t taken = in.size() - stream_.avail_in;
    consume(taken);
    count += room - stream_.avail_out;
    judge(result);
    return taken;
  }

  void judge(int result) {
    if (result == Z_STREAM_END) at_boundary_ = true;
    if (result == Z_NEED_DICT) fail_damaged(format_, "it wants a preset dictionary");
    if (result == Z_DATA_ERROR) fail_damaged(format_, stream_.msg ? stream_.msg : "bad data");
    if (result == Z_MEM_ERROR) throw ResourceExhausted("no memory to decompress {}", name());
  }

  z_stream stream_{};
  bool is_gzip_;
  std::string_view format_;
  bool at_boundary_ = false;
};

/// XZ streams one after another, with any filters that liblzma knows.
class XzDecoder final : public Decoder {
 public:
  XzDecoder(std::unique_ptr<PartialInput> input, std::string name,
            const DecompressionLimits& limits)
      : Decoder(std::move(input), std::move(name), limits) {
    const auto result =
        ::lzma_stream_decoder(&stream_, limits.max_decoder_bytes, LZMA_CONCATENATED);
    if (result != LZMA_OK) throw ResourceExhausted("no memory for a decoder of {}", this->name());
  }
  ~XzDecoder() override { ::lzma_end(&stream_); }

 private:
  void decode(std::span<char> out, std::size_t& count) override {
    const std::string_view in = available();
    stream_.next_in = reinterpret_cast<const std::uint8_t*>(in.data());
    stream_.avail_in = in.size();
    stream_.next_out = reinterpret_cast<std::uint8_t*>(out.data());
    stream_.avail_out = out.size();
    const lzma_ret result = ::lzma_code(&stream_, input_ended() ? LZMA_FINISH : LZMA_RUN);
    consume(in.size() - stream_.avail_in);
    count += out.size() - stream_.avail_out;
    judge(result);
  }

  void judge(lzma_ret result) {
    switch (result) {
      case LZMA_OK:
        return;
      case LZMA_STREAM_END:
        return finish();
      case LZMA_BUF_ERROR:
        // liblzma says so when a second call in a row moves nothing, which only an early end
        // causes.
        fail_truncated("XZ");
      case LZMA_MEMLIMIT_ERROR:
        throw ResourceExhausted("{}: unpacking needs {} bytes of memory; raise max_decoder_bytes",
                                name(), ::lzma_memusage(&stream_));
      case LZMA_MEM_ERROR:
        throw ResourceExhausted("no memory to decompress {}", name());
      case LZMA_FORMAT_ERROR:
        fail_damaged("XZ", "no XZ stream begins here");
      case LZMA_OPTIONS_ERROR:
        fail_damaged("XZ", "it uses a filter or flag that liblzma does not know");
      default:
        fail_damaged("XZ", "it contradicts its checksums or itself");
    }
  }

  lzma_stream stream_ = LZMA_STREAM_INIT;
};

/// ZSTD frames one after another; those that are to be skipped are.
class ZstdDecoder final : public Decoder {
 public:
  ZstdDecoder(std::unique_ptr<PartialInput> input, std::string name,
              const DecompressionLimits& limits)
      : Decoder(std::move(input), std::move(name), limits), stream_(::ZSTD_createDStream()) {
    if (stream_ == nullptr) throw ResourceExhausted("no memory for a decoder of {}", this->name());
    ::ZSTD_DCtx_setParameter(stream_.get(), ZSTD_d_windowLogMax, most_window_bits());
  }

 private:
  struct Free {
    void operator()(ZSTD_DStream* stream) const { ::ZSTD_freeDStream(stream); }
  };

  /// The largest window that fits the memory.
  int most_window_bits() const {
    const auto range = ::ZSTD_dParam_getBounds(ZSTD_d_windowLogMax);
    const int bits = std::bit_width(limits_.max_decoder_bytes) - 1;
    return std::clamp(bits, range.lowerBound, range.upperBound);
  }

  void decode(std::span<char> out, std::size_t& count) override {
    const std::string_view in = available();
    if (in.empty() && input_ended() && at_boundary_) return finish();
    ZSTD_inBuffer from{in.data(), in.size(), 0};
    ZSTD_outBuffer to{out.data(), out.size(), 0};
    const std::size_t result = ::ZSTD_decompressStream(stream_.get(), &to, &from);
    if (::ZSTD_isError(result) != 0) fail(result);
    consume(from.pos);
    count += to.pos;
    at_boundary_ = result == 0;
    if (from.pos == 0 && to.pos == 0 && input_ended() && !at_boundary_) fail_truncated("ZSTD");
  }

  [[noreturn]] void fail(std::size_t result) const {
    switch (::ZSTD_getErrorCode(result)) {
      case ZSTD_error_frameParameter_windowTooLarge:
        throw ResourceExhausted(
            "{}: unpacking needs more than {} bytes of memory; raise max_decoder_bytes", name(),
            limits_.max_decoder_bytes);
      case ZSTD_error_memory_allocation:
        throw ResourceExhausted("no memory to decompress {}", name());
      case ZSTD_error_dictionary_wrong:
        fail_damaged("ZSTD", "it wants a dictionary");
      default:
        fail_damaged("ZSTD", ::ZSTD_getErrorName(result));
    }
  }

  std::unique_ptr<ZSTD_DStream, Free> stream_;
  /// After a frame, where the file may end.
  bool at_boundary_ = false;
};

}  // namespace

std::unique_ptr<PartialInput> file_input(const Path& path) {
  return std::make_unique<FileInput>(path);
}

std::unique_ptr<PartialInput> memory_input(std::string_view bytes) {
  return std::make_unique<MemoryInput>(bytes);
}

std::unique_ptr<PartialInput> prefixed_input(std::string first,
                                             std::unique_ptr<PartialInput> rest) {
  return std::make_unique<PrefixedInput>(std::move(first), std::move(rest));
}

Compression recognise(std::string_view first) {
  if (first.starts_with("\x1f\x8b\x08")) return Compression::kGzip;
  if (first.starts_with(std::string_view("\xfd"
                                         "7zXZ\0",
                                         6)))
    return Compression::kXz;
  if (first.starts_with("\x28\xb5\x2f\xfd")) return Compression::kZstd;
  return Compression::kNone;
}

bool is_plain(const Path& path, Compression compression) {
  if (compression != Compression::kAuto) return compression == Compression::kNone;
  std::string first(kMagicBytes, '\0');
  first.resize(file_input(path)->read(first));
  return recognise(first) == Compression::kNone;
}

bool can_be_zlib(std::string_view first) {
  if (first.size() < 2) return false;
  const unsigned method = static_cast<unsigned char>(first[0]);
  const unsigned flags = static_cast<unsigned char>(first[1]);
  const bool deflate_with_known_window = (method & 0x0f) == 8 && (method >> 4) <= 7;
  const bool preset_dictionary = (flags & 0x20) != 0;
  return deflate_with_known_window && !preset_dictionary && (method * 256 + flags) % 31 == 0;
}

std::unique_ptr<PartialInput> inflate_bare(std::unique_ptr<PartialInput> input, std::string name,
                                           const DecompressionLimits& limits) {
  return std::make_unique<InflateDecoder>(std::move(input), std::move(name), limits,
                                          InflateFormat::kBare);
}

std::unique_ptr<PartialInput> decompress(std::unique_ptr<PartialInput> input, std::string name,
                                         Compression compression,
                                         const DecompressionLimits& limits) {
  switch (compression) {
    case Compression::kZlib:
      return std::make_unique<InflateDecoder>(std::move(input), std::move(name), limits,
                                              InflateFormat::kZlib);
    case Compression::kGzip:
      return std::make_unique<InflateDecoder>(std::move(input), std::move(name), limits,
                                              InflateFormat::kGzip);
    case Compression::kXz:
      return std::make_unique<XzDecoder>(std::move(input), std::move(name), limits);
    case Compression::kZstd:
      return std::make_unique<ZstdDecoder>(std::move(input), std::move(name), limits);
    case Compression::kAuto:
    case Compression::kNone:
      break;
  }
  return input;
}

namespace {

std::unique_ptr<InputStream> open(std::unique_ptr<PartialInput> input, std::string name,
                                  Compression compression, const DecompressionLimits& limits) {
  if (compression == Compression::kAuto) {
    std::string first(kMagicBytes, '\0');
    first.resize(input->read(first));
    compression = recognise(first);
    input = prefixed_input(std::move(first), std::move(input));
  }
  return decompress(std::move(input), std::move(name), compression, limits);
}

}  // namespace
}  // namespace compression_internal

std::uint64_t default_max_ratio() {
  constexpr std::uint64_t kUsual = 200;
  const char* const text = std::getenv("MUSTER_MAX_RATIO");
  if (text == nullptr) return kUsual;
  std::uint64_t ratio = 0;
  const char* const last = text + std::strlen(text);
  const auto [end, error] = std::from_chars(text, last, ratio);
  if (error != std::errc() || end != last || ratio == 0) {
    throw InvalidArgument("MUSTER_MAX_RATIO must be a positive number: '{}'", text);
  }
  return ratio;
}

Compression parse_compression(std::string_view word) {
  std::string upper(word);
  for (char& letter : upper) {
    letter = static_cast<char>(std::toupper(static_cast<unsigned char>(letter)));
  }
  if (upper.empty()) return Compression::kNone;
  for (const auto compression : {Compression::kAuto, Compression::kNone, Compression::kZlib,
                                 Compression::kGzip, Compression::kXz, Compression::kZstd}) {
    if (upper == name_of(compression)) return compression;
  }
  throw InvalidArgument("no such compression: {}; there are NONE, ZLIB, GZIP, XZ, ZSTD and AUTO",
                        word);
}

std::string_view name_of(Compression compression) {
  switch (compression) {
    case Compression::kAuto:
      return "AUTO";
    case Compression::kNone:
      return "NONE";
    case Compression::kZlib:
      return "ZLIB";
    case Compression::kGzip:
      return "GZIP";
    case Compression::kXz:
      return "XZ";
    case Compression::kZstd:
      return "ZSTD";
  }
  throw Internal("no such compression: {}", static_cast<int>(compression));
}

std::unique_ptr<InputStream> open_input(const Path& path, Compression compression,
                                        const DecompressionLimits& limits) {
  return compression_internal::open(compression_internal::file_input(path), path.string(),
                                    compression, limits);
}

std::unique_ptr<InputStream> open_input(std::string_view bytes, std::string name,
                                        Compression compression,
                                        const DecompressionLimits& limits) {
  return compression_internal::open(compression_internal::memory_input(bytes), std::move(name),
                                    compression, limits);
}

std::string read_all(InputStream& stream, std::uint64_t limit_bytes) {
  std::string all;
  std::string block(std::size_t{256} << 10, '\0');
  while (const std::size_t count = stream.read(block)) {
    if (count > limit_bytes - all.size()) {
      throw ResourceExhausted("more than {} bytes; raise the limit if that is right", limit_bytes);
    }
    all.append(block, 0, count);
  }
  return all;
}

}  // namespace muster
