#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "muster/data/records/compression.h"

namespace muster::compression_internal {

/// An input that hands out everything before a damaged place, and only then throws: a reader of
/// records wants the whole ones in front of the damage.
class PartialInput : public InputStream {
 public:
  /// Some bytes of `out`, at least one unless at the end.
  virtual std::size_t read_some(std::span<char> out) = 0;
  std::size_t read(std::span<char> out) final;
};

std::unique_ptr<PartialInput> file_input(const Path& path);
/// The bytes must outlive the input.
std::unique_ptr<PartialInput> memory_input(std::string_view bytes);
/// `first`, then what `rest` has: puts back what was looked at.
std::unique_ptr<PartialInput> prefixed_input(std::string first, std::unique_ptr<PartialInput> rest);

/// How many first bytes tell the kinds apart.
inline constexpr std::size_t kMagicBytes = 6;
/// kGzip, kXz, kZstd, or kNone for anything else.
Compression recognise(std::string_view first);
/// Whether the bytes of a file, read so, are the ones that it has.
bool is_plain(const Path& path, Compression compression);
/// Whether a zlib stream can begin so: a weak check, one in a thousand random files passes.
bool can_be_zlib(std::string_view first);

/// Takes a compression (not kAuto) off. `name` stands for the file in messages.
std::unique_ptr<PartialInput> decompress(std::unique_ptr<PartialInput> input, std::string name,
                                         Compression compression,
                                         const DecompressionLimits& limits);

/// The same for deflate data without a header, as archives hold it.
std::unique_ptr<PartialInput> inflate_bare(std::unique_ptr<PartialInput> input, std::string name,
                                           const DecompressionLimits& limits);

}  // namespace muster::compression_internal
