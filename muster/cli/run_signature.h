#pragma once

#include <string>

#include "muster/executor/executable_model.h"
#include "muster/serving/instances.h"

namespace muster::cli {

/// The outputs of a signature, in and out of libtorch's memory.
serving::Tensors run_signature(const executor::ExecutableModel& model, const std::string& signature,
                               const serving::Tensors& inputs);

}  // namespace muster::cli
