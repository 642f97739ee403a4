#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "muster/nn/model/model.h"
#include "muster/train/engine/participant.h"
#include "muster/train/engine/train_options.h"

namespace muster {

/// "float32", "bfloat16", "float16".
std::string_view name_of(ComputeType type);
/// "off", "on", "max".
std::string_view name_of(CompileMode mode);
/// "off" or "optimizer"
std::string_view name_of(Sharding sharding);
/// The same with the compiler's version: "on, compiler 1". Equal texts give equal bits.
std::string compile_term(CompileMode mode);
/// The mode of such a text; off where it names none.
CompileMode mode_of_term(const std::string& term);

/// Throws FailedPrecondition where a checkpoint was trained with another CompileMode (`saved` is
/// its term), and warns where another version of the compiler compiled it.
void check_compile(const std::string& saved, CompileMode now);

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
