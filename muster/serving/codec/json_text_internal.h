#pragma once

#include <string>
#include <string_view>

namespace muster::serving {

/// Appends a number with the fewest digits that read back as the same one, as Python writes it:
/// 2.0, 0.001, 1e-05. It must be finite.
void append_shortest(double value, std::string& out);
void append_shortest(float value, std::string& out);

/// Appends text in double quotes. False, with nothing appended, for what is no UTF-8.
bool append_quoted(std::string_view text, std::string& out);

}  // namespace muster::serving
