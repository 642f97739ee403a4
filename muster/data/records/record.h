#pragma once

#include <memory>
#include <string_view>

namespace muster {

/// The bytes of one record and a share of the buffer they are in (a mapping or a block), so a
/// record can wait in a shuffle or a queue without being copied. Copying it copies the share, not
/// the bytes.
struct Record {
  std::string_view bytes;
  std::shared_ptr<const void> owner;
};

}  // namespace muster
