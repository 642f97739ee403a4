#pragma once

#include <ATen/core/Tensor.h>

namespace muster {

/// Hears of gradients while a backward continues, from nodes that add several parameters' where
/// they belong: libtorch hears of them when the node is through, which for a whole network is late.
class GradientListener {
 public:
  virtual ~GradientListener() = default;

  /// The calling thread's stream has what adds the node's part to parameter.grad().
  virtual void added_gradient(const at::Tensor& parameter) = 0;
};

/// Who hears of the gradients of what this thread calls. It outlives the backward.
class GradientScope {
 public:
  explicit GradientScope(GradientListener* listener);
  ~GradientScope();
  GradientScope(const GradientScope&) = delete;
  GradientScope& operator=(const GradientScope&) = delete;

  /// That of the innermost scope of this thread, or null.
  static GradientListener* current();

 private:
  GradientListener* outer_;
};

}  // namespace muster
