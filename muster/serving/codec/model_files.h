#pragma once

#include <optional>
#include <string_view>

#include "muster/base/file_system.h"

namespace muster::serving {

/// Name of the TorchScript file in a version's folder, which is Triton's.
inline constexpr std::string_view kTorchScriptName = "model.pt";

/// The TorchScript file that a path is, by its ending, or that its folder holds; nothing elsewhere.
std::optional<Path> torch_script_in(const Path& path);

/// The file beside a TorchScript file that has its signature: model.signature.json of model.pt.
Path torch_script_signature_path(const Path& file);

/// Whether a path is one version of a model: the folder of a SavedModel or of a TorchScript file,
/// or such a file.
bool is_version(const Path& path);

}  // namespace muster::serving
