#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace muster {

/// A byte encoding whose order as bytes is the order of the values. TensorFlow names the parts of
/// partitioned variables with it.
void append_ordered_number(std::string& out, std::uint64_t value);
void append_ordered_signed(std::string& out, std::int64_t value);
void append_ordered_string(std::string& out, std::string_view value);

}  // namespace muster
