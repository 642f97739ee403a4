#pragma once

#include <functional>
#include <memory>

namespace muster {

class Model;

/// Makes a model with its variables; called once for each tower, and for evaluation and prediction.
/// Model is only named here: what trains a model that others wrote need not read libtorch's
/// modules, which take seconds to compile. What makes one includes muster/nn/model/model.h.
using ModelFactory = std::function<std::shared_ptr<Model>()>;

}  // namespace muster
