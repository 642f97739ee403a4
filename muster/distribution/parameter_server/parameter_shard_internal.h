#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "muster/data/checkpoint/snapshot_writer.h"
#include "muster/distribution/membership/membership_internal.h"
#include "muster/distribution/parameter_server.h"
#include "muster/distribution/parameter_server/ps_layout_internal.h"
#include "muster/distribution/parameter_server/server_parts_internal.h"
#include "muster/distribution/wire/messages_internal.h"
#include "muster/nn/optim/updater.h"
#include "muster/nn/optim/variables.h"
#include "muster/train/engine/run_state.h"

namespace muster::internal {

/// State of a `ps` task, by whatever policy it is updated: memory for all variables and the
/// optimizers' slots, of which only its part counts, and its place in the run. Belongs to one
/// thread.
class ParameterShard {
 public:
  ParameterShard(const EstimatorOptions& options, const RunConfig& run_config,
                 const ParameterServerOptions& server_options);

  /// The run's terms as far as this task knows them; the chief decides the rest.
  RunContract own_terms() const;
  /// How far it is.
  Progress progress() const {
    return has_state ? Progress{step, skipped_batches} : Progress{.step = -1};
  }
  /// The whole memory, and how far it is.
  RunSnapshot snapshot() const;
  /// Takes over the state that a task of the group sends.
  void take_snapshot(std::size_t from);

  std::size_t trainers() const { return group->plan().trainers; }
  /// Sizes of the tensors that training tasks send this one; only the first server gets buffers.
  ExpectedTensors expected() const;
  void take_buffers(const std::vector<at::Tensor>& values) const;

  /// Everything, for a task that lacks it.
  Values state_values();
  /// Adds values that an update changed: dense variables, these rows, the first server's buffers.
  void put_new_values(Values& message, std::vector<RowGradient> rows) const;
  /// The slots of this task's part, as PsServers::take_slots() takes them.
  void send_slots(std::size_t to, const SlotsRequest& request = {});

  /// Answers what a chief that saves asks for, which changes nothing here; false for another
  /// message.
  bool take_request(std::size_t from, net::Frame& frame);
  /// Before values change: until then they may be what a checkpoint is copied from.
  void wait_until_copied() { part_writer.wait_until_copied(); }

  const RunConfig config;
  Membership membership;
  /// The membership's current one.
  Group* group = nullptr;
  std::shared_ptr<Model> model;
  const std::vector<RunTerm> terms;
  Variables variables;
  Updater updater;
  PsLayout layout;
  /// This task's place among the servers.
  const std::size_t number;
  /// Buffers, which replica 0's forward changes.
  std::vector<at::Tensor> buffers;
  /// Gradients of this server's part; elements that other servers hold stay 0.
  Gradients gradients;
  bool has_state = false;
  /// Updates that were made here, and batches that were skipped.
  std::int64_t step = 0;
  std::int64_t skipped_batches = 0;
  std::int64_t inputs_from = 0;
  RunState state;
  ServerParts parts;
  /// Last: what it copies, and whom it tells, is above.
  SnapshotWriter part_writer;

 private:
  void answer(std::size_t to, const FolderRequest& question);
  void write_part(std::size_t asked_by, const PartRequest& request);
};

}  // namespace muster::internal
