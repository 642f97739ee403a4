#pragma once

#include <functional>

namespace muster {

/// The edge of a program, for main(): calls `body` and returns its status. An exception is logged
/// and becomes the exit status that describe() gives it: 1 failed, 2 misused, 75 worth another try,
/// 128 + n stopped by signal n after a last checkpoint.
int run_main(const std::function<int()>& body);

}  // namespace muster
