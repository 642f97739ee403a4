#include "muster/train/compiler/fused_kernel.h"

#include <fmt/format.h>

#include <utility>

#include "muster/train/compiler/device_kernel.h"
#include "muster/train/compiler/kernel_source.h"

namespace muster::compiler {

struct FusedKernel::OnDevice {
  DeviceKernel kernel;
};

FusedKernel::FusedKernel(Program program, std::string operations)
    : program_(std::move(program)), operations_(std::move(operations)) {}
FusedKernel::~FusedKernel() = default;

std::string FusedKernel::name() const {
  return fmt::format("fused({}; {})", operations_, describe(program_));
}

std::optional<KernelSource> FusedKernel::source() const { return source_of(program_); }

void FusedKernel::run(std::span<const at::Tensor> inputs,
                      std::span<const at::Tensor> results) const {
  const at::Tensor& first = results.empty() ? inputs[0] : results[0];
  if (first.is_cpu()) return evaluate(program_, inputs, results);
  if (!on_device_) {
    on_device_ = std::make_shared<OnDevice>(OnDevice{device_kernel(*source())});
  }
  on_device_->kernel.launch(inputs, results);
}

const FusedKernel* fused_kernel(const Node& node) {
  return dynamic_cast<const FusedKernel*>(node.kernel.get());
}

}  // namespace muster::compiler
