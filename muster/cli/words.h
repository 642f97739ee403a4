#pragma once

#include <string>
#include <vector>

namespace muster::cli {

/// The parts of a text between separators; one more than there are separators.
std::vector<std::string> split(const std::string& text, char separator);

/// The same where separators in '...' and "..." do not count; a backslash takes the next character
/// with it inside of quotes.
std::vector<std::string> split_outside_quotes(const std::string& text, char separator);

}  // namespace muster::cli
