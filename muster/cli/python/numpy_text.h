#pragma once

#include <string>

#include "muster/saved_model/graph/tensor_value.h"

namespace muster::python {

/// Formats the tensor as Python prints an array of numpy's with its default settings: aligned
/// columns, eight digits, lines of 75 characters, "..." beyond 1,000 elements. Strings are bytes,
/// b'...'. Throws Unimplemented for bfloat16 and other types that numpy has not.
std::string numpy_text(const graph::TensorValue& tensor);

/// As Python shows bytes: b'caf\xc3\xa9'.
std::string python_bytes(std::string_view bytes);

}  // namespace muster::python
