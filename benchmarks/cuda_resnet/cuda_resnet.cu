/// The training step of a residual network on muster's own kernels, without libtorch: holds it to a
/// reference on the CPU, runs it twice for the same bits, and times it as a CUDA graph.
///
///   nvcc -O3 -std=c++17 -gencode arch=compute_90,code=sm_90 -I.
///   benchmarks/cuda_resnet/cuda_resnet.cu -o cuda_resnet
///   ./cuda_resnet            checks and times
///   ./cuda_resnet kernels    the time of each kernel, too
///   ./cuda_resnet checks     small checks alone, for compute-sanitizer

#include "muster/nn/kernels/cuda/platform_cuda.cuh"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "muster/nn/kernels/cuda/cuda_launcher_internal.cuh"
#include "muster/nn/kernels/cuda/residual_reference_internal.h"

namespace {

using namespace muster::residual;

constexpr int kClasses = 11;

template <typename T>
T* to_device(const std::vector<T>& values) {
  T* memory = nullptr;
  check_cuda(cudaMalloc(&memory, values.size() * sizeof(T)), "allocate");
  check_cuda(cudaMemcpy(memory, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice),
             "copy");
  return memory;
}
template <typename T>
std::vector<T> to_host(const T* memory, std::size_t count) {
  std::vector<T> values(count);
  check_cuda(cudaMemcpy(values.data(), memory, count * sizeof(T), cudaMemcpyDeviceToHost), "copy");
  return values;
}

/// Times every launch alone, many times in a row.
class ProfilingLauncher {
 public:
  explicit ProfilingLauncher(CudaLauncher& launcher, cudaStream_t stream)
      : launcher_(launcher), stream_(stream) {
    cudaEventCreate(&begin_);
    cudaEventCreate(&end_);
  }
  template <class Arguments>
  void launch(Stream, Begin, void (*kernel)(Arguments), int blocks, int rows, int threads,
              int shared, const Arguments& arguments) {
    constexpr int kTimes = 20;
    launcher_.launch(Stream::kMain, Begin::kAfter, kernel, blocks, rows, threads, shared,
                     arguments);
    cudaEventRecord(begin_, stream_);
    for (int i = 0; i < kTimes; ++i) {
      launcher_.launch(Stream::kMain, Begin::kAfter, kernel, blocks, rows, threads, shared,
                       arguments);
    }
    cudaEventRecord(end_, stream_);
    check_cuda(cudaEventSynchronize(end_), "time a kernel");
    float milliseconds = 0;
    cudaEventElapsedTime(&milliseconds, begin_, end_);
    const char* name = "?";
    cudaFuncGetName(&name, reinterpret_cast<const void*>(kernel));
    auto& entry = times_[name];
    entry.first += 1;
    entry.second += milliseconds * 1000 / kTimes;
  }
  void fork() {}
  void join() {}
  int multiprocessors() const { return launcher_.multiprocessors(); }
  void print() const {
    double total = 0;
    for (const auto& [name, entry] : times_) total += entry.second;
    for (const auto& [name, entry] : times_) {
      std::printf("%8.2f us x %2d = %8.1f us  %s\n", entry.second / entry.first, entry.first,
                  entry.second, name.c_str());
    }
    std::printf("sum %.1f us\n", total);
  }

 private:
  CudaLauncher& launcher_;
  cudaStream_t stream_;
  cudaEvent_t begin_;
  cudaEvent_t end_;
  std::map<std::string, std::pair<int, double>> times_;
};

/// A network with all its memory on the device.
class Training {
 public:
  Training(const Shape& shape, std::uint64_t seed) : shape_(shape), network(shape, seed) {
    check_cuda(cudaStreamCreate(&main_), "create a stream");
    check_cuda(cudaStreamCreate(&side_), "create a stream");
    cudaEventCreateWithFlags(&forked_, cudaEventDisableTiming);
    cudaEventCreateWithFlags(&joined_, cudaEventDisableTiming);
    for (const auto& layer : network.layers) {
      parameters_.layers.push_back({to_device(layer.weight), to_device(layer.gamma),
                                    to_device(layer.beta), to_device(layer.moving_mean),
                                    to_device(layer.moving_variance)});
      const std::vector<float> weight(layer.weight.size());
      const std::vector<float> channel(layer.gamma.size());
      gradients_.layers.push_back({to_device(weight), to_device(channel), to_device(channel)});
    }
    parameters_.kernel = to_device(network.kernel);
    parameters_.bias = to_device(network.bias);
    gradients_.kernel = to_device(std::vector<float>(network.kernel.size()));
    gradients_.bias = to_device(std::vector<float>(network.bias.size()));
    const std::size_t bytes = Workspace(shape, nullptr).bytes();
    check_cuda(cudaMalloc(&workspace_, bytes), "allocate the workspace");
    check_cuda(cudaMemset(workspace_, 0xff, bytes), "fill the workspace");
    check_cuda(cudaMalloc(&logits_, sizeof(float) * shape.batch * kClasses), "allocate");
    ReferenceRandom random(seed + 1);
    for (int i = 0; i < shape.batch * 3072; ++i)
      images.push_back(static_cast<std::uint8_t>((random.next() + 1) * 127));
    for (int i = 0; i < shape.batch * kClasses; ++i) {
      logits_gradient.push_back(static_cast<float>(random.next() / shape.batch));
    }
    device_images_ = to_device(images);
    device_logits_gradient_ = to_device(logits_gradient);
  }

