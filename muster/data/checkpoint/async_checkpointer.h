#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "muster/base/error.h"
#include "muster/data/checkpoint/checkpoint_store.h"
#include "muster/data/checkpoint/tensor.h"

namespace muster {

/// How the background saves have gone so far.
struct AsyncCheckpointStatus {
  std::int64_t saved = 0;
  std::int64_t failed = 0;
  std::optional<Path> last_saved{};
  /// Why the newest save failed; nothing once a later one has worked.
  std::optional<Description> last_failure{};
};

/// Saves checkpoints while training continues. A save copies the tensors into memory of its own and
/// writes that copy to the disk in the background:
///
///   checkpointer.save(step, variables, state);    // begins to copy
///   ... forward and backward, which only read the variables ...
///   checkpointer.wait_until_copied();             // before the update changes them
///
/// One save is under way at a time: the next one waits until it has been written, so every save
/// that is asked for is made. A save that fails is logged as an error and counted; the older
/// checkpoints are still there. It holds as much memory again as the tensors take. Calls come from
/// one thread, except for status().
class AsyncCheckpointer {
 public:
  explicit AsyncCheckpointer(CheckpointStore store);
  /// Waits for the save under way.
  ~AsyncCheckpointer();
  AsyncCheckpointer(const AsyncCheckpointer&) = delete;
  AsyncCheckpointer& operator=(const AsyncCheckpointer&) = delete;

  /// Takes the memory for copies of this many bytes of values now, so that the first save does not
  /// have to. Throws ResourceExhausted.
  void reserve(std::size_t bytes);

  /// Begins a save. The tensors' values must stay as they are until wait_until_copied() returns.
  /// Throws ResourceExhausted when there is no memory for the copy. `before_writing` is called in
  /// the background when the copy is made, for what must be on the disk before the checkpoint is;
  /// what it throws is a failure of the save. `parts` is what others write of it.
  void save(std::int64_t step, std::span<const TensorView> tensors, std::string state_json = {},
            std::function<void()> before_writing = {},
            std::shared_ptr<CheckpointParts> parts = nullptr);

  /// Returns when the tensors of the last save() may change. Helps with the copying meanwhile.
  void wait_until_copied();

  /// Returns when the last save() has been written or has failed.
  void flush();

  AsyncCheckpointStatus status() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster
