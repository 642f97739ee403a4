#pragma once

#include <memory>
#include <string>

#include "muster/train/engine/gradient_reduction.h"
#include "muster/train/engine/participant.h"
#include "muster/train/engine/run_membership.h"

namespace muster {

struct EstimatorOptions;

/// How the replicas of a run are spread over processes, and how their gradients become one update:
/// its membership and its reduction. A local one is used where a process runs all replicas;
/// distribution/ has the others. Called by the trainer's thread alone: check, membership().join(),
/// attach, membership().synchronize(), then steps and the end.
class Strategy {
 public:
  virtual ~Strategy() = default;

  /// One line for the log.
  virtual std::string describe() const = 0;
  /// Throws Unimplemented or FailedPrecondition for what cannot be trained this way.
  virtual void check(const EstimatorOptions& /*options*/) const {}
  /// Called once; it outlives the strategy's use of it.
  virtual void attach(Participant& participant) = 0;

  /// The same ones in every call.
  virtual RunMembership& membership() = 0;
  virtual GradientReduction& reduction() = 0;
};

/// The strategy of a process that runs all replicas.
std::unique_ptr<Strategy> make_local_strategy();

}  // namespace muster
