#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "muster/base/file_system.h"
#include "muster/data/records/compression.h"

namespace muster::compression_internal {

/// Compresses bytes on their way into a file.
class Compressor {
 public:
  virtual ~Compressor() = default;
  virtual void write(std::string_view bytes) = 0;
  /// Makes what was written so far readable; costs some compression.
  virtual void flush() = 0;
  /// Ends the stream.
  virtual void finish() = 0;
};

/// For kNone, kZlib and kGzip; the file must outlive it. Throws InvalidArgument on another
/// compression, or on a level outside 0 to 9.
std::unique_ptr<Compressor> make_compressor(WritableFile& file, Compression compression,
                                            std::optional<int> level);

}  // namespace muster::compression_internal
