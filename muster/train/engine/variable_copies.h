#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "muster/nn/model/model.h"
#include "muster/nn/model/model_factory.h"
#include "muster/nn/model/module_variables.h"
#include "muster/nn/optim/variables.h"
#include "muster/train/engine/device_slots.h"

namespace muster {

/// The variables of a process once more on every device that is not their primary: every step
/// writes them again before towers read them. The variables and the slots outlive it.
class VariableCopies {
 public:
  /// `make` makes a model as the run's.
  VariableCopies(const Variables& variables, const DeviceSlots& slots, const ModelFactory& make,
                 const std::vector<ModuleVariable>& module_variables);

  /// Those that the towers of a lane read: the primary's, or a copy.
  const Variables& of_lane(std::size_t lane) const;
  /// All copies have the values of the primary.
  void refresh() const;
  /// Those of one slot, by this thread's stream.
  void refresh(std::size_t slot) const;

 private:
  struct Copy {
    c10::Device device;
    std::size_t slot;
    std::shared_ptr<Model> model;
    Variables variables;
  };
  const Copy* find(std::size_t lane) const;
  void refresh(const Copy& copy) const;

  const Variables& variables_;
  const DeviceSlots& slots_;
  std::vector<Copy> copies_;
};

}  // namespace muster
