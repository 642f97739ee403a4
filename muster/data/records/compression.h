#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "muster/base/file_system.h"

namespace muster {

enum class Compression {
  /// GZIP, XZ and ZSTD are recognised by their first bytes; anything else is taken as it is.
  kAuto,
  kNone,
  kZlib,
  /// One or more members.
  kGzip,
  /// One or more streams.
  kXz,
  /// One or more frames.
  kZstd,
};

/// "", "NONE", "ZLIB", "GZIP", "XZ", "ZSTD" or "AUTO", in any case. Throws InvalidArgument on
/// another word.
Compression parse_compression(std::string_view word);
std::string_view name_of(Compression compression);

/// MUSTER_MAX_RATIO of the environment, or 200. Throws InvalidArgument unless it is a positive
/// number.
std::uint64_t default_max_ratio();

/// Bounds on what a compressed file may grow to: past either one, reading throws ResourceExhausted.
struct DecompressionLimits {
  std::uint64_t max_output_bytes = std::uint64_t{1} << 40;
  /// Output over input, looked at beyond the first 16 MiB of output. Data sets that people train on
  /// stay below 50; a file made to fill the memory has 1,032 with zlib and more with XZ.
  std::uint64_t max_ratio = default_max_ratio();
  /// Memory that an XZ decoder may take for its dictionary, and a ZSTD one for its window.
  std::uint64_t max_decoder_bytes = std::uint64_t{256} << 20;
};

/// Plain bytes from front to back, wherever they come from. Belongs to one thread.
class InputStream {
 public:
  virtual ~InputStream() = default;
  /// Fills `out`; fewer bytes only at the end, 0 at the end. Throws DataLoss on damaged
  /// compression, naming the file and the offset in the compressed bytes; a compressed file that
  /// ends too early is DataLoss too, and the message says "truncated".
  virtual std::size_t read(std::span<char> out) = 0;
};

/// Opens a file and takes its compression off. Throws NotFound.
std::unique_ptr<InputStream> open_input(const Path& path,
                                        Compression compression = Compression::kAuto,
                                        const DecompressionLimits& limits = {});

/// The same over bytes in memory, which must outlive the stream; `name` stands for the file in
/// messages.
std::unique_ptr<InputStream> open_input(std::string_view bytes, std::string name,
                                        Compression compression = Compression::kAuto,
                                        const DecompressionLimits& limits = {});

/// All of a stream. Throws ResourceExhausted beyond `limit_bytes`.
std::string read_all(InputStream& stream, std::uint64_t limit_bytes);

}  // namespace muster
