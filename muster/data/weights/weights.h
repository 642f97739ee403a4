#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/file_system.h"
#include "muster/data/weights/weight.h"

namespace muster {

enum class WeightFormat : std::uint8_t {
  /// One file, or several with a "*.safetensors.index.json".
  kSafetensors,
  /// Files of torch.save: a ZIP archive of a pickle and the storages; or several with a
  /// "*.bin.index.json". Also read: files of torch::save and torch.jit.save.
  kTorch,
  /// Files of numpy.savez and numpy.savez_compressed.
  kNpz,
  /// A tensor bundle, TensorFlow's checkpoint format V2, as checkpoints here.
  kBundle,
};

/// "safetensors", "torch", "npz", "bundle".
std::string_view name_of(WeightFormat format);
/// The format that a name stands for. Throws InvalidArgument for another name, with the known ones.
WeightFormat weight_format_named(std::string_view name);

/// Bounds on what a reader believes. Beyond them it throws ResourceExhausted.
struct WeightLimits {
  /// Header of a safetensors file, pickle of a PyTorch file, index of a sharded one.
  std::uint64_t header_bytes = std::uint64_t{100} << 20;
  /// Elements of one tensor that repeats those of its storage.
  std::uint64_t expanded_bytes = std::uint64_t{1} << 30;
};

struct OpenWeightsOptions {
  WeightLimits limits{};
  /// Key of the dictionary to read from a PyTorch file, "ema/state_dict" for one in another; empty:
  /// that under "state_dict", "model" and the like, or all.
  std::string key{};
  /// Whether storages of PyTorch files are held to their checksums when they are read. PyTorch can
  /// be told to write none.
  bool verify_checksums = true;
};

/// The tensors of a file, or of the files of a sharded one. Values are read when they are asked
/// for.
struct Weights {
  WeightFormat format = WeightFormat::kSafetensors;
  Path path{};
  /// In the order of the file.
  std::vector<Weight> tensors{};
  /// Words that the writer added, as safetensors' "__metadata__".
  std::map<std::string, std::string> metadata{};
  /// Names of what is no tensor: "epoch", "optimizer", arrays of strings.
  std::vector<std::string> others{};

  /// Nothing for an unknown name.
  const Weight* find(std::string_view name) const;
  std::vector<std::string> names() const;
};

/// Opens a file of weights of any format, which its first bytes tell; the index of a sharded one;
/// a folder with one of these under its usual name ("model.safetensors.index.json",
/// "model.safetensors", "pytorch_model.bin.index.json", "pytorch_model.bin"); or what
/// resolve_checkpoint() takes. Throws NotFound; DataLoss for a damaged file, naming file, offset
/// and tensor; Unimplemented for what cannot be read, with what to do.
Weights open_weights(const Path& path, const OpenWeightsOptions& options = {});

struct WriteWeightsOptions {
  WeightFormat format = WeightFormat::kSafetensors;
  std::map<std::string, std::string> metadata{};
};

/// The format that a path to be written stands for: by its ending (".safetensors";
/// ".pt", ".pth" and ".bin" for PyTorch's; ".npz"), else a tensor
/// bundle.
WeightFormat weight_format_of(const Path& path);

/// Writes tensors into a file, which appears when it is whole. Values are read one tensor at a
/// time. Throws InvalidArgument for a name that comes twice and for a type that the format does not
/// have, naming both.
void write_weights(const Path& path, const std::vector<Weight>& tensors,
                   const WriteWeightsOptions& options);

}  // namespace muster
