#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "muster/nn/model/model.h"
#include "muster/nn/torch_script/torch_script.h"

namespace muster {

class TorchScriptFile;

/// A model whose forward is a TorchScript file's; torch_script_model() makes these. Derive from it
/// for a loss of your own: override call(), and ask outputs() for all that forward gives.
class TorchScriptModel : public Model {
 public:
  /// Throws as torch_script_model() does.
  explicit TorchScriptModel(const Path& path, const TorchScriptOptions& options = {});
  TorchScriptModel(const TorchScriptFile& file, const TorchScriptOptions& options);
  ~TorchScriptModel() override;

  torch::Tensor forward(const Features& features) override;
  /// Every tensor that forward gives: by the key of a dictionary, the field of a NamedTuple, or the
  /// place.
  std::vector<std::pair<std::string, torch::Tensor>> outputs(const Features& features);

  /// Writes a TorchScript file with the values that the model has now, for torch.jit.load. The file
  /// appears when it is whole.
  void save_script(const Path& path) const;

  bool draws_from_libtorch() const override;
  void train(bool on = true) override;
  using Model::to;
  void to(torch::Device device, bool non_blocking = false) override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster
