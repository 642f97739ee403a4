#pragma once

#include <memory>
#include <optional>
#include <string>

#include "muster/train/engine/resume_point.h"
#include "muster/train/engine/strategy.h"
#include "muster/train/engine/tower_options.h"
#include "muster/train/engine/train_run.h"

namespace muster {

/// Where the towers of a run are, and who makes its steps.
struct RunPlan {
  TowerOptions towers{};
  /// Whether devices make steps by themselves: see DeviceSteps.
  bool is_on_device = false;
  /// Whether one GPU is given the forwards and backwards of a step as a whole, and variables are
  /// updated elsewhere.
  bool captures_towers = false;
  /// Whether this process is to hold a part of slots and averages: which, its strategy says.
  bool is_sharded = false;
  /// Whether gradients are divided, too.
  bool divides_gradients = false;
};

/// Everything that is settled before the variables of a run are made.
struct RunSetup {
  std::unique_ptr<Strategy> strategy{};
  /// In the chief alone: the others get their values from it.
  std::optional<ResumePoint> from{};
  RunPlan plan{};
};

/// Finds the latest checkpoint and joins the cluster, whose chief decides. Throws what
/// RunMembership::join() does, and InvalidArgument or Unimplemented for options that do not go
/// together.
RunSetup set_up_run(const EstimatorOptions& options, const RunContext& context);

/// One line for the arithmetic that the bits of a run depend on, beside its options: with the kinds
/// of devices that compute, not which of a kind.
std::string arithmetic_of(const TowerOptions& options);

}  // namespace muster