  void clear_gradients() {
    for (std::size_t i = 0; i < network.layers.size(); ++i) {
      const auto& layer = network.layers[i];
      cudaMemset(gradients_.layers[i].weight, 0, layer.weight.size() * 4);
      cudaMemset(gradients_.layers[i].gamma, 0, layer.gamma.size() * 4);
      cudaMemset(gradients_.layers[i].beta, 0, layer.beta.size() * 4);
    }
    cudaMemset(gradients_.kernel, 0, network.kernel.size() * 4);
    cudaMemset(gradients_.bias, 0, network.bias.size() * 4);
  }

  template <class Launcher>
  void step(Launcher& launcher, bool forward, bool backward) {
    Step<Launcher> step(shape_, parameters_, workspace_, launcher);
    if (forward) step.forward(device_images_, logits_);
    if (backward) step.backward(device_images_, device_logits_gradient_, gradients_, [](int) {});
  }
  void run() {
    CudaLauncher launcher(main_, side_, forked_, joined_);
    step(launcher, true, true);
    check_cuda(cudaDeviceSynchronize(), "run a step");
  }
  /// Microseconds of one replay.
  double replay(bool forward, bool backward) {
    CudaLauncher launcher(main_, side_, forked_, joined_);
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    check_cuda(cudaStreamBeginCapture(main_, cudaStreamCaptureModeThreadLocal), "begin capture");
    step(launcher, forward, backward);
    check_cuda(cudaStreamEndCapture(main_, &graph), "end capture");
    check_cuda(cudaGraphInstantiate(&executable, graph, 0), "instantiate");
    cudaEvent_t begin = nullptr;
    cudaEvent_t end = nullptr;
    cudaEventCreate(&begin);
    cudaEventCreate(&end);
    std::vector<double> times;
    for (int i = 0; i < 9; ++i) {
      constexpr int kTimes = 50;
      cudaEventRecord(begin, main_);
      for (int j = 0; j < kTimes; ++j) check_cuda(cudaGraphLaunch(executable, main_), "replay");
      cudaEventRecord(end, main_);
      check_cuda(cudaEventSynchronize(end), "time replays");
      float milliseconds = 0;
      cudaEventElapsedTime(&milliseconds, begin, end);
      times.push_back(milliseconds * 1000 / kTimes);
    }
    std::sort(times.begin(), times.end());
    return times[times.size() / 2];
  }
  void profile() {
    CudaLauncher launcher(main_, side_, forked_, joined_);
    ProfilingLauncher profiling(launcher, main_);
    step(profiling, true, true);
    profiling.print();
  }

  std::vector<float> logits() const {
    return to_host(logits_, static_cast<std::size_t>(shape_.batch * kClasses));
  }
  /// All gradients, one after the other.
  std::vector<float> all_gradients() const {
    std::vector<float> all;
    const auto add = [&](const float* memory, std::size_t count) {
      const auto part = to_host(memory, count);
      all.insert(all.end(), part.begin(), part.end());
    };
    for (std::size_t i = 0; i < network.layers.size(); ++i) {
      add(gradients_.layers[i].weight, network.layers[i].weight.size());
      add(gradients_.layers[i].gamma, network.layers[i].gamma.size());
      add(gradients_.layers[i].beta, network.layers[i].beta.size());
    }
    add(gradients_.kernel, network.kernel.size());
    add(gradients_.bias, network.bias.size());
    return all;
  }
  const ParameterGradients& gradients() const { return gradients_; }
  const Parameters& parameters() const { return parameters_; }
  void* workspace() const { return workspace_; }

