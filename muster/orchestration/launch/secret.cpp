#include "muster/orchestration/launch/secret.h"

#include <fmt/core.h>
#include <sys/random.h>

#include <array>
#include <cerrno>

#include "muster/base/error.h"

namespace muster::launch {

std::string draw_secret() {
  std::array<unsigned char, 32> drawn{};
  // So few bytes come whole or not at all.
  while (::getrandom(drawn.data(), drawn.size(), 0) < 0) {
    if (errno != EINTR) throw_errno(errno, "drawing random bytes");
  }
  std::string text;
  for (const unsigned char byte : drawn) text += fmt::format("{:02x}", byte);
  return text;
}

}  // namespace muster::launch
