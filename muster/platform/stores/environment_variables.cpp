#include "muster/platform/stores/environment_variables.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/log.h"

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

void warn_of_unused_variables(std::initializer_list<const char*> names) {
  std::vector<std::string_view> set;
  for (const char* name : names) {
    if (!variable(name).empty()) set.emplace_back(name);
  }
  if (!set.empty())
    log::warning("set in the environment, but without effect: {}", fmt::join(set, ", "));
}

}  // namespace muster::stores
