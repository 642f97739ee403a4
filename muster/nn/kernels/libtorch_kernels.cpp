#include "muster/nn/kernels/libtorch_kernels.h"

#include <ATen/Context.h>
#include <ATen/ops/_slow_conv2d_backward_native.h>
#include <ATen/ops/_slow_conv2d_forward_native.h>
#include <ATen/ops/max_pool2d_with_indices_cpu_dispatch.h>
#include <ATen/ops/native_batch_norm_backward_native.h>
#include <ATen/ops/native_batch_norm_native.h>
#include <c10/util/Exception.h>
#include <torch/library.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "muster/base/error.h"
#include "muster/base/wait.h"
#include "muster/nn/kernels/batch_norm.h"
#include "muster/nn/kernels/convolution.h"
#include "muster/nn/kernels/max_pool.h"
#include "muster/nn/kernels/torch_compat.h"

namespace muster::kernels {
namespace {

using OptionalTensor = c10::optional<at::Tensor>;
using ThreeTensors = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

std::atomic<bool> ours_in_use{false};

bool ours() { return ours_in_use.load(std::memory_order_relaxed); }

at::Tensor tensor_of(const OptionalTensor& tensor) { return tensor ? *tensor : at::Tensor(); }

bool is_float_on_cpu(const at::Tensor& tensor) {
  return !tensor.defined() || (tensor.device().is_cpu() && tensor.scalar_type() == at::kFloat);
}

bool convolution_takes(const at::Tensor& input, const at::Tensor& weight) {
  return ours() && input.dim() == 4 && weight.dim() == 4 && is_float_on_cpu(input) &&
         is_float_on_cpu(weight) && input.numel() > 0 && input.size(1) == weight.size(1);
}

Convolution convolution_of(at::IntArrayRef stride, at::IntArrayRef padding) {
  return {.stride = {stride[0], stride[1]}, .padding = {padding[0], padding[1]}};
}

at::Tensor forward(const at::Tensor& input, const at::Tensor& weight, at::IntArrayRef kernel_size,
                   const OptionalTensor& bias, at::IntArrayRef stride, at::IntArrayRef padding) {
  if (!convolution_takes(input, weight)) {
    return at::native::slow_conv2d_forward_cpu(input, weight, kernel_size, bias, stride, padding);
  }
  return convolve(input, weight, tensor_of(bias), convolution_of(stride, padding));
}

ThreeTensors backward(const at::Tensor& output_gradient, const at::Tensor& input,
                      const at::Tensor& weight, at::IntArrayRef kernel_size, at::IntArrayRef stride,
                      at::IntArrayRef padding, std::array<bool, 3> wanted) {
  if (!convolution_takes(input, weight)) {
    return at::native::slow_conv2d_backward_cpu(output_gradient, input, weight, kernel_size, stride,
                                                padding, wanted);
  }
  return convolve_backward(output_gradient, input, weight, convolution_of(stride, padding), wanted);
}

ThreeTensors normalise(const at::Tensor& input, const OptionalTensor& weight,
                       const OptionalTensor& bias, const OptionalTensor& running_mean,
                       const OptionalTensor& running_variance, bool training, double momentum,
                       double epsilon) {
  const bool takes = ours() && training && batch_norm_takes(input) &&
                     is_float_on_cpu(tensor_of(weight)) && is_float_on_cpu(tensor_of(running_mean));
  if (!takes) {
    return at::native::batch_norm_cpu(input, weight, bias, running_mean, running_variance, training,
                                      momentum, epsilon);
  }
  return batch_norm(input, tensor_of(weight), tensor_of(bias), tensor_of(running_mean),
                    tensor_of(running_variance), momentum, epsilon);
}

ThreeTensors normalise_backward(const at::Tensor& output_gradient, const at::Tensor& input,
                                const OptionalTensor& weight, const OptionalTensor& running_mean,
                                const OptionalTensor& running_variance, const OptionalTensor& mean,
                                const OptionalTensor& inverse_deviation, bool training,
                                double epsilon, std::array<bool, 3> wanted) {
  const bool takes = ours() && training && batch_norm_takes(input) &&
                     is_float_on_cpu(output_gradient) && is_float_on_cpu(tensor_of(weight));
  if (!takes) {
    return at::native::batch_norm_backward_cpu(output_gradient, input, weight, running_mean,
                                               running_variance, mean, inverse_deviation, training,
                                               epsilon, wanted);
  }
  return batch_norm_backward(output_gradient, input, tensor_of(weight), tensor_of(mean),
                             tensor_of(inverse_deviation), wanted);
}

bool are(at::IntArrayRef numbers, std::int64_t value) {
  return numbers.size() == 2 && numbers[0] == value && numbers[1] == value;
}

std::tuple<at::Tensor, at::Tensor> max_pool(const at::Tensor& input, at::IntArrayRef kernel_size,
                                            at::IntArrayRef stride, at::IntArrayRef padding,
                                            at::IntArrayRef dilation, bool ceil_mode) {
  const bool takes = ours() && input.dim() == 4 && is_float_on_cpu(input) &&
                     input.is_contiguous() && are(kernel_size, 2) &&
                     (stride.empty() || are(stride, 2)) && are(padding, 0) && are(dilation, 1) &&
                     !ceil_mode && input.size(2) >= 2 && input.size(3) >= 2;
  if (!takes) {
    return at::cpu::max_pool2d_with_indices(input, kernel_size, stride, padding, dilation,
                                            ceil_mode);
  }
  return max_pool_2x2(input);
}

/// Takes libtorch's warning that a kernel of its own is replaced: that is the point.
class SilentHandler : public c10::WarningHandler {
 public:
#if MUSTER_TORCH_AT_LEAST(2, 0)
  void process(const c10::Warning&) override {}
#else
  void process(const c10::SourceLocation&, const std::string&, bool) override {}
#endif
};

#if MUSTER_TORCH_AT_LEAST(2, 0)
using WarningHandlerGuard = c10::WarningUtils::WarningHandlerGuard;
#else
using WarningHandlerGuard = c10::Warning::WarningHandlerGuard;
#endif

// For the life of the process: taking kernels back while another thread computes is not safe.
void register_kernels() {
  SilentHandler silent;
  const WarningHandlerGuard guard(&silent);
  static torch::Library library(torch::Library::IMPL, "aten", c10::DispatchKey::CPU, __FILE__,
                                __LINE__);
  library.impl("_slow_conv2d_forward", TORCH_FN(forward));
  library.impl("_slow_conv2d_backward.output_mask", TORCH_FN(backward));
  library.impl("native_batch_norm", TORCH_FN(normalise));
  library.impl("native_batch_norm_backward", TORCH_FN(normalise_backward));
  library.impl("max_pool2d_with_indices", TORCH_FN(max_pool));
}

/// Choice of the scopes that live.
struct Choice {
  std::mutex mutex{};
  std::condition_variable changed{};
  std::int64_t scopes = 0;
  bool registered = false;
  bool onednn_was_on = true;

