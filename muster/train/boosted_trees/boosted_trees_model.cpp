#include <fmt/ranges.h>
#include <torch/csrc/jit/frontend/tracer.h>
#include <torch/types.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/train/boosted_trees/boosted_trees_model_internal.h"

namespace muster::internal {

at::Tensor to_tensor(const std::vector<float>& values, std::int64_t rows, std::int64_t columns) {
  const at::Tensor tensor = at::empty({rows, columns}, at::kFloat);
  std::memcpy(tensor.data_ptr(), values.data(), values.size() * sizeof(float));
  return tensor;
}

std::string read_trees(const BundleReader& bundle, const TreeFeatures& features) {
  if (!bundle.contains(kTreesKey) || !bundle.contains(kTreeColumnsKey)) {
    throw InvalidArgument("the checkpoint {} holds no boosted trees; use another model_dir",
                          bundle.prefix().string());
  }
  const auto were = bundle.read_strings(kTreeColumnsKey);
  const auto are = features.descriptions();
  if (were != are) {
    throw InvalidArgument(
        "the trees of {} read the columns {}, but feature_columns are {}; use another model_dir",
        bundle.prefix().string(), fmt::join(were, ", "), fmt::join(are, ", "));
  }
  return bundle.read_strings(kTreesKey).at(0);
}

BoostedTreesModel::BoostedTreesModel(std::shared_ptr<const TreeFeatures> features,
                                     std::int64_t outputs)
    : features_(std::move(features)), outputs_(outputs) {}

void BoostedTreesModel::load_trees(const BundleReader& bundle) {
  booster_ = std::make_unique<TreeBooster>(read_trees(bundle, *features_));
}

const TreeBooster& BoostedTreesModel::booster() const {
  if (booster_ == nullptr) throw FailedPrecondition("boosted trees: no checkpoint is loaded");
  return *booster_;
}

torch::Tensor BoostedTreesModel::forward(const Features& features) {
  if (torch::jit::tracer::isTracing()) {
    throw Unimplemented(
        "boosted trees cannot be exported as a graph; their checkpoint holds them as {}, which "
        "libxgboost reads",
        kTreesKey);
  }
  SparseRows rows = features_->make_rows();
  features_->append(features, rows);
  if (rows.rows() == 0) return at::empty({0, outputs_}, at::kFloat);
  const auto margins = booster().margins(BoosterRows(rows));
  if (static_cast<std::int64_t>(margins.size()) != rows.rows() * outputs_) {
    throw InvalidArgument("the trees give {} logits an example, but the head takes {}",
                          static_cast<std::int64_t>(margins.size()) / rows.rows(), outputs_);
  }
  return to_tensor(margins, rows.rows(), outputs_);
}

}  // namespace muster::internal