 private:
  Shape shape_;

 public:
  ReferenceNetwork network;
  std::vector<std::uint8_t> images;
  std::vector<float> logits_gradient;

 private:
  Parameters parameters_;
  ParameterGradients gradients_;
  void* workspace_ = nullptr;
  float* logits_ = nullptr;
  std::uint8_t* device_images_ = nullptr;
  float* device_logits_gradient_ = nullptr;
  cudaStream_t main_ = nullptr;
  cudaStream_t side_ = nullptr;
  cudaEvent_t forked_ = nullptr;
  cudaEvent_t joined_ = nullptr;
};

bool check(int batch, int units) {
  const Shape shape{batch, units, kClasses, false};
  Training training(shape, 7);
  training.run();
  ReferenceNetwork reference = training.network;
  const Workspace workspace(shape, static_cast<unsigned char*>(training.workspace()));
  const auto read = [](const std::uint16_t* from, std::size_t count) {
    Numbers numbers;
    for (const std::uint16_t half : to_host(from, count)) numbers.push_back(from_bf16(half));
    return numbers;
  };
  double farthest = 0;
  follow(reference, workspace, read, farthest);
  const Numbers wanted = reference.forward(Numbers(training.images.begin(), training.images.end()));
  const ReferenceGradients gradients =
      reference.backward(Numbers(training.logits_gradient.begin(), training.logits_gradient.end()));
  const double logits = distance(training.logits().data(), wanted);
  double weight = 0;
  double norm = 0;
  double moved = 0;
  for (std::size_t i = 0; i < reference.layers.size(); ++i) {
    const auto& mine = training.gradients().layers[i];
    const auto& layer = reference.layers[i];
    weight = std::max(
        weight, distance(to_host(mine.weight, layer.weight.size()).data(), gradients.weight[i]));
    norm = std::max(norm,
                    distance(to_host(mine.gamma, layer.gamma.size()).data(), gradients.gamma[i]));
    norm =
        std::max(norm, distance(to_host(mine.beta, layer.beta.size()).data(), gradients.beta[i]));
    moved = std::max(
        moved,
        distance(
            to_host(training.parameters().layers[i].moving_variance, layer.gamma.size()).data(),
            Numbers(layer.moving_variance.begin(), layer.moving_variance.end())));
  }
  const double kernel = distance(
      to_host(training.gradients().kernel, gradients.kernel.size()).data(), gradients.kernel);
  const auto once = training.all_gradients();
  training.clear_gradients();
  training.run();
  const auto twice = training.all_gradients();
  const bool same = std::memcmp(once.data(), twice.data(), once.size() * 4) == 0;
  const bool good = farthest < 1e-3 && logits < 1e-4 && weight < 1e-3 && norm < 1e-3 &&
                    kernel < 1e-4 && moved < 1e-5 && same;
  std::printf(
      "batch %d, %d layers: tensors %.6f logits %.5f weights %.5f norms %.5f dense %.5f moved %.7f "
      "%s: %s\n",
      batch, 6 * units + 2, farthest, logits, weight, norm, kernel, moved,
      same ? "same bits twice" : "OTHER BITS", good ? "good" : "WRONG");
  return good;
}

}  // namespace

int main(int count, char** arguments) {
  const bool kernels = count > 1 && std::strcmp(arguments[1], "kernels") == 0;
  bool good = check(3, 1);
  good = check(5, 2) && good;
  if (count > 1 && std::strcmp(arguments[1], "checks") == 0) return good ? 0 : 1;
  good = check(150, 1) && good;
  for (const int batch : {128, 1024}) {
    Training training({batch, 7, kClasses, false}, 3);
    training.run();
    if (kernels) {
      std::printf("--- batch %d\n", batch);
      training.profile();
    }
    const double forward = training.replay(true, false);
    const double both = training.replay(true, true);
    const double again = training.replay(true, true);
    training.clear_gradients();
    training.run();
    const auto once = training.all_gradients();
    training.clear_gradients();
    training.run();
    const auto twice = training.all_gradients();
    const bool same = std::memcmp(once.data(), twice.data(), once.size() * 4) == 0;
    good = good && same;
    std::printf("batch %d: forward %.1f us, step %.1f us (again %.1f), %.0f images/s, %s\n", batch,
                forward, both, again, batch * 1e6 / both, same ? "same bits twice" : "OTHER BITS");
  }
  return good ? 0 : 1;
}
