#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <memory>

#include "muster/base/file_system.h"
#include "muster/serving/core/servable.h"

namespace muster::serving {

struct TorchScriptServableOptions {
  c10::Device device = c10::kCPU;
  /// Limit of the file's size.
  std::uint64_t limit_bytes = std::uint64_t{16} << 30;
};

/// Loads a TorchScript file to answer requests by its forward, in evaluation mode, without the
/// limits of memory and time that graphs of SavedModels have: such a file is code. Throws as
/// TorchScriptFile and torch_script_signature() do, and InvalidArgument where forward fails on
/// inputs of the declared shapes.
std::shared_ptr<const Servable> load_torch_script(const Path& file,
                                                  const TorchScriptServableOptions& options);

}  // namespace muster::serving
