#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "muster/base/thread_pool.h"
#include "muster/data/features/batch.h"
#include "muster/nn/device/gpu.h"
#include "muster/nn/model/model.h"
#include "muster/nn/model/model_factory.h"
#include "muster/nn/model/module_variables.h"
#include "muster/nn/optim/variables.h"
#include "muster/train/engine/packed_tensors.h"
#include "muster/train/engine/partial_sums.h"
#include "muster/train/engine/run_config.h"

namespace muster {

class Head;

/// The names and kinds that Variables take over from a module's.
AdoptOptions adopt_options(const std::vector<ModuleVariable>& variables);

/// Where the towers of a run are: on RunConfig::devices.names. A model with feature columns looks
/// them up on the CPU: it is there where no device is named, and an InvalidArgument says so where a
/// GPU is.
std::vector<c10::Device> tower_devices(const RunConfig& config, const ModelFactory& factory);

struct TowerOptions {
  std::int64_t replicas = 1;
  /// How many replicas run at the same time.
  int concurrent = 1;
  int threads_per_replica = 1;
  std::uint64_t seed = 0;
  ComputeType precision = ComputeType::kFloat32;
  /// Whether discard() may be called.
  bool may_discard = false;
  /// Whether other processes run some of the replicas, now these and now those.
  bool shared = false;
  /// Where towers run. On GPUs there is one for each entry, and replicas take them in turn; empty,
  /// or the CPU alone: as many as `concurrent` says.
  std::vector<c10::Device> devices{};
  /// Where the variables are. On the CPU they always are where towers run on it alone.
  VariableStrategy variable_strategy = VariableStrategy::kDevices;
  /// See DeviceConfig.
  bool logical_devices = false;
  /// See ReproducibilityConfig.
  bool own_cpu_kernels = true;
  /// See EstimatorOptions.
  bool zero_debias_batch_norm = false;

  bool on_gpus() const;
};

/// For a step that is captured: what changes from replay to replay.
struct CapturedInput {
  /// For each place of the towers: those of the run's replicas, in the memory of its device. See
  /// RandomScope. Empty where nothing is captured.
  std::span<const std::uint64_t* const> keys{};
  /// What is given to the device is not done now, and libtorch's generators are seeded already.
  bool capturing = false;
  /// Such a step is to be captured: the calling thread gives all devices their work, as it will
  /// then, since libraries have handles by thread.
  bool in_turn = false;
};

/// The replicas that one process runs: modules that share the process's variables, side by side or
/// in turn. How many run at a time changes no bit of the result. Belongs to the loop's thread.
///
/// Where the variables are on a GPU and some towers on others, each GPU is a place: a stream, a
/// copy of the variables that every step writes again, and the towers that run there. Place 0 is
/// home, whose stream is the loop's. A step forks the others from it and joins them, so nobody
/// waits and all of it can be captured.
class Towers {
 public:
  Towers(const ModelFactory& factory, const Head* head, TowerOptions options);
  ~Towers();
  Towers(const Towers&) = delete;
  Towers& operator=(const Towers&) = delete;

  /// The values that all towers share. Buffers are those of replica 0.
  const Variables& variables() const { return *variables_; }
  /// The same variables with their layout in checkpoints.
  std::span<const ModuleVariable> module_variables() const { return module_variables_; }
  const TowerOptions& options() const { return options_; }
  /// Where variables() are, and with them the sums of gradients.
  c10::Device home() const { return home_; }

  /// Forward and backward of every one of these replicas that has a batch. There is a place for
  /// each replica of the run in `batches`; those of others are not looked at. The result's tensors
  /// are reused by the next call. On a GPU the work is only given: see wait().
  PartialSums run(std::span<std::optional<Batch>> batches, ReplicaRange replicas, std::int64_t step,
                  double loss_scale, const CapturedInput& captured = {});

  /// Where a GPU runs the towers and the variables are in host memory: until the sums and buffers
  /// of the last run are there, too.
  void wait() const;

  /// Seeds libtorch's generators for a replica's forward. While the lock is held, nobody else in
  /// the process does.
  [[nodiscard]] std::unique_lock<std::mutex> seed_generators(std::int64_t step,
                                                             std::int64_t replica) const;
  /// 1 where all towers take the loop's stream.
  std::size_t places() const { return 1 + branches_.size(); }
  /// Where one of these replicas of this process runs.
  std::size_t place_of(std::int64_t replica, ReplicaRange replicas) const;
  c10::Device device_of_place(std::size_t place) const { return place_devices_[place]; }
  /// While it lives, this thread's work for the place's device goes to its stream.
  [[nodiscard]] BranchStream::Use use(std::size_t place) const;
  /// What places are given from now on begins when the loop's stream has come so far.
  void fork() const;
  /// The loop's stream goes on when all places have come so far.
  void join() const;

