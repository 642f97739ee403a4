#include "muster/nn/kernels/cuda/platform_emulated.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <vector>

#include "muster/nn/kernels/cuda/residual_plan_internal.h"
#include "muster/nn/kernels/cuda/residual_reference_internal.h"

namespace muster::residual {
namespace {

constexpr int kClasses = 11;

/// Runs kernels on the CPU, block after block.
class EmulatedLauncher {
 public:
  explicit EmulatedLauncher(int multiprocessors) : multiprocessors_(multiprocessors) {}
  template <class Arguments>
  void launch(Stream, Begin, void (*kernel)(Arguments), int blocks, int rows, int threads,
              int shared_bytes, const Arguments& arguments) {
    for (int row = 0; row < rows; ++row) {
      for (int block = 0; block < blocks; ++block) {
        device::EmulatedBlock(block, row, blocks, threads, static_cast<std::size_t>(shared_bytes))
            .run([&] { kernel(arguments); });
      }
    }
  }
  void fork() {}
  void join() {}
  int multiprocessors() const { return multiprocessors_; }

 private:
  int multiprocessors_;
};

/// One training step of a network, by the kernels.
struct Trained {
  std::vector<ReferenceLayer> layers;
  std::vector<float> logits;
  std::vector<std::vector<float>> weight;
  std::vector<std::vector<float>> gamma;
  std::vector<std::vector<float>> beta;
  std::vector<float> kernel;
  std::vector<float> bias;
  std::vector<std::int64_t> batches;
  std::vector<uint4> memory;

