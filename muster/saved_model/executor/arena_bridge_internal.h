#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "muster/saved_model/executor/arena_kernels_internal.h"
#include "muster/saved_model/executor/op_table_internal.h"

namespace muster::executor {

/// Whether the operation's own kernel may be a step of an ArenaPlan: it only makes its outputs of
/// its inputs, and takes so long that copies into and out of libtorch's memory do not count.
bool may_be_bridged(std::string_view op);

/// That kernel as a step of an ArenaPlan that reads this many of its outputs. `constants` are the
/// inputs that are some; null for others. They live as long as the step.
ArenaKernel arena_bridge(Kernel kernel, std::vector<std::shared_ptr<const Slot>> constants,
                         std::size_t outputs);

/// A tensor in the memory of the host as a value, whose elements it keeps. False where it has too
/// many axes, another type, or its elements do not are in order.
bool set_tensor(const at::Tensor& tensor, ArenaValue& to);

}  // namespace muster::executor
