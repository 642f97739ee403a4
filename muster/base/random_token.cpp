#include "muster/base/random_token.h"

#include <fmt/format.h>

#include <random>

namespace muster {

std::string random_token() {
  std::random_device device;
  return fmt::format("{:08x}{:08x}{:08x}{:08x}", device(), device(), device(), device());
}

}  // namespace muster
