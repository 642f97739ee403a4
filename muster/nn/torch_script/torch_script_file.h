#pragma once

#include <torch/csrc/jit/api/module.h>

#include <cstdint>
#include <memory>
#include <string>

#include "muster/base/file_system.h"

namespace muster {

/// A TorchScript file in memory, of which modules with values of their own are made. Copies share
/// the bytes. All functions may be called from any thread.
class TorchScriptFile {
 public:
  /// Throws NotFound, ResourceExhausted for a file of more than `limit_bytes`, and DataLoss for
  /// what is no whole archive of torch.jit.save.
  static TorchScriptFile read(const Path& path, std::uint64_t limit_bytes);

  /// A module of the file. Throws DataLoss for a damaged file and Unimplemented for one that needs
  /// an operator or a class that is not there.
  torch::jit::Module load(c10::Device device = at::kCPU) const;

  const Path& path() const { return path_; }

 private:
  TorchScriptFile(Path path, std::string bytes);

  Path path_;
  std::shared_ptr<const std::string> bytes_;
};

}  // namespace muster
