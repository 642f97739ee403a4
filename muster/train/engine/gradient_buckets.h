#pragma once

#include <torch/csrc/autograd/function.h>

#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "muster/nn/device/gpu.h"
#include "muster/nn/model/gradient_listener.h"
#include "muster/nn/optim/updater.h"
#include "muster/nn/optim/variables.h"

namespace muster {

/// Elements of the smallest piece: two megabytes. Less is sent sooner, but each piece is waited
/// for.
inline constexpr std::int64_t kLeastGradientPiece = 1 << 19;

/// The pieces of the flat gradients that processes sum one after the other while the backward goes
/// on, in the order in which it comes by them: from the end, each of whole variables and of at
/// least kLeastGradientPiece and an eighth of all, except for the last. The same in every process
/// of a run.
std::vector<FlatRange> gradient_buckets(const Variables& variables);

/// Marks, for one module on a GPU, where in the device's work each piece of its gradients is whole.
///
///   pieces.begin();
///   loss = forward();  // In a GradientScope of `pieces`.
///   loss.backward();
///   pieces.end(attached.collect());
class GradientBuckets final : public GradientListener {
 public:
  /// The module outlives it.
  GradientBuckets(const Variables& variables, AttachedModule& module, c10::Device device);
  ~GradientBuckets() override;

  /// Before the forward, on the stream that it is given to.
  void begin();
  void added_gradient(const at::Tensor& parameter) override;
  /// After the backward. A piece that has not come by then is whole here, and so are all where
  /// gradients were moved to where they belong (`were_moved`).
  void end(bool were_moved);

  /// How many are whole so far.
  std::size_t whole() const;
  /// By piece, of the last backward.
  const std::vector<DeviceMark>& marks() const { return marks_; }

 private:
  class Hook;
  struct Piece {
    std::int64_t parameters = 0;
    std::int64_t written = 0;
  };
  struct Parameter {
    std::size_t piece = 0;
    bool is_written = false;
  };
  struct Hooked {
    std::shared_ptr<torch::autograd::Node> node;
    std::uintptr_t hook = 0;
  };

  void drop_hooks();

  AttachedModule& module_;
  std::vector<DeviceMark> marks_;
  std::vector<Piece> pieces_;
  std::unordered_map<const c10::TensorImpl*, Parameter> parameters_;
  std::vector<Hooked> hooks_;
};

}  // namespace muster
