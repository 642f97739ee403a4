#include "muster/features/batch.h"

#include <fmt/ranges.h>

#include <string>
#include <utility>
#include <vector>

#include "muster/base/error.h"

namespace muster {

std::int64_t Batch::size() const {
  if (features.empty()) return labels.batch_size();
  if (!labels.empty() && labels.batch_size() != features.batch_size()) {
    throw InvalidArgument("a batch has {} rows of features ({}) but {} of labels ({})",
                          features.batch_size(), features.names(), labels.batch_size(),
                          labels.names());
  }
  return features.batch_size();
}

Batch Batch::slice(std::int64_t begin, std::int64_t end) const {
  return {.features = features.empty() ? features : features.slice(begin, end),
          .labels = labels.empty() ? labels : labels.slice(begin, end)};
}

Batch Batch::to(at::Device device, bool non_blocking) const {
  return {.features = features.to(device, non_blocking), .labels = labels.to(device, non_blocking)};
}

namespace {

std::string describe_columns(const Features& columns) {
  std::vector<std::string> parts;
  for (const auto& [name, value] : columns) {
    parts.push_back(fmt::format("{}: {}", name, describe(value)));
  }
  return parts.empty() ? "none" : fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace

std::string describe(const Batch& batch) {
  return fmt::format("features {}; labels {}", describe_columns(batch.features),
                     describe_columns(batch.labels));
}

Batch make_batch(Features features, FeatureValue label) {
  Batch batch{.features = std::move(features), .labels = {}};
  batch.labels.add(kLabel, std::move(label));
  batch.size();  // Throws when the two disagree.
  return batch;
}

}  // namespace muster
