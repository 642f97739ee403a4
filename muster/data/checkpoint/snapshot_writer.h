#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "muster/data/checkpoint/tensor.h"

namespace muster {

/// Copies tensors into memory of its own, and has the copy written in the background, while their
/// owner continues. One copy is under way at a time: the next waits until it has been written.
/// Calls come from one thread.
class SnapshotWriter {
 public:
  /// Gets the copies, in the background. It must not throw.
  using Write = std::function<void(std::span<const TensorView> copies)>;

  SnapshotWriter();
  /// Waits for what is under way.
  ~SnapshotWriter();
  SnapshotWriter(const SnapshotWriter&) = delete;
  SnapshotWriter& operator=(const SnapshotWriter&) = delete;

  /// Takes the memory for copies of this many bytes of values now. Throws ResourceExhausted.
  void reserve(std::size_t bytes);
  /// Begins to copy. The tensors' values must stay as they are until wait_until_copied() returns.
  /// `what` stands for it in reports of waits: "checkpoint step=7". Throws ResourceExhausted.
  void begin(std::string what, std::span<const TensorView> tensors, Write write);
  /// Returns when the tensors of the last begin() may change. Helps with the copying meanwhile.
  void wait_until_copied();
  /// Returns when what was begun last has been written.
  void flush();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster
