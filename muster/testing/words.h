#pragma once

#include <string>
#include <vector>

namespace muster::testing {

/// The arguments of a program.
using Words = std::vector<std::string>;

inline Words operator+(Words left, const Words& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

}  // namespace muster::testing
