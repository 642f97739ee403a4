#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAGuard.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/function.h>
#include <torch/cuda.h>
#include <torch/types.h>

#include <memory>
#include <vector>

#include "muster/base/error.h"
#include "muster/nn/kernels/torch_compat.h"
#include "muster/nn/model/module_variables.h"
#include "muster/nn/model/resnet.h"

namespace muster {
namespace {

std::shared_ptr<ResNet> on_gpu(ResNetOptions options) {
  auto model = std::make_shared<ResNet>(std::move(options));
  model->to(torch::kCUDA);
  return model;
}

at::Tensor some_images(std::int64_t batch) {
  torch::manual_seed(5);
  return torch::randint(0, 256, {batch, 32, 32, 3}, torch::kByte).to(torch::kCUDA);
}

at::Tensor logits_of(ResNet& model, const at::Tensor& images) {
  const compat::AutocastScope autocast(true, at::kCUDA, at::kBFloat16);
  return model.forward({{"image", images}});
}

// Any loss whose gradient is another number for every logit.
at::Tensor loss_of(const at::Tensor& logits) {
  return (logits.to(at::kFloat).softmax(1) *
          torch::arange(logits.numel(), logits.options().dtype(at::kFloat)).view_as(logits).cos())
             .sum() /
         static_cast<double>(logits.size(0));
}

std::vector<at::Tensor> gradients_of(const ResNet& model) {
  std::vector<at::Tensor> gradients;
  for (const auto& parameter : model.parameters()) gradients.push_back(parameter.grad().clone());
  return gradients;
}

double distance(const at::Tensor& a, const at::Tensor& b) {
  return ((a - b).norm() / b.norm()).item<double>();
}

bool is_fused(const at::Tensor& logits) {
  return logits.grad_fn() != nullptr && logits.grad_fn()->name() == "MusterResidualNetworkBackward";
}

// bf16 decides for some values near 0 whether a ReLU lets a gradient through, so two ways to
// compute differ by more than rounding. Neither may be farther from float32 than the other.
TEST(ResNetOnGpu, FusedIsAsNearToFloatAsLayerByLayer) {
  const auto fused = on_gpu({.num_layers = 14, .num_classes = 11});
  const auto plain =
      on_gpu({.num_layers = 14, .num_classes = 11, .channels_last = true, .fused = false});
  const auto exact = on_gpu({.num_layers = 14, .num_classes = 11, .fused = false});
  const auto images = some_images(200);
  const auto logits = logits_of(*fused, images);
  const auto plain_logits = logits_of(*plain, images);
  const auto wanted = exact->forward({{"image", images}});
  ASSERT_TRUE(is_fused(logits));
  ASSERT_FALSE(is_fused(plain_logits));
  EXPECT_EQ(logits.scalar_type(), at::kFloat);
  EXPECT_LT(distance(logits, wanted), 0.02);
  for (const auto& some : {logits, plain_logits, wanted}) loss_of(some).backward();
  const auto fused_parameters = fused->named_parameters();
  const auto plain_parameters = plain->named_parameters();
  for (const auto& parameter : exact->named_parameters()) {
    const auto& gradient = parameter.value().grad();
    const double near = distance(plain_parameters[parameter.key()].grad(), gradient);
    EXPECT_LT(distance(fused_parameters[parameter.key()].grad(), gradient), 1.3 * near + 0.02)
        << parameter.key();
  }
  const auto buffers = fused->named_buffers();
  for (const auto& buffer : exact->named_buffers()) {
    EXPECT_TRUE(at::allclose(buffers[buffer.key()], buffer.value(), 0.01, 1e-4)) << buffer.key();
  }
}

TEST(ResNetOnGpu, AddsToGradientsThatAreThere) {
  const auto model = on_gpu({.num_layers = 8, .num_classes = 11});
  const auto images = some_images(30);
  loss_of(logits_of(*model, images)).backward();
  const auto once = gradients_of(*model);
  const void* before = model->parameters()[0].grad().data_ptr();
  loss_of(logits_of(*model, images)).backward();
  EXPECT_EQ(model->parameters()[0].grad().data_ptr(), before);
  for (std::size_t i = 0; i < once.size(); ++i) {
    EXPECT_TRUE(at::equal(model->parameters()[i].grad(), once[i] * 2)) << i;
  }
}

TEST(ResNetOnGpu, GivesTheSameBitsFromAGraph) {
  const auto model = on_gpu({.num_layers = 20, .num_classes = 11});
  const auto images = some_images(128);
  const auto step = [&] {
    const auto logits = logits_of(*model, images);
    loss_of(logits).backward();
    return logits;
  };
  const auto zero = [&] {
    const torch::NoGradGuard no_grad;
    for (const auto& parameter : model->parameters()) parameter.mutable_grad().zero_();
  };
  step();
  zero();
  const auto eager_logits = step().detach().clone();
  const auto eager = gradients_of(*model);
  zero();
  torch::cuda::synchronize();
  at::cuda::CUDAGraph graph;
  at::Tensor logits;
  {
    const c10::cuda::CUDAStreamGuard side(c10::cuda::getStreamFromPool());
    step();
    torch::cuda::synchronize();
    zero();
    graph.capture_begin();
    logits = step().detach();
    graph.capture_end();
  }
  for (int i = 0; i < 2; ++i) {
    zero();
    graph.replay();
    EXPECT_TRUE(at::equal(logits, eager_logits));
    const auto replayed = gradients_of(*model);
    for (std::size_t j = 0; j < eager.size(); ++j) EXPECT_TRUE(at::equal(replayed[j], eager[j]));
  }
}

TEST(ResNetOnGpu, GoesBackOnce) {
  const auto model = on_gpu({.num_layers = 8, .num_classes = 11});
  const auto loss = loss_of(logits_of(*model, some_images(2)));
  loss.backward({}, /*retain_graph=*/true);
  EXPECT_THROW(loss.backward(), FailedPrecondition);
}

TEST(ResNetOnGpu, LeavesOtherImagesToLibtorch) {
  const auto model = on_gpu({.num_layers = 8, .num_classes = 11});
  const auto images = some_images(4);
  EXPECT_FALSE(is_fused(logits_of(*model, images.slice(1, 0, 24).contiguous())));
  EXPECT_FALSE(is_fused(model->forward({{"image", images}})));
  EXPECT_TRUE(is_fused(logits_of(*model, images.to(at::kFloat))));
  model->eval();
  EXPECT_FALSE(is_fused(logits_of(*model, images)));
}

}  // namespace
}  // namespace muster
