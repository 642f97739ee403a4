#include "muster/data/features/batch.h"

#include <fmt/ranges.h>

#include <string>
#include <utility>
#include <vector>

#include "muster/base/error.h"

namespace muster {

namespace {

/// Those of a slice.
class NamesFrom final : public RowNames {
 public:
  NamesFrom(RowNamesPtr all, std::int64_t begin) : all_(std::move(all)), begin_(begin) {}
  std::string of(std::int64_t row) const override { return all_->of(begin_ + row); }

 private:
  RowNamesPtr all_;
  std::int64_t begin_;
};

RowNamesPtr names_from(const RowNamesPtr& all, std::int64_t begin) {
  if (all == nullptr || begin == 0) return all;
  return std::make_shared<const NamesFrom>(all, begin);
}

}  // namespace

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
          .labels = labels.empty() ? labels : labels.slice(begin, end),
          .row_names = names_from(row_names, begin)};
}

Batch Batch::to(at::Device device, bool non_blocking) const {
  return {.features = features.to(device, non_blocking),
          .labels = labels.to(device, non_blocking),
          .row_names = row_names};
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
  Batch batch{.features = std::move(features), .labels = {}, .row_names = {}};
  batch.labels.add(kLabel, std::move(label));
  batch.size();  // Throws when the two disagree.
  return batch;
}

}  // namespace muster
