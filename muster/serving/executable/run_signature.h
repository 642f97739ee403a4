#pragma once

#include <string_view>

#include "muster/saved_model/executor/executable_model.h"
#include "muster/serving/codec/instances.h"

namespace muster::serving {

/// The outputs of a signature, in and out of libtorch's memory.
serving::Tensors run_signature(const executor::ExecutableModel& model, std::string_view signature,
                               serving::Tensors inputs);

}  // namespace muster::serving
