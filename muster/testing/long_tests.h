#pragma once

#include <cstdlib>
#include <string_view>

namespace muster::testing {

/// Whether MUSTER_LONG_TESTS=1 asks for the whole of what a test of every change takes a part of;
/// scripts/nightly does.
inline bool are_tests_long() {
  const char* const text = std::getenv("MUSTER_LONG_TESTS");
  return text != nullptr && std::string_view(text) == "1";
}

}  // namespace muster::testing