  /// Whether a replica's forward may draw from libtorch's generators.
  bool draws_from_libtorch() const;

  /// After the update: the buffers that replica 0's forward changed are those that count from here
  /// on.
  void commit();
  /// Instead of the update: buffers are as they were before the step.
  void discard();
  /// Those of replica 0, as its last forward left them. Where another process runs it, its buffers
  /// are copied into these before commit().
  const std::vector<at::Tensor>& buffers() const;

  /// Replica 0's, with the values that variables() and buffers() have between two steps: where it
  /// runs on a device that is not their home, they are brought to it.
  std::shared_ptr<Model> current_model();

  /// A model with values of its own, as the factory makes it, seeded, on the CPU: for evaluation.
  static std::shared_ptr<Model> make_model(const ModelFactory& factory, std::uint64_t seed);

 private:
  struct Tower;
  /// What one replica gave.
  struct ReplicaResult;
  /// One call of run().
  struct Run;
  /// The variables once more, on a device that is not their home.
  struct Copy;

  void assign_places(std::size_t lanes);
  bool is_away(std::size_t lane) const;
  void make_copies(const ModelFactory& factory);
  void refresh_copies();
  void refresh(const Copy& copy) const;
  /// Null at home.
  const Copy* copy_for(std::size_t lane) const;
  const Variables& variables_of_lane(std::size_t lane) const;
  std::unique_ptr<Tower> make_tower(const std::shared_ptr<Model>& model, std::size_t lane) const;
  c10::Device device_of(std::size_t lane) const;
  EstimatorSpec call_model(Tower& tower, std::int64_t replica, const Batch& batch, const Run& step);
  ReplicaResult run_replica(Tower& tower, std::int64_t replica, const Batch& batch,
                            const Run& step);
  ReplicaResult run_or_say_where(Tower& tower, std::int64_t replica, const Batch& batch,
                                 const Run& step);
  Tower& tower_of(std::size_t lane, std::int64_t replica);
  void run_lane(std::size_t lane, Run& step);
  void run_beside(Run& step, std::size_t count, const std::function<void(std::size_t)>& work);
  void run_round(Run& step, ReplicaRange round);
  void run_place(std::size_t place, Run& step, ReplicaRange round);
  at::Tensor bring_loss(std::int64_t replica, const at::Tensor& loss);
  void report(Run& step, std::int64_t replica, ReplicaResult outcome);
  void lay_out_buffers(Model& model);
  void keep_buffers();
  void bring_buffers(const PackedTensors& from, Tower& tower) const;
  void take_buffers(Tower& tower);
  Gradients copy_of(const Gradients& gradients, at::Tensor flat) const;
  at::Tensor free_flat(std::vector<at::Tensor>& from, c10::Device device) const;
  void bring_home(TreeSum<Gradients>::Parts& sums, bool copied);

  const Head* head_;
  TowerOptions options_;
  c10::Device home_{c10::kCPU};
  /// By lane; all are 0 where there is one.
  std::vector<std::size_t> place_of_lane_;
  std::vector<c10::Device> place_devices_;
  /// The streams of the places after the first. Ends after all that it is given work for.
  std::vector<BranchStream> branches_;
  /// By replica, those that were made elsewhere, at home.
  std::vector<at::Tensor> losses_at_home_;
  /// Where the sums of gradients are made: on the GPU of all towers, else at home.
  c10::Device sums_on_{c10::kCPU};
  /// The first is replica 0's, whose buffers are the process's.
  std::vector<std::unique_ptr<Tower>> towers_;
  std::vector<ModuleVariable> module_variables_;
  std::optional<Variables> variables_;
  std::vector<std::unique_ptr<Copy>> copies_;
  /// Those of replica 0, at home: of its tower, or copies of its tower's.
  std::vector<at::Tensor> buffers_;
  /// Buffers as the last step left them: what every replica but 0 starts from.
  std::vector<at::Tensor> kept_buffers_;
  /// Where some towers are not at home: the memory of the buffers, and of those that are kept.
  std::optional<PackedTensors> packed_buffers_;
  std::optional<PackedTensors> packed_kept_;
  /// Flat gradients that are not in use, where sums are made.
  std::vector<at::Tensor> free_;
  /// The same at home, where that is elsewhere.
  std::vector<at::Tensor> free_at_home_;
  /// Lanes run side by side; those that share a GPU's stream take turns, as their work does.
  std::unique_ptr<ThreadPool> pool_;
};

}  // namespace muster
