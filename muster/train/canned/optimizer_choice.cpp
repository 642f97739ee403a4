#include "muster/train/canned/canned.h"

#include <utility>

namespace muster {

OptimizerChoice::OptimizerChoice(std::string name) : name_(std::move(name)) {}
OptimizerChoice::OptimizerChoice(const char* name) : name_(name) {}
OptimizerChoice::OptimizerChoice(Optimizer optimizer) : optimizer_(std::move(optimizer)) {}

Optimizer OptimizerChoice::resolve(std::string_view default_name,
                                   const LearningRate& learning_rate) const {
  if (optimizer_) return *optimizer_;
  return optimizer_by_name(name_.empty() ? default_name : std::string_view(name_), learning_rate);
}

}  // namespace muster
