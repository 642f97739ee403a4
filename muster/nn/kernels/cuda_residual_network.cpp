#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

#include "muster/nn/kernels/cuda/residual_step.h"
#include "muster/nn/kernels/residual_network.h"

namespace muster::kernels {
namespace {

constexpr std::int64_t kImageWidth = 32;
constexpr std::int64_t kColours = 3;
constexpr std::int64_t kLastChannels = 64;
// Pixels of the largest tensors are counted in 32 bits.
constexpr std::int64_t kMostImages = 1 << 20;

bool is_plain(const at::Tensor& tensor, at::IntArrayRef sizes, c10::Device device) {
  return tensor.defined() && tensor.device() == device && tensor.scalar_type() == at::kFloat &&
         tensor.is_contiguous() && tensor.sizes() == sizes;
}

bool takes_layer(const NormalisedConvolution& layer, std::int64_t in, std::int64_t out,
                 c10::Device device) {
  return is_plain(layer.weight, {out, in, 3, 3}, device) && is_plain(layer.gamma, {out}, device) &&
         is_plain(layer.beta, {out}, device) && is_plain(layer.running_mean, {out}, device) &&
         is_plain(layer.running_variance, {out}, device);
}

bool takes_layers(const ResidualNetwork& network, c10::Device device) {
  const auto count = static_cast<std::int64_t>(network.layers.size());
  if (count < 7 || (count - 1) % 6 != 0) return false;
  const std::int64_t of_stage = (count - 1) / residual::kStages;
  std::int64_t in = kColours;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t out = std::int64_t{16} << (i == 0 ? 0 : (i - 1) / of_stage);
    if (!takes_layer(network.layers[static_cast<std::size_t>(i)], in, out, device)) return false;
    in = out;
  }
  return true;
}

bool takes_counters(const ResidualNetwork& network, c10::Device device) {
  return network.batches.empty() ||
         (network.batches.size() == network.layers.size() &&
          std::all_of(network.batches.begin(), network.batches.end(), [&](const at::Tensor& t) {
            return t.defined() && t.device() == device && t.scalar_type() == at::kLong &&
                   t.numel() == 1;
          }));
}

residual::Shape shape_of(const at::Tensor& images, const ResidualNetwork& network) {
  return {.batch = static_cast<int>(images.size(0)),
          .units_of_stage = static_cast<int>((network.layers.size() - 1) / (2 * residual::kStages)),
          .classes = static_cast<int>(network.bias.size(0)),
          .float_images = images.scalar_type() == at::kFloat};
}

residual::Parameters parameters_of(const ResidualNetwork& network) {
  residual::Parameters parameters;
  for (std::size_t i = 0; i < network.layers.size(); ++i) {
    const auto& layer = network.layers[i];
    parameters.layers.push_back({.weight = layer.weight.data_ptr<float>(),
                                 .gamma = layer.gamma.data_ptr<float>(),
                                 .beta = layer.beta.data_ptr<float>(),
                                 .moving_mean = layer.running_mean.data_ptr<float>(),
                                 .moving_variance = layer.running_variance.data_ptr<float>(),
                                 .batches = network.batches.empty()
                                                ? nullptr
                                                : network.batches[i].data_ptr<std::int64_t>()});
  }
  parameters.kernel = network.kernel.data_ptr<float>();
  parameters.bias = network.bias.data_ptr<float>();
  parameters.epsilon = static_cast<float>(network.layers[0].epsilon);
  parameters.share_of_new = static_cast<float>(network.layers[0].momentum);
  return parameters;
}

/// A side stream and events for every stream that a network was trained on, kept for the life of
/// the process: a graph that was captured may outlast the network. Streams of libtorch's pool could
/// meet another tower's.
/// Allows what the mode of a capture that is under way may forbid.
class RelaxedCapture {
 public:
  RelaxedCapture() { C10_CUDA_CHECK(cudaThreadExchangeStreamCaptureMode(&mode_)); }
  ~RelaxedCapture() { static_cast<void>(cudaThreadExchangeStreamCaptureMode(&mode_)); }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

residual::Streams make_streams(cudaStream_t main) {
  const RelaxedCapture relaxed;
  cudaStream_t side = nullptr;
  cudaEvent_t forked = nullptr;
  cudaEvent_t joined = nullptr;
  C10_CUDA_CHECK(cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking));
  C10_CUDA_CHECK(cudaEventCreateWithFlags(&forked, cudaEventDisableTiming));
  C10_CUDA_CHECK(cudaEventCreateWithFlags(&joined, cudaEventDisableTiming));
  return {.main = main, .side = side, .forked = forked, .joined = joined};
}

residual::Streams streams_on(c10::Device device) {
  static std::mutex mutex;
  static std::map<std::pair<c10::DeviceIndex, cudaStream_t>, residual::Streams> streams;
  const cudaStream_t main = c10::cuda::getCurrentCUDAStream(device.index()).stream();
  const std::lock_guard lock(mutex);
  const std::pair key(device.index(), main);
  // Only when they are made: one that CUDA refused is asked for again.
  if (!streams.contains(key)) streams.emplace(key, make_streams(main));
  return streams.at(key);
}

}  // namespace

