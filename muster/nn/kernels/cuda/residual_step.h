#pragma once

/// Arguments of the fused kernels of a residual network. Plain memory: no libtorch, no CUDA types.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace muster::residual {

constexpr int kStages = 3;

/// A batch of images of 32 x 32 for a network of a stem, three stages of units, and a dense layer.
struct Shape {
  int batch = 0;
  int units_of_stage = 0;
  int classes = 0;
  /// Pixels are float32, else bytes.
  bool float_images = false;

  int units() const { return kStages * units_of_stage; }
  /// Convolutions, and as many batch norms: the stem, then two a unit.
  int layers() const { return 1 + 2 * units(); }
};

/// One convolution and its batch norm; all float32 in the device's memory, dense.
struct Layer {
  const float* weight = nullptr;  // [out, in, 3, 3]
  const float* gamma = nullptr;
  const float* beta = nullptr;
  float* moving_mean = nullptr;
  float* moving_variance = nullptr;
  /// Counts the batches that the averages have seen; may be null.
  std::int64_t* batches = nullptr;
};
struct LayerGradient {
  float* weight = nullptr;
  float* gamma = nullptr;
  float* beta = nullptr;
};

struct Parameters {
  std::vector<Layer> layers{};
  const float* kernel = nullptr;  // [64, classes]
  const float* bias = nullptr;
  float epsilon = 1e-5F;
  /// The share of a batch in the moving averages.
  float share_of_new = 0.003F;
};

/// Where gradients are added to.
struct ParameterGradients {
  std::vector<LayerGradient> layers{};
  float* kernel = nullptr;
  float* bias = nullptr;
};

/// The most classes that the head's gradient takes.
constexpr int kMostClasses = 256;

/// Streams and events of CUDA. What nothing waits for until the end goes to the side stream.
struct Streams {
  void* main = nullptr;
  void* side = nullptr;
  void* forked = nullptr;
  void* joined = nullptr;
};

/// Whether the kernels were made for the current device.
bool runs_here();

/// Bytes of the workspace, which begins at a multiple of 256.
std::size_t workspace_bytes(const Shape& shape);

/// Starts a training step's forward: logits [batch, classes], and what backward needs in the
/// workspace. Moves the averages. Throws std::runtime_error where CUDA refuses.
void start_forward(const Shape& shape, const Parameters& parameters, const void* images,
                   void* workspace, float* logits, const Streams& streams);
/// Starts its backward, once for a forward. `written` is told when the side stream has what makes
/// the gradients of all layers from one on and of the dense layer: stage by stage, 0 at last.
void start_backward(const Shape& shape, const Parameters& parameters, const void* images,
                    void* workspace, const float* logits_gradient,
                    const ParameterGradients& gradients, const Streams& streams,
                    const std::function<void(int first_layer)>& written);

}  // namespace muster::residual
