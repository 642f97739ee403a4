#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "muster/base/signals.h"
#include "muster/distribution/membership_internal.h"
#include "muster/distribution/parameter_server.h"
#include "muster/distribution/ps_layout_internal.h"
#include "muster/optim/updater.h"
#include "muster/optim/variables.h"

namespace muster::internal {

/// What every kind of `ps` task has: memory for all variables and the optimizers' slots, of which
/// only its part counts, and its place in the run.
class VariableHolder {
 protected:
  VariableHolder(const EstimatorOptions& options, const RunConfig& config,
                 const ParameterServerOptions& server_options);

  /// The chief ends the run; a signal to all tasks must not take the variables away before it has
  /// saved. While this lives, the first signal is only told of.
  static StopSignals outlast_signals();
  /// What this task knows of the others' terms, which the chief decides.
  RunTerms own_terms() const;
  /// synchronize() with what this task holds. False when the run has ended.
  bool join_group(const std::function<bool(Group& group, const Source& source)>& take);
  /// The whole memory, and how far it is.
  RunSnapshot snapshot() const;
  /// What tasks that train send this one; only the first server gets buffers.
  ExpectedTensors expected() const;
  /// Those of this task's part, as PsStrategy::take_slots() takes them.
  void send_slots(std::size_t to);

  const RunConfig config_;
  Membership membership_;
  /// The membership's current one.
  Group* group_ = nullptr;
  std::shared_ptr<Model> model_;
  const std::vector<RunTerm> terms_;
  Variables variables_;
  Updater updater_;
  PsLayout layout_;
  /// This task's place among the servers.
  const std::size_t number_;
  /// What replica 0's forward changes.
  std::vector<at::Tensor> buffers_;
  Gradients gradients_;
  bool has_state_ = false;
  /// Updates that were made here, and batches that were left out.
  std::int64_t step_ = 0;
  std::int64_t left_out_ = 0;
};

}  // namespace muster::internal