bool residual_network_takes(const at::Tensor& images, const ResidualNetwork& network) {
  if (!images.is_cuda() || images.dim() != 4 || images.size(0) < 1 ||
      images.size(0) > kMostImages || images.size(1) != kImageWidth ||
      images.size(2) != kImageWidth || images.size(3) != kColours || !images.is_contiguous() ||
      (images.scalar_type() != at::kByte && images.scalar_type() != at::kFloat)) {
    return false;
  }
  const c10::Device device = images.device();
  if (!network.bias.defined() || network.bias.dim() != 1) return false;
  const std::int64_t classes = network.bias.size(0);
  if (classes > residual::kMostClasses || !is_plain(network.bias, {classes}, device) ||
      !is_plain(network.kernel, {kLastChannels, classes}, device) ||
      !takes_layers(network, device) || !takes_counters(network, device)) {
    return false;
  }
  const c10::cuda::CUDAGuard on(device);
  return residual::runs_here();
}

ResidualNetworkForward residual_network(const at::Tensor& images, const ResidualNetwork& network) {
  const c10::cuda::CUDAGuard on(images.device());
  const residual::Shape shape = shape_of(images, network);
  ResidualNetworkForward forward;
  forward.logits = at::empty({shape.batch, shape.classes}, network.bias.options());
  forward.workspace = at::empty({static_cast<std::int64_t>(residual::workspace_bytes(shape))},
                                network.bias.options().dtype(at::kByte));
  residual::start_forward(shape, parameters_of(network), images.data_ptr(),
                          forward.workspace.data_ptr(), forward.logits.data_ptr<float>(),
                          streams_on(images.device()));
  return forward;
}

void add_residual_network_gradients(const at::Tensor& logits_gradient, const at::Tensor& images,
                                    const ResidualNetworkForward& forward,
                                    const ResidualNetwork& network,
                                    const ResidualNetworkGradients& to,
                                    const std::function<void(std::size_t first_layer)>& written) {
  const c10::cuda::CUDAGuard on(images.device());
  const residual::Streams streams = streams_on(images.device());
  const auto tell = [&](int first_layer) {
    if (!written) return;
    const c10::cuda::CUDAStreamGuard side(c10::cuda::getStreamFromExternal(
        static_cast<cudaStream_t>(streams.side), images.device().index()));
    written(static_cast<std::size_t>(first_layer));
  };
  residual::ParameterGradients gradients;
  for (const auto& layer : to.layers) {
    gradients.layers.push_back({.weight = layer.weight.data_ptr<float>(),
                                .gamma = layer.gamma.data_ptr<float>(),
                                .beta = layer.beta.data_ptr<float>()});
  }
  gradients.kernel = to.kernel.data_ptr<float>();
  gradients.bias = to.bias.data_ptr<float>();
  residual::start_backward(shape_of(images, network), parameters_of(network), images.data_ptr(),
                           forward.workspace.data_ptr(), logits_gradient.data_ptr<float>(),
                           gradients, streams, tell);
}

}  // namespace muster::kernels
