#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/file_system.h"
#include "muster/saved_model/executor/explanation.h"
#include "muster/saved_model/graph/saved_model.h"
#include "muster/serving/codec/instances.h"

/// Models as a service. The core (model_store.h, batch_queue.h, statistics.h) knows models,
/// versions and batches and no protocol; each protocol is an edge over it. Nothing here needs
/// libtorch: the program that makes a server supplies the loader of models.
namespace muster::serving {

using serving::Tensors;
using Explanations = std::vector<executor::Explanation>;
using Signatures = std::map<std::string, graph::SignatureDef, std::less<>>;

/// One loaded version of a model. All functions may be called from any thread.
class Servable {
 public:
  virtual ~Servable() = default;
  /// By name.
  virtual const Signatures& signatures() const = 0;
  /// Platform that the model is written for, as Triton names it.
  virtual std::string_view platform() const { return "tensorflow_savedmodel"; }
  /// Computes all outputs of a signature. Throws InvalidArgument for inputs that do not fit.
  virtual Tensors run(std::string_view signature, const Tensors& inputs) const = 0;
  /// The part of each input in an output, row by row; the baseline has one row. Throws as
  /// ExecutableModel::explain does.
  virtual Explanations explain(std::string_view signature, const Tensors& /*inputs*/,
                               const executor::ExplainOptions& /*options*/,
                               const std::optional<Tensors>& /*baseline*/) const {
    throw Unimplemented("the signature {} cannot be explained: its model has no gradients",
                        signature);
  }
};

/// Loads the SavedModel of a folder. Throws when it cannot.
using LoadServable = std::function<std::shared_ptr<const Servable>(const Path& dir)>;

}  // namespace muster::serving
