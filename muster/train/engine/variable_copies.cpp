#include "muster/train/engine/variable_copies.h"

#include <torch/types.h>

#include <algorithm>
#include <utility>

#include "muster/train/engine/seeded_model.h"

namespace muster {

VariableCopies::VariableCopies(const Variables& variables, const DeviceSlots& slots,
                               const ModelFactory& make,
                               const std::vector<ModuleVariable>& module_variables)
    : variables_(variables), slots_(slots) {
  for (std::size_t lane = 0; lane < slots.lanes(); ++lane) {
    if (!slots.is_away(lane) || find(lane) != nullptr) continue;
    const c10::Device device = slots.device_of_lane(lane);
    const std::size_t slot = slots.slot_of_lane(lane);
    const BranchStream::Use on = slots.use(slot);
    auto model = make();
    if (!device.is_cpu()) model->to(device);
    auto copied = Variables::adopt(*model, adopt_options(module_variables));
    copies_.push_back({device, slot, std::move(model), std::move(copied)});
  }
}

const VariableCopies::Copy* VariableCopies::find(std::size_t lane) const {
  const auto found = std::ranges::find_if(copies_, [&](const Copy& copy) {
    return copy.device == slots_.device_of_lane(lane) && copy.slot == slots_.slot_of_lane(lane);
  });
  return found == copies_.end() ? nullptr : &*found;
}

const Variables& VariableCopies::of_lane(std::size_t lane) const {
  const Copy* const copy = find(lane);
  return copy == nullptr ? variables_ : copy->variables;
}

void VariableCopies::refresh() const {
  for (const Copy& copy : copies_) refresh(copy);
}

void VariableCopies::refresh(std::size_t slot) const {
  for (const Copy& copy : copies_) {
    if (copy.slot == slot) refresh(copy);
  }
}

void VariableCopies::refresh(const Copy& copy) const {
  const torch::NoGradGuard no_grad;
  copy.variables.flat().copy_(variables_.flat(), /*non_blocking=*/true);
  for (std::size_t i = 0; i < variables_.all().size(); ++i) {
    const Variable& variable = variables_.all()[i];
    // Towers have buffers of their own.
    if (variable.sparse()) {
      copy.variables.all()[i].value.copy_(variable.value, /*non_blocking=*/true);
    }
  }
}

}  // namespace muster
