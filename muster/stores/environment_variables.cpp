#include "muster/stores/environment_variables.h"

#include <charconv>
#include <cstdlib>

#include "muster/base/error.h"

namespace muster::stores {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string first_variable(std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (std::string value = variable(name); !value.empty()) return value;
  }
  return "";
}

std::int64_t number_variable(const char* name, std::int64_t otherwise, std::int64_t least,
                             std::int64_t most) {
  const std::string text = variable(name);
  if (text.empty()) return otherwise;
  std::int64_t number = 0;
  const char* const end = text.data() + text.size();
  if (std::from_chars(text.data(), end, number).ptr != end || number < least || number > most) {
    throw InvalidArgument("{} must be a number from {} to {}: {}", name, least, most, text);
  }
  return number;
}

}  // namespace muster::stores
