#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "muster/nn/optim/optimizer.h"

namespace muster {

/// How many elements the slots have that the optimizer of a variable of this name and shape keeps
/// of it; 0 where no optimizer is for it.
std::size_t slot_elements(const OptimizersByPrefix& optimizers, std::string_view variable,
                          std::span<const std::int64_t> shape);

/// Whether the optimizer of a variable of this name updates it as a whole, so that layouts keep it
/// in one piece.
bool is_kept_whole(const OptimizersByPrefix& optimizers, std::string_view variable);

/// The offset by which a variable of this name is evaluated, with the slot's name in checkpoints;
/// nothing where the variable itself is.
std::optional<EvaluationOffset> evaluation_offset(const OptimizersByPrefix& optimizers,
                                                  std::string_view variable);
/// Whether any variable has such an offset.
bool has_evaluation_offset(const OptimizersByPrefix& optimizers);

}  // namespace muster
