#pragma once

#include <vector>

#include "muster/server/model_config.h"
#include "muster/serving.pb.h"

namespace muster::server {

/// A list of models as a configuration file or a call has it. Throws InvalidArgument in the words
/// of TensorFlow Serving.
std::vector<ModelConfig> models_of(const tensorflow::serving::ModelServerConfig& config);

}  // namespace muster::server
