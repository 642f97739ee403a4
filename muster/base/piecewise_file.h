#pragma once

#include <memory>
#include <string_view>

#include "muster/base/file_system.h"

namespace muster {

/// Bytes that stay as they are while the owner is held.
struct SharedBytes {
  std::string_view bytes{};
  std::shared_ptr<const void> owner{};
};

/// A file that comes in large pieces, as those of stores do, which can be read where they lie.
class PiecewiseFile : public ReadableFile {
 public:
  /// The rest of the piece with the current place, or of its first half; the place is then after
  /// it. Empty at the end of the file.
  virtual SharedBytes next_piece() = 0;
};

}  // namespace muster
