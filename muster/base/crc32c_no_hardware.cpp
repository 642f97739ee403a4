#include "muster/base/crc32c_internal.h"

namespace muster::crc32c_internal {

std::optional<Hardware> hardware() { return std::nullopt; }

}  // namespace muster::crc32c_internal
