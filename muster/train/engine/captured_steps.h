#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "muster/train/engine/partial_sums.h"
#include "muster/train/engine/towers.h"
#include "muster/train/engine/train_options.h"

namespace muster {

class Head;

/// Gives the GPUs of a process the steps of a run: batches, values that change from step to step,
/// and work. The work is captured after a few steps, where the step allows it, and from then on
/// given to the device as one piece, also where it is for several. Belongs to the loop's thread, in
/// a StreamScope.
class CapturedSteps {
 public:
  struct Options {
    /// That of the loop's stream.
    c10::Device device;
    /// Looks at labels before they are out of reach; may be null.
    const Head* head = nullptr;
    bool may_capture = true;
    /// Why steps are not captured all the same, for the log.
    std::string obstacle{};
    /// Words that the device has for each step beside its number and keys.
    std::size_t constants = 0;
  };
  /// All of a step: gives it to this thread's stream.
  using Work =
      std::function<PartialSums(std::span<std::optional<Batch>> batches, const CapturedInput&)>;
  using WriteConstants = std::function<void(std::span<std::int64_t> words)>;

  /// Why the steps of such a run cannot be given to a device as a whole; empty where they can.
  static std::string obstacle(const EstimatorOptions& options, const RunConfig& config,
                              const TowerOptions& towers, const Model& model);

  /// The towers outlive it.
  CapturedSteps(Towers& towers, Options options);
  ~CapturedSteps();

  /// The replicas of this process from here on, all of the run's at first. What was captured is
  /// forgotten.
  void begin(ReplicaRange mine);
  /// One step. There is an element for each replica of the run in `batches`; `has_all` says whether
  /// all of others have theirs. The result is written again by the next step.
  PartialSums make(std::span<std::optional<Batch>> batches, std::int64_t step, bool has_all,
                   const Work& work, const WriteConstants& write_constants = {});

  /// On the device, the same memory in every step: its number, and Options::constants.
  at::Tensor number() const;
  at::Tensor constants() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster
