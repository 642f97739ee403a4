#pragma once

#include <cstdint>

#include "muster/data/features/features.h"
#include "muster/data/records/row_names.h"

namespace muster {

/// The name of the label where there is only one.
inline constexpr const char* kLabel = "label";

/// Input of one step: the features and, except for prediction, the labels, by name. With several
/// heads a label has the name of its head.
struct Batch {
  Features features{};
  Features labels{};
  /// Where its examples come from, as Dataset::batch() knows it; null where nothing is known.
  RowNamesPtr row_names{};

  /// The number of examples. Throws InvalidArgument when features and labels disagree.
  std::int64_t size() const;
  /// Examples [begin, end), sharing memory. Throws OutOfRange.
  Batch slice(std::int64_t begin, std::int64_t end) const;
  Batch to(at::Device device, bool non_blocking = false) const;
};

/// Features and one label, which gets the name kLabel.
Batch make_batch(Features features, FeatureValue label);

/// "features x: Float [8, 3], y: strings [8]; labels label: Long [8, 1]": for errors.
std::string describe(const Batch& batch);

}  // namespace muster
