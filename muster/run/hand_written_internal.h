#pragma once

namespace muster::internal {

/// Where the names of the variables begin that a training loop written by hand trains.
inline constexpr const char* kHandWrittenModel = "model";

}  // namespace muster::internal
