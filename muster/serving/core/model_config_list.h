#pragma once

#include <vector>

#include "muster/serving.pb.h"
#include "muster/serving/core/model_config.h"

namespace muster::serving {

/// A list of models as a configuration file or a call has it. Throws InvalidArgument in the words
/// of TensorFlow Serving.
std::vector<ModelConfig> models_of(const tensorflow::serving::ModelServerConfig& config);

}  // namespace muster::serving
