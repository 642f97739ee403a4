#pragma once

#include "muster/train/estimator/estimator.h"

namespace muster::internal {

/// The estimator as a task of its cluster uses it: with the strategy that the cluster asks for, or
/// that RunConfig::cluster.train_distribute names. The log says which and why when training begins.
///
/// Throws Unimplemented or FailedPrecondition, naming the task, for what cannot be trained in this
/// cluster: every task of it does, so that none waits for the others.
Estimator cluster_member(const Estimator& estimator);

}  // namespace muster::internal
