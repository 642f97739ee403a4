#pragma once

#include <string>
#include <vector>

#include "muster/base/file_system.h"
#include "muster/nn/torch_script/torch_script_program.h"
#include "muster/saved_model/graph/saved_model.h"

namespace muster::serving {

/// How requests call a TorchScript file. Its forward has names of arguments, and neither types of
/// elements nor shapes: these are in a file beside it.
struct TorchScriptSignature {
  /// Inputs alone: what forward gives is seen when it runs.
  graph::SignatureDef definition{};
  /// Names of the outputs in forward's order; empty: those that forward gives.
  std::vector<std::string> output_names{};
  /// Whether types and shapes are the file's, not assumed.
  bool is_declared = false;
};

/// The signature of `file`: from MODEL.signature.json beside it, else every argument that a call
/// needs is float32 of any shape. Throws DataLoss for a damaged signature, InvalidArgument for one
/// that does not fit forward, and for arguments that no request can give.
TorchScriptSignature torch_script_signature(const Path& file, const TorchScriptProgram& program);

}  // namespace muster::serving
