#include "muster/base/fingerprint.h"

#include <farmhash.h>
#include <fmt/format.h>

namespace muster {

std::uint64_t fingerprint64(std::string_view bytes) {
  return util::Fingerprint64(bytes.data(), bytes.size());
}

std::uint64_t fingerprint64(std::int64_t number) {
  const fmt::format_int text(number);
  return util::Fingerprint64(text.data(), text.size());
}

}  // namespace muster
