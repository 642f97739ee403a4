#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "muster/base/error.h"

namespace muster::serving {

/// A tensor has at most 254 dimensions, and requests far fewer.
inline constexpr std::size_t kMostJsonDepth = 128;

/// Text that breaks JSON's grammar.
class JsonSyntaxError : public InvalidArgument {
 public:
  using InvalidArgument::InvalidArgument;
};

/// Parses JSON that may hold the bare words NaN, Infinity and -Infinity, as Python and TensorFlow
/// Serving write them; special_number() finds them again. Throws JsonSyntaxError with the place,
/// and InvalidArgument for lists and objects that are nested deeper than kMostJsonDepth.
nlohmann::json parse_json(std::string_view text);

/// "NaN", "Infinity" or "-Infinity" if the value is one of them, else nullptr.
const std::string* special_number(const nlohmann::json& value);

/// The value of such a one.
std::optional<double> special_double(const nlohmann::json& value);

/// The text of {"b64": text}, or nullptr for any other value.
const std::string* base64_text(const nlohmann::json& value);

/// Description of a value for messages: "a list", "the string \"abc\"", "1.5".
std::string describe(const nlohmann::json& value);

/// The JSON type of a value in TensorFlow Serving's words: "Null", "True", "Number".
const char* json_type_of(const nlohmann::json& value);

/// The value as JSON, cut off after 256 bytes, as TensorFlow Serving shows it in messages.
std::string shown_json(const nlohmann::json& value);

/// The body of a request to TensorFlow Serving. Throws InvalidArgument unless it is an object.
nlohmann::json parse_request_object(std::string_view text);
/// Its "signature_name", or serving_default. Throws InvalidArgument.
std::string signature_name_of(const nlohmann::json& body);

}  // namespace muster::serving
