#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

namespace muster::serving {

/// Parses JSON that may hold the bare words NaN, Infinity and -Infinity, as Python and TensorFlow
/// Serving write them; special_number() finds them again. Throws InvalidArgument with the place.
nlohmann::json parse_json(std::string_view text);

/// "NaN", "Infinity" or "-Infinity" if the value is one of them, else nullptr.
const std::string* special_number(const nlohmann::json& value);

/// The text of {"b64": text}, or nullptr for any other value.
const std::string* base64_text(const nlohmann::json& value);

/// What a value is, for messages: "a list", "the string \"abc\"", "1.5".
std::string describe(const nlohmann::json& value);

}  // namespace muster::serving
