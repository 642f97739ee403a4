#pragma once

#include <memory>
#include <string>

#include "muster/data/checkpoint/bundle_reader.h"
#include "muster/nn/model/model.h"
#include "muster/train/boosted_trees/boosted_trees_features_internal.h"

namespace muster::internal {

/// The keys of a checkpoint.
inline constexpr const char* kTreesKey = "boosted_trees/model";
inline constexpr const char* kTreeColumnsKey = "boosted_trees/columns";

/// The trees of a checkpoint. Throws InvalidArgument when the checkpoint has none, or trees over
/// other columns, naming them.
std::string read_trees(const BundleReader& bundle, const TreeFeatures& features);

/// Trees that give logits. They are no libtorch variables: load_trees() sets them.
class BoostedTreesModel final : public Model {
 public:
  /// `outputs`: logits of an example.
  BoostedTreesModel(std::shared_ptr<const TreeFeatures> features, std::int64_t outputs);

  void load_trees(const BundleReader& bundle);
  /// Throws FailedPrecondition before load_trees().
  const TreeBooster& booster() const;
  const TreeFeatures& features() const { return *features_; }

  /// Throws Unimplemented while it is traced, since trees are no libtorch operations.
  torch::Tensor forward(const Features& features) override;
  bool draws_from_libtorch() const override { return false; }

 private:
  std::shared_ptr<const TreeFeatures> features_;
  std::int64_t outputs_;
  std::unique_ptr<TreeBooster> booster_;
};

/// Numbers of libtorch's own, [rows, columns].
at::Tensor to_tensor(const std::vector<float>& values, std::int64_t rows, std::int64_t columns);

}  // namespace muster::internal
