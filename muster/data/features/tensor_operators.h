#pragma once

/// Operators of tensors and numbers: x - 120, 2 * x, x > 0. A tensor of Features alone brings its
/// member functions; libtorch's header of the operators brings all functions of libtorch, which
/// take seconds to compile, unless it is told that functions are included one by one.

#ifdef AT_PER_OPERATOR_HEADERS
#include <ATen/TensorOperators.h>
#else
#define AT_PER_OPERATOR_HEADERS
#include <ATen/TensorOperators.h>
#undef AT_PER_OPERATOR_HEADERS
#endif
