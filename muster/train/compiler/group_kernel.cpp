#include "muster/train/compiler/group_kernel.h"

#include <fmt/format.h>

#include <utility>

#include "muster/train/compiler/device_kernel.h"

namespace muster::compiler {

struct GroupKernel::OnDevice {
  DeviceKernel kernel;
};

GroupKernel::GroupKernel(std::vector<Program> programs) : programs_(std::move(programs)) {}
GroupKernel::~GroupKernel() = default;

std::string GroupKernel::name() const {
  std::int64_t elements = 0;
  for (const Program& program : programs_) elements += program.elements();
  return fmt::format("group({} programs, {} elements)", programs_.size(), elements);
}

std::optional<KernelSource> GroupKernel::source() const { return source_of(programs_); }

void GroupKernel::run(std::span<const at::Tensor> inputs,
                      std::span<const at::Tensor> results) const {
  const at::Tensor& first = results.empty() ? inputs[0] : results[0];
  if (!first.is_cpu()) {
    if (!on_device_) on_device_ = std::make_shared<OnDevice>(OnDevice{device_kernel(*source())});
    return on_device_->kernel.launch(inputs, results);
  }
  std::size_t input = 0;
  std::size_t result = 0;
  for (const Program& program : programs_) {
    evaluate(program, inputs.subspan(input, program.inputs.size()),
             results.subspan(result, program.outputs.size()));
    input += program.inputs.size();
    result += program.outputs.size();
  }
}

}  // namespace muster::compiler
