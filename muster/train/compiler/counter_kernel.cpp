#include "muster/train/compiler/counter_kernel.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>

#include "muster/train/compiler/device_kernel.h"

namespace muster::compiler {
namespace {

constexpr std::int64_t kCounterThreads = 256;

}  // namespace

struct CounterKernel::OnDevice {
  DeviceKernel kernel;
};

CounterKernel::CounterKernel(std::vector<std::int64_t> added) : added_(std::move(added)) {}
CounterKernel::~CounterKernel() = default;

std::string CounterKernel::name() const { return fmt::format("count({})", added_.size()); }

std::optional<KernelSource> CounterKernel::source() const {
  std::string declared;
  std::string given;
  std::string sums;
  for (std::size_t i = 0; i < added_.size(); ++i) {
    const char* const comma = i == 0 ? "" : ", ";
    declared += fmt::format("{}long long* a{}", comma, i);
    given += fmt::format("{}(long long*)pointers[{}]", comma, i);
    sums += fmt::format("  if (MUSTER_HOST || thread_at.x == {0}) *a{0} += {1}LL;\n", i, added_[i]);
  }
  return KernelSource{
      .text = fmt::format(
          "{}MUSTER_KERNEL muster_kernel({}) {{\n{}}}\n#ifdef MUSTER_ON_HOST\nextern \"C\" void "
          "muster_run(void** pointers) {{ muster_kernel({}); }}\n#endif\n",
          kernel_prelude(kCounterThreads), declared, sums, given),
      .threads = kCounterThreads};
}

void CounterKernel::run(std::span<const at::Tensor> inputs, std::span<const at::Tensor>) const {
  if (!inputs[0].is_cpu()) {
    if (!on_device_) on_device_ = std::make_shared<OnDevice>(OnDevice{device_kernel(*source())});
    return on_device_->kernel.launch(inputs, {});
  }
  for (std::size_t i = 0; i < added_.size(); ++i) {
    *inputs[i].data_ptr<std::int64_t>() += added_[i];
  }
}

}  // namespace muster::compiler
