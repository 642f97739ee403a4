#pragma once

#include <cstdint>
#include <functional>

namespace muster::bench {

/// How often one call of `work` takes memory from the C library in this thread, libtorch's tensors
/// among it, after some calls that do not count.
std::int64_t allocations_of(const std::function<void()>& work);

}  // namespace muster::bench
