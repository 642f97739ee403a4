#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>

namespace muster::stores {

/// The value of a variable of the environment; empty where it is not set.
std::string variable(const char* name);
/// The value of the first of them that is not empty; empty for none.
std::string first_variable(std::initializer_list<const char*> names);
/// Throws InvalidArgument, naming the variable, for what is no number from `least` to `most`.
std::int64_t number_variable(const char* name, std::int64_t otherwise, std::int64_t least,
                             std::int64_t most);
/// Names those of them that are set in one warning: other programs honour them, muster does not.
void warn_of_unused_variables(std::initializer_list<const char*> names);

}  // namespace muster::stores
