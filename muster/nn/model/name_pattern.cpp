#include "muster/nn/model/name_pattern.h"

#include <cstddef>

namespace muster {

bool matches_name(std::string_view pattern, std::string_view name) {
  // After a mismatch, the last '*' takes one letter more.
  std::size_t in_pattern = 0;
  std::size_t in_name = 0;
  std::size_t star = std::string_view::npos;
  std::size_t star_end = 0;
  while (in_name < name.size()) {
    if (in_pattern < pattern.size() && pattern[in_pattern] == '*') {
      star = in_pattern++;
      star_end = in_name;
    } else if (in_pattern < pattern.size() && pattern[in_pattern] == name[in_name]) {
      ++in_pattern;
      ++in_name;
    } else if (star != std::string_view::npos) {
      in_pattern = star + 1;
      in_name = ++star_end;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', in_pattern) == std::string_view::npos;
}

}  // namespace muster
