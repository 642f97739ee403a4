#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/folder_claim.h"
#include "muster/distribution/parameter_server/ps_log_internal.h"
#include "muster/distribution/parameter_server/update_policy_internal.h"
#include "muster/distribution/wire/step_parts_internal.h"
#include "muster/nn/optim/update.h"

namespace muster::internal {

/// Updates that all servers make together or not at all, step by step, in two parts: each adds up
/// what it holds and tells the others the norms of it; who has the norms of all knows that all have
/// their gradients, and makes the step. Whose gradients those are is for others to say.
class StepUpdates : public UpdatePolicy {
 public:
  RunContract terms(RunContract own) const final;
  void prepare() final { open_log(); }
  bool begin(const Source& source) final;
  bool serve_next() final;
  void log_end() override;

 protected:
  StepUpdates(ParameterShard& held, const EstimatorOptions& options,
              const ParameterServerOptions& server_options);

  /// A generation has begun, with the state of the run.
  virtual void on_generation() = 0;
  /// By rank, what the tasks that train have of the next step; nothing when the run has ended.
  virtual std::optional<std::vector<ReceivedStep>> gather() = 0;
  /// Handles a message that has come while the norms of others are waited for.
  virtual void handle_out_of_band(std::size_t rank, net::Frame frame) = 0;
  /// Tells tasks what became of the step.
  virtual void answer(const PendingStep& step) = 0;

  ParameterShard& held_;

 private:
  bool take_source(const Source& source);
  bool catch_up(const Source& source);
  void add_up(std::vector<ReceivedStep> received);
  void take_gradients();
  std::optional<std::vector<Norms>> take_norms();
  bool exchange_norms(SquareSums& sums);
  void commit(SquareSums& sums);
  void decide(const SquareSums& sums);
  void make_update(const SquareSums& sums);
  // The log, where there is one.
  std::vector<std::string> rules() const;
  void make_log();
  void open_log();
  void begin_log();
  void replay_base(const PsLog::Base& base);
  void replay_commit(const std::vector<double>& squares, bool is_left_out);

  const EstimatorOptions& options_;
  const ParameterServerOptions server_options_;
  HostUpdate update_;
  /// A step whose gradients are added up: others may have made it.
  std::optional<PendingStep> pending_;
  /// Sums of squares of the last step that was made: by them another server makes it too.
  std::vector<double> last_squares_;
  /// Two tasks that wrote to one log would spoil it.
  std::optional<FolderClaim> log_claim_;
  std::optional<PsLog> log_;
};

}  // namespace muster::internal
