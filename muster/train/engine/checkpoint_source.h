#pragma once

#include <cstdint>
#include <memory>

#include "muster/train/engine/local_run.h"

namespace muster {

/// Brings together what a checkpoint of a run is written from: values of this process, and those of
/// other processes, which send them or write them themselves. Belongs to the loop's thread.
class CheckpointSource {
 public:
  /// Both outlive it.
  CheckpointSource(LocalRun& run, GradientReduction& reduction)
      : run_(run), reduction_(reduction) {}

  /// Brings here what is elsewhere, of the step that this process is at, or has it written there.
  /// Throws PeersChanged.
  void fetch();
  /// The same for the last checkpoint: afterwards the chief needs nothing of others to save it.
  void fetch_last();
  /// Other processes take part from here on: they write nothing yet.
  void forget_parts() { parts_.reset(); }
  CheckpointContent content() const;

 private:
  bool may_have_parts();
  [[noreturn]] void try_last_again(const Unavailable& error);

  LocalRun& run_;
  GradientReduction& reduction_;
  /// The part of the last checkpoint that was begun which others write, and the step of it.
  std::shared_ptr<CheckpointParts> parts_;
  std::int64_t parts_step_ = -1;
  /// Whether there is a checkpoint to go back to.
  bool has_checkpoint_ = false;
  /// How often the last checkpoint of a sharded run was not written.
  int last_tries_ = 0;
};

}  // namespace muster
