#pragma once

#include <memory>
#include <string>
#include <vector>

#include "muster/base/file_system.h"
#include "muster/data/features/features.h"

namespace muster {

struct EstimatorOptions;

/// The predictions that `keys` name, in their order. Throws InvalidArgument for an unknown one,
/// listing all.
Features select_predictions(const Features& predictions, const std::vector<std::string>& keys);

/// A model with the values of one checkpoint, loaded once, that answers any number of calls. All
/// functions may be called from any thread; calls take turns, since a libtorch module is not made
/// for several at once.
class Predictor {
 public:
  /// `checkpoint` is a prefix or a model folder. Throws NotFound, DataLoss, or InvalidArgument for
  /// a model that does not fit it, or a device that is not there.
  Predictor(const EstimatorOptions& options, const Path& checkpoint,
            const std::string& device = "cpu");
  ~Predictor();
  Predictor(Predictor&&) noexcept;
  Predictor& operator=(Predictor&&) noexcept;

  /// All predictions for a batch of features. Throws NotFound for a missing feature.
  Features predict(const Features& features) const;
  /// Only the ones that are named, in their order. Throws InvalidArgument for an unknown one.
  Features predict(const Features& features, const std::vector<std::string>& keys) const;

  std::int64_t global_step() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster
