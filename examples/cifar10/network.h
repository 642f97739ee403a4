#pragma once

#include <string>
#include <vector>

#include "examples/cifar10/flags.h"
#include "muster/muster.h"
#include "muster/nn/api.h"

namespace cifar10 {

struct NetworkOptions {
  /// One class more than CIFAR-10 has, as cifar10_estimator has it: labels may begin with 1.
  muster::ResNetOptions resnet{.num_classes = 11};
  /// Crop of images that come whole: at a random place if the input gives one, else in the middle.
  muster::CropOptions crop{};
  /// Brings each image to mean 0 and variance 1 instead of x / 128 - 1.
  bool whitening = false;
};

/// The residual network with what belongs before and after it: crops, whitening,
/// cifar10_estimator's names for predictions (`classes`, `probabilities`), and the input as a
/// summary.
class Network : public muster::ResNet {
 public:
  explicit Network(NetworkOptions options);

  torch::Tensor forward(const muster::Features& features) override;
  muster::EstimatorSpec call(const muster::Batch& batch, muster::Mode mode,
                             const muster::Head* head) override;

 private:
  /// The batch as the residual network takes it.
  at::Tensor prepared(const muster::Features& features) const;

  NetworkOptions network_options_;
};

/// The lines that cifar10_estimator logs for a tower, such as
/// "image after unit resnet/tower_0/stage/residual_v1/: (?, 16, 32, 32)".
std::vector<std::string> shape_lines(const NetworkOptions& options, int tower);
/// "658651 trainable scalars in 131 variables, 3168 moving statistics in 86".
std::string size_line(const NetworkOptions& options);

}  // namespace cifar10
