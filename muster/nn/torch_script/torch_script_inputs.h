#pragma once

#include <ATen/core/function_schema.h>

#include <string>
#include <utility>
#include <vector>

#include "muster/data/features/features.h"
#include "muster/nn/torch_script/torch_script.h"

namespace muster {

/// Whether an argument takes a tensor, or a tensor or nothing.
bool is_tensor_argument(const c10::Argument& argument);

/// The arguments of forward from a batch's features: by the options, by names, else in order.
/// `what` is the file and forward's signature, for messages. Throws InvalidArgument where an
/// argument is left without a value, naming it and the features there are.
std::vector<c10::IValue> script_inputs(const std::vector<c10::Argument>& arguments,
                                       const Features& features, const TorchScriptOptions& options,
                                       const std::string& what);

/// Throws InvalidArgument where no features could do for the arguments, or an option names an
/// argument that is not there.
void check_arguments(const std::vector<c10::Argument>& arguments, const TorchScriptOptions& options,
                     const std::string& what);

/// The tensor that forward gave under this name or place; with an empty name the only one.
at::Tensor script_output(const c10::IValue& value, const std::string& output,
                         const std::string& what);

/// All tensors that forward gave: "0" for a tensor, else by place, field or key.
std::vector<std::pair<std::string, at::Tensor>> script_outputs(const c10::IValue& value,
                                                               const std::string& what);

}  // namespace muster
