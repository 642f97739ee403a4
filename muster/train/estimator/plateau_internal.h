#pragma once

#include <cstdint>
#include <map>
#include <mutex>

#include "muster/train/engine/hook.h"
#include "muster/train/engine/train_options.h"

namespace muster::internal {

/// Throws InvalidArgument, naming the option.
void check(const PlateauOptions& options);

/// The factor of learning rates after these evaluations by step, in their order.
double plateau_factor(const PlateauOptions& options,
                      const std::map<std::int64_t, double>& evaluations);

/// Hears of the evaluations of a run, those on the disk included, and knows the factor of each
/// step. Any thread may ask for it.
class Plateau : public Hook {
 public:
  explicit Plateau(PlateauOptions options);

  /// The factor of the update that is made when so many were made before.
  double factor(std::int64_t step) const;

  void begin(Session& session) override;
  void after_evaluation(Session& session, const EvaluationResult& metrics) override;

 private:
  const PlateauOptions options_;
  mutable std::mutex mutex_;
  std::map<std::int64_t, double> evaluations_;
};

}  // namespace muster::internal