  /// Gradients as they were when backward called back.
  struct Written {
    int first_layer = -1;
    std::vector<std::vector<float>> weight;
    std::vector<std::vector<float>> gamma;
    std::vector<std::vector<float>> beta;
    std::vector<float> kernel;
    std::vector<float> bias;
  };
  std::vector<Written> told;
};

std::vector<std::uint8_t> some_images(int batch) {
  ReferenceRandom random(9);
  std::vector<std::uint8_t> images(static_cast<std::size_t>(batch) * 32 * 32 * 3);
  for (auto& pixel : images) pixel = static_cast<std::uint8_t>((random.next() + 1) * 127);
  return images;
}
std::vector<float> some_gradient(int batch) {
  ReferenceRandom random(10);
  std::vector<float> gradient(static_cast<std::size_t>(batch) * kClasses);
  for (float& value : gradient) value = static_cast<float>(random.next() / batch);
  return gradient;
}

Parameters parameters_of(Trained& trained, const ReferenceNetwork& network) {
  Parameters parameters;
  for (std::size_t i = 0; i < trained.layers.size(); ++i) {
    auto& layer = trained.layers[i];
    parameters.layers.push_back({layer.weight.data(), layer.gamma.data(), layer.beta.data(),
                                 layer.moving_mean.data(), layer.moving_variance.data(),
                                 &trained.batches[i]});
  }
  parameters.kernel = network.kernel.data();
  parameters.bias = network.bias.data();
  return parameters;
}

ParameterGradients gradients_of(Trained& trained) {
  ParameterGradients gradients;
  for (std::size_t i = 0; i < trained.layers.size(); ++i) {
    gradients.layers.push_back(
        {trained.weight[i].data(), trained.gamma[i].data(), trained.beta[i].data()});
  }
  gradients.kernel = trained.kernel.data();
  gradients.bias = trained.bias.data();
  return gradients;
}

Trained train(const Shape& shape, const ReferenceNetwork& network, const void* images,
              int multiprocessors) {
  Trained trained;
  trained.layers = network.layers;
  trained.batches.assign(network.layers.size(), 41);
  trained.logits.resize(static_cast<std::size_t>(shape.batch * kClasses));
  for (const auto& layer : network.layers) {
    trained.weight.emplace_back(layer.weight.size());
    trained.gamma.emplace_back(layer.gamma.size());
    trained.beta.emplace_back(layer.beta.size());
  }
  trained.kernel.resize(network.kernel.size());
  // Gradients are added to what is there.
  trained.bias.assign(network.bias.size(), 0.5F);
  const Parameters parameters = parameters_of(trained, network);
  // Not a number wherever nothing was written.
  trained.memory.assign(Workspace(shape, nullptr).bytes() / sizeof(uint4),
                        make_uint4(~0U, ~0U, ~0U, ~0U));
  EmulatedLauncher launcher(multiprocessors);
  Step<EmulatedLauncher> step(shape, parameters, trained.memory.data(), launcher);
  step.forward(images, trained.logits.data());
  const auto gradient = some_gradient(shape.batch);
  step.backward(images, gradient.data(), gradients_of(trained), [&](int first_layer) {
    trained.told.push_back(
        {first_layer, trained.weight, trained.gamma, trained.beta, trained.kernel, trained.bias});
  });
  return trained;
}

template <typename T>
Numbers numbers(const std::vector<T>& values) {
  return Numbers(values.begin(), values.end());
}

void expect_like_reference(Trained& trained, const Shape& shape, ReferenceNetwork reference,
                           const Numbers& images) {
  const Workspace workspace(shape, reinterpret_cast<unsigned char*>(trained.memory.data()));
  const auto read = [](const std::uint16_t* from, std::size_t count) {
    Numbers read_numbers;
    for (std::size_t i = 0; i < count; ++i) read_numbers.push_back(from_bf16(from[i]));
    return read_numbers;
  };
  double farthest = 0;
  follow(reference, workspace, read, farthest);
  const Numbers logits = reference.forward(images);
  EXPECT_LT(distance(trained.logits.data(), logits), 1e-5);
  const auto gradients = reference.backward(numbers(some_gradient(shape.batch)));
  // A sum that is between two bf16 goes to the other one here and there.
  EXPECT_LT(farthest, 5e-4);
  for (std::size_t i = 0; i < trained.layers.size(); ++i) {
    EXPECT_LT(distance(trained.weight[i].data(), gradients.weight[i]), 5e-4) << "layer " << i;
    EXPECT_LT(distance(trained.gamma[i].data(), gradients.gamma[i]), 1e-4) << "layer " << i;
    EXPECT_LT(distance(trained.beta[i].data(), gradients.beta[i]), 1e-4) << "layer " << i;
    const auto& layer = reference.layers[i];
    EXPECT_LT(distance(trained.layers[i].moving_mean.data(), numbers(layer.moving_mean)), 1e-6);
    EXPECT_LT(distance(trained.layers[i].moving_variance.data(), numbers(layer.moving_variance)),
              1e-6);
    EXPECT_EQ(trained.batches[i], 42);
  }
  EXPECT_LT(distance(trained.kernel.data(), gradients.kernel), 1e-5);
  Numbers bias = gradients.bias;
  for (double& value : bias) value += 0.5;
  EXPECT_LT(distance(trained.bias.data(), bias), 1e-5);
}

TEST(ResidualKernels, TrainLikeTheReference) {
  // Three images for blocks that take one or two tiles each.
  const Shape shape{3, 1, kClasses, false};
  const ReferenceNetwork network(shape, 7);
  const auto images = some_images(shape.batch);
  Trained trained = train(shape, network, images.data(), 2);
  expect_like_reference(trained, shape, network, numbers(images));
}

TEST(ResidualKernels, TrainUnitsBehindOthersOnFloats) {
  // Two units a stage: shortcuts of both kinds are added where the next unit loads.
  const Shape shape{1, 2, kClasses, true};
  const ReferenceNetwork network(shape, 8);
  const auto bytes = some_images(shape.batch);
  const std::vector<float> images(bytes.begin(), bytes.end());
  Trained trained = train(shape, network, images.data(), 1);
  expect_like_reference(trained, shape, network, numbers(images));
}

TEST(ResidualKernels, TellWhichGradientsAreWritten) {
  const Shape shape{1, 2, kClasses, false};
  const ReferenceNetwork network(shape, 7);
  const auto images = some_images(shape.batch);
  const Trained trained = train(shape, network, images.data(), 2);
  ASSERT_EQ(trained.told.size(), 4U);
  const std::vector<int> firsts{9, 5, 1, 0};
  for (std::size_t i = 0; i < firsts.size(); ++i) {
    const Trained::Written& told = trained.told[i];
    EXPECT_EQ(told.first_layer, firsts[i]);
    // Kernels run at once here: what was there then was there at the end.
    for (auto layer = static_cast<std::size_t>(told.first_layer); layer < told.weight.size();
         ++layer) {
      EXPECT_EQ(told.weight[layer], trained.weight[layer]) << "layer " << layer;
      EXPECT_EQ(told.gamma[layer], trained.gamma[layer]) << "layer " << layer;
      EXPECT_EQ(told.beta[layer], trained.beta[layer]) << "layer " << layer;
    }
    EXPECT_EQ(told.kernel, trained.kernel);
    EXPECT_EQ(told.bias, trained.bias);
  }
}

TEST(ResidualKernels, SayWhenSumsAreNotFinite) {
  const Shape shape{1, 1, kClasses, true};
  const ReferenceNetwork network(shape, 7);
  auto bytes = some_images(shape.batch);
  std::vector<float> images(bytes.begin(), bytes.end());
  images[100] = std::numeric_limits<float>::infinity();
  const Trained trained = train(shape, network, images.data(), 1);
  for (const float logit : trained.logits) EXPECT_NE(logit, logit);
  EXPECT_NE(trained.gamma[0][0], trained.gamma[0][0]);
}

}  // namespace
}  // namespace muster::residual
