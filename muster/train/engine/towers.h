#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "muster/data/features/batch.h"
#include "muster/nn/model/model.h"
#include "muster/nn/model/model_factory.h"
#include "muster/nn/model/module_variables.h"
#include "muster/nn/optim/variables.h"
#include "muster/train/engine/device_slots.h"
#include "muster/train/engine/flat_pool.h"
#include "muster/train/engine/lane_threads.h"
#include "muster/train/engine/partial_sums.h"
#include "muster/train/engine/replica_buffers.h"
#include "muster/train/engine/tower.h"
#include "muster/train/engine/tower_options.h"
#include "muster/train/engine/variable_copies.h"

namespace muster {

class Head;

/// The replicas that one process runs: modules that share the process's variables, side by side or
/// in turn, on the devices that DeviceSlots says. How many run at a time changes no bit of the
/// result. Belongs to the loop's thread.
class Towers {
 public:
  /// The head, which may be null, outlives them.
  Towers(const ModelFactory& factory, const Head* head, const TowerOptions& options);
  ~Towers();
  Towers(const Towers&) = delete;
  Towers& operator=(const Towers&) = delete;

  /// The values that all towers share. Buffers are those of replica 0.
  const Variables& variables() const { return variables_; }
  /// The same variables with their layout in checkpoints.
  std::span<const ModuleVariable> module_variables() const { return module_variables_; }
  /// With as many concurrent replicas as there are lanes.
  const TowerOptions& options() const { return options_; }
  const DeviceSlots& slots() const { return slots_; }

  /// Forward and backward of every one of these replicas that has a batch. There is an element for
  /// each replica of the run in `batches`; those of others are not looked at. The result's tensors
  /// are reused by the next call. On a GPU the work is only given: see wait().
  PartialSums run(std::span<std::optional<Batch>> batches, ReplicaRange replicas, std::int64_t step,
                  double loss_scale, const CapturedInput& captured = {});

  /// Where a GPU runs the towers and the variables are in host memory: until the sums and buffers
  /// of the last run are there, too.
  void wait() const;

  /// Whether a replica's forward may draw from libtorch's generators: see seed_generators().
  bool draws_from_libtorch() const;

  /// After the update: the buffers that replica 0's forward changed are those that count from here
  /// on.
  void commit();
  /// Instead of the update: buffers are as they were before the step.
  void discard();
  /// Those of replica 0, as its last forward left them. Where another process runs it, its buffers
  /// are copied into these before commit().
  const std::vector<at::Tensor>& buffers() const { return buffers_.current(); }

  /// Whether a step of these batches only gives work to devices, and may be captured.
  bool is_settled(std::span<const std::optional<Batch>> batches, ReplicaRange replicas);

  /// Replica 0's, with the values that variables() and buffers() have between two steps: where it
  /// runs on a device that is not the primary, they are brought to it.
  std::shared_ptr<Model> current_model();

 private:
  /// One call of run().
  struct Run;

  Towers(const ModelFactory& factory, const Head* head, const TowerOptions& options,
         const std::shared_ptr<Model>& first);
  std::unique_ptr<Tower> make_tower(std::shared_ptr<Model> model, std::size_t lane,
                                    const Head* head) const;
  Tower& tower_of(std::size_t lane, std::int64_t replica);
  ReplicaResult run_replica(Tower& tower, std::int64_t replica, const Batch& batch,
                            const ReplicaStep& step);
  ReplicaResult run_or_say_where(Tower& tower, std::int64_t replica, const Batch& batch,
                                 const ReplicaStep& step);
  void run_lane(std::size_t lane, Run& run);
  void run_lanes(Run& run);
  void run_slot(std::size_t slot, Run& run, ReplicaRange round);
  void run_slots(Run& run, ReplicaRange round);
  void run_round(Run& run, ReplicaRange round);
  Gradients copy_of(const Gradients& gradients, at::Tensor flat) const;
  at::Tensor bring_loss(std::int64_t replica, const at::Tensor& loss);
  void report(Run& run, std::int64_t replica, ReplicaResult result);
  void bring_to_primary(TreeSum<Gradients>::Parts& sums, bool copied);

  const TowerOptions options_;
  const DeviceSlots slots_;
  const std::vector<ModuleVariable> module_variables_;
  ReplicaBuffers buffers_;
  const Variables variables_;
  const VariableCopies copies_;
  /// One a lane. Lane 0 has another one for its replicas after 0, whose buffers are not the run's.
  std::vector<std::unique_ptr<Tower>> towers_;
  /// Where sums are made.
  FlatPool flats_;
  /// On the primary, where that is elsewhere.
  FlatPool flats_at_primary_;
  /// By replica, on the primary, those that were made elsewhere.
  std::vector<at::Tensor> losses_at_primary_;
  /// Null where one thread runs all lanes.
  std::unique_ptr<LaneThreads> threads_;
};

}  // namespace muster
