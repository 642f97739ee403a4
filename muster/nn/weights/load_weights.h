#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "muster/base/file_system.h"
#include "muster/base/torch_fwd.h"
#include "muster/data/weights/weight_map.h"
#include "muster/data/weights/weights.h"

namespace muster {

struct LoadWeightsOptions {
  /// Map of the names and layouts of the file's tensors, applied before they are looked up.
  WeightMap map{};
  /// Regular expressions over names of variables ("fc\\..*"). Those keep their values, whatever the
  /// file has: a last layer for other classes.
  std::vector<std::string> keep{};
  /// Whether a variable that the file lacks, a tensor that no variable takes, or one of another
  /// shape is an error. Else what fits is loaded, and the report names the rest.
  bool strict = true;
  /// How the file is read.
  OpenWeightsOptions open{};
};

/// Report of what load_weights() did. Variables have libtorch's names: "layer1.0.conv1.weight".
struct WeightReport {
  struct Match {
    std::string variable{};
    /// Name of the tensor in the file, after the map.
    std::string tensor{};
  };
  struct Missing {
    std::string variable{};
    /// "float32 [64, 3, 7, 7]"
    std::string spec{};
    /// The tensor without a variable whose name is most alike; may be empty.
    std::string nearest{};
  };
  struct OtherShape {
    std::string variable{};
    std::string spec{};
    std::string tensor{};
    std::string tensor_spec{};
  };
  std::vector<Match> matched{};
  std::vector<Missing> missing{};
  std::vector<OtherShape> other_shape{};
  /// Tensors of the file that no variable takes.
  std::vector<std::string> unused{};
  /// Variables that kept their values because the options, or the count of batches that older files
  /// lack, say so.
  std::vector<std::string> kept{};
  /// A rule for a prefix that all names of the file have and no variable; may be empty.
  std::string hint{};

  bool is_complete() const { return missing.empty() && other_shape.empty() && unused.empty(); }
  /// A line per fact, at most `most` of each kind.
  std::string text(std::size_t most = 10) const;
};

/// Copies tensors of a file of any format that open_weights() takes into the parameters and buffers
/// of a module. A tensor belongs to the variable that has its name in libtorch ("conv1.weight"), or
/// in our checkpoints ("conv1/kernel", in TensorFlow's layout). Floating-point types are converted;
/// variables on a GPU stay there. Nothing is changed unless all can be: throws InvalidArgument with
/// the report's text when something does not fit and the options are strict, when nothing fits at
/// all, or when a tensor's type is of another kind than its variable's; and as open_weights() does.
WeightReport load_weights(torch::nn::Module& module, const Path& path,
                          const LoadWeightsOptions& options = {});

struct SaveWeightsOptions {
  WeightMap map{};
  /// Words for the file, where its format has a place for them.
  std::map<std::string, std::string> metadata{{"format", "pt"}};
};

/// Writes the parameters and buffers of a module under libtorch's names, in the format that the
/// path's ending stands for.
void save_weights(const torch::nn::Module& module, const Path& path,
                  const SaveWeightsOptions& options = {});

}  // namespace muster
