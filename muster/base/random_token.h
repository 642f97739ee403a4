#pragma once

#include <string>

namespace muster {

/// 128 bits from the system in 32 hexadecimal digits: no two are the same, whatever the seed.
std::string random_token();

}  // namespace muster
