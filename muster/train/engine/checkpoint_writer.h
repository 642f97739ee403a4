#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/data/checkpoint/async_checkpointer.h"
#include "muster/data/checkpoint/tensor.h"

namespace muster {

/// The content of a checkpoint that is to be written.
struct CheckpointContent {
  std::vector<TensorView> tensors{};
  std::string state_json{};
  /// Keeps what the views see.
  std::shared_ptr<const void> owner{};
  /// The part that others write; null where all of it is here.
  std::shared_ptr<CheckpointParts> parts{};
};

/// Writes the checkpoints of a run in the background. There is nothing to wait for before open(),
/// which the chief alone calls. Belongs to the loop's thread.
class CheckpointWriter {
 public:
  void open(CheckpointStore store);
  bool is_open() const { return checkpointer_ != nullptr; }
  /// Begins to save. The content's values stay as they are until wait_until_copied().
  /// `before_writing` is as AsyncCheckpointer::save() has it.
  void begin(std::int64_t step, CheckpointContent content, std::function<void()> before_writing);
  /// Returns when the values of the last save may change.
  void wait_until_copied();
  /// Returns when the last save is written or has failed.
  void flush();
  /// Why the last save failed, if it did. Waits until it is written.
  std::optional<Description> failure();

 private:
  /// Content that is still copied while the next forward runs; the update waits for it.
  std::optional<CheckpointContent> being_copied_;
  // After what it may still be copying from, so that it is destroyed first.
  std::unique_ptr<AsyncCheckpointer> checkpointer_;
};

}  // namespace muster
