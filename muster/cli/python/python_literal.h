#pragma once

#include <string>
#include <string_view>

namespace muster::python {

/// A value as Python writes it, as JSON: numbers, True, False, None, strings ('a', "a", b'a' as
/// {"b64": ...}), lists, tuples and dictionaries, np.nan and np.inf (bare NaN and Infinity), and
/// np.array(...), np.ones(shape), np.zeros(shape), np.arange(...), whose dtype is passed over.
/// Throws InvalidArgument, with the place, for anything else: nothing is ever run.
std::string python_to_json(std::string_view text);

}  // namespace muster::python
