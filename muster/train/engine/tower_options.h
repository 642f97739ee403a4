#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <string>
#include <vector>

#include "muster/nn/model/model_factory.h"
#include "muster/nn/optim/optimizer.h"
#include "muster/train/engine/run_config.h"

namespace muster {

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
  /// See RunConfig.
  std::string recompute{};
  /// Whether a tower on the CPU has memory for its gradients from their backward until they are
  /// added or sent, instead of always: RunConfig::sharding.
  bool releases_gradients = false;
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
  /// Those of the run, by which some variables are VariableSpec::whole.
  OptimizersByPrefix optimizer{};
  /// See ReproducibilityConfig.
  CompileMode compile = CompileMode::kOff;
  /// File that receives the report of compiled steps; empty for none.
  Path compile_report{};

  bool on_gpus() const;
  /// How many replicas can run at the same time: a lane for each.
  std::size_t lanes() const;
};

}  // namespace muster
