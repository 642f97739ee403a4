#pragma once

#include <string>
#include <utility>
#include <vector>

#include "muster/data/records/parse_spec.h"

namespace muster::internal {

/// Features of a tf.Example that several columns need, each feature once.
class MergedSpecs {
 public:
  /// Throws InvalidArgument, naming the feature and both columns, where the column needs a feature
  /// in another way than one before it.
  void add(const FeatureSpecs& specs, const std::string& column);
  FeatureSpecs take() { return std::move(specs_); }

 private:
  FeatureSpecs specs_;
  // Who asked first, one a spec.
  std::vector<std::string> columns_;
};

}  // namespace muster::internal
