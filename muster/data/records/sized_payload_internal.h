#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "muster/data/records/compression.h"

namespace muster {

/// Reads a file whose header says how much data follows, without trusting it: memory grows with the
/// bytes that really come. Counts the offset for errors, which name the file.
class SizedReader {
 public:
  SizedReader(InputStream& input, std::string_view name) : input_(input), name_(name) {}

  std::uint64_t offset() const { return offset_; }
  std::string_view name() const { return name_; }

  /// Exactly this many bytes; throws DataLoss, saying that the file is truncated inside `what`.
  std::string take(std::uint64_t bytes, std::string_view what);
  /// Throws DataLoss unless the file ends here.
  void expect_end();

 private:
  InputStream& input_;
  std::string_view name_;
  std::uint64_t offset_ = 0;
};

}  // namespace muster
