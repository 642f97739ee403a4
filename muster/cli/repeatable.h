#pragma once

#include <CLI/CLI.hpp>

namespace muster::cli {

/// For an option with a list: one value each time that it is given, and it may be given again.
/// CLI11's own lists take all words up to the next flag; expected(1) refuses the second time.
inline CLI::Option* repeatable(CLI::Option* option) {
  return option->expected(1, CLI::detail::expected_max_vector_size)->allow_extra_args(false);
}

}  // namespace muster::cli
