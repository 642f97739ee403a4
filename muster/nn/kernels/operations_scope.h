#pragma once

namespace muster::kernels {

/// While one lives, what this thread computes of a model is operations of libtorch alone, so that a
/// recording of them is the whole step (train/compiler/recorder.h): layers, losses and copies that
/// have kernels of their own take libtorch's. Scopes nest.
class OperationsScope {
 public:
  OperationsScope();
  ~OperationsScope();
  OperationsScope(const OperationsScope&) = delete;
  OperationsScope& operator=(const OperationsScope&) = delete;
};

/// Whether this thread is in one.
bool wants_operations();

}  // namespace muster::kernels
