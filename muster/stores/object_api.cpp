#include "muster/stores/object_api.h"

#include "muster/base/error.h"

namespace muster::stores {

std::optional<std::string> ObjectApi::version_with(const ObjectName& name, std::string_view bytes) {
  try {
    // One more than it should have, to see that there are no more.
    const ObjectRange found = get(name, 0, bytes.size() + 1, "", {});
    if (found.bytes == bytes && found.info.size_bytes == bytes.size()) return found.info.version;
  } catch (const NotFound&) {  // Removed meanwhile.
  }
  return std::nullopt;
}

}  // namespace muster::stores