  void use_ours() {
    if (!registered) register_kernels();
    registered = true;
    onednn_was_on = at::globalContext().userEnabledMkldnn();
    ours_in_use.store(true, std::memory_order_relaxed);
    at::globalContext().setUserEnabledMkldnn(false);
  }
  void use_theirs() {
    ours_in_use.store(false, std::memory_order_relaxed);
    at::globalContext().setUserEnabledMkldnn(onednn_was_on);
  }
};

Choice& choice() {
  static Choice the_one;
  return the_one;
}

thread_local int scopes_of_thread = 0;

}  // namespace

bool has_libtorch_kernels() { return true; }

KernelScope::KernelScope(bool ours_wanted) {
  if (scopes_of_thread > 0 && ours() != ours_wanted) {
    throw FailedPrecondition(
        "a model that computes with own_cpu_kernels={} is called while this thread computes with "
        "own_cpu_kernels={}; give both runs the same value",
        ours_wanted, ours());
  }
  Choice& now = choice();
  std::unique_lock lock(now.mutex);
  wait(
      now.changed, lock, Deadline::never(),
      [] { return "a run of this process with another own_cpu_kernels to end its step"; },
      [&] { return now.scopes == 0 || ours() == ours_wanted; });
  if (ours_wanted && !ours()) now.use_ours();
  ++now.scopes;
  ++scopes_of_thread;
}

KernelScope::~KernelScope() {
  Choice& now = choice();
  const std::lock_guard lock(now.mutex);
  --scopes_of_thread;
  if (--now.scopes > 0) return;
  if (ours()) now.use_theirs();
  now.changed.notify_all();
}

bool uses_libtorch_kernels() { return ours(); }

UnitOrder residual_unit_order() { return ours() ? UnitOrder::kContiguous : UnitOrder::kNone; }
std::string_view residual_unit_loops() { return {}; }

}  // namespace muster::kernels
