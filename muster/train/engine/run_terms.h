#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "muster/nn/model/model.h"
#include "muster/train/engine/strategy.h"
#include "muster/train/engine/train_options.h"

namespace muster {

/// "float32", "bfloat16", "float16".
std::string_view name_of(ComputeType type);

/// Everything that the numbers of a run depend on, beside what RunContract has fields for:
/// optimizers with their options and learning rates, clipping, weight decay, averages, what is done
/// with bad batches, the model's variables and layers, the head, and RunConfig::cluster.terms.
/// Tasks compare them when they join. What a layer does not print of itself, and what an input
/// function does, is not seen: a program adds that to RunConfig::cluster.terms.
std::vector<RunTerm> terms_of(const EstimatorOptions& options, const RunConfig& config,
                              const Model& model);

/// The first of these terms in which a task differs from the chief, in words with both values;
/// empty if none, or if the chief says nothing of them. `is_server`: a task that holds variables
/// need not know all that the others do.
std::string difference(const std::vector<RunTerm>& chief, const std::vector<RunTerm>& task,
                       bool is_server);

}  // namespace muster
