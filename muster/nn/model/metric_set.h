#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "muster/nn/model/metric.h"

namespace muster {

/// Metrics by name. A copy is deep.
class MetricSet {
 public:
  /// Makes an empty metric of a kind for from_bytes().
  using Kinds = std::map<std::string, std::function<std::unique_ptr<Metric>()>, std::less<>>;

  MetricSet() = default;
  MetricSet(const MetricSet& other);
  MetricSet& operator=(const MetricSet& other);
  MetricSet(MetricSet&&) noexcept = default;
  MetricSet& operator=(MetricSet&&) noexcept = default;
  ~MetricSet() = default;

  /// Adds a metric and returns it, to be updated: `set.add("loss", Mean()).update(loss)`. Throws
  /// AlreadyExists for a name that is taken.
  template <typename M>
  M& add(std::string name, M metric) {
    auto owned = std::make_unique<M>(std::move(metric));
    M& added = *owned;
    insert(std::move(name), std::move(owned));
    return added;
  }
  void insert(std::string name, std::unique_ptr<Metric> metric);

  bool empty() const { return metrics_.empty(); }
  std::size_t size() const { return metrics_.size(); }
  bool contains(std::string_view name) const { return metrics_.contains(name); }
  /// Throws NotFound, listing the names there are.
  const Metric& at(std::string_view name) const;

  /// Adds what `other` has seen, name by name; a metric that is only there is copied. Exact in any
  /// order and grouping. Throws InvalidArgument, naming the metric, when two do not fit.
  void merge(const MetricSet& other);
  /// Moves the metrics of `other` here. Throws AlreadyExists.
  void absorb(MetricSet other);
  /// Every metric's value, by name.
  std::map<std::string, double> compute() const;
  /// The tables of those that have one, by name.
  std::map<std::string, MetricTable> tables() const;
  /// The same metrics with `suffix` after each name.
  MetricSet with_suffix(std::string_view suffix) &&;
  /// Forgets what was seen and keeps the metrics.
  void reset();

  /// The same bytes for the same state, however it was merged.
  std::string to_bytes() const;
  /// Throws DataLoss for damage, and NotFound for a kind that is not in `kinds`.
  static MetricSet from_bytes(std::string_view bytes, const Kinds& kinds);
  /// With the kinds of metrics.h.
  static MetricSet from_bytes(std::string_view bytes);

 private:
  std::map<std::string, std::unique_ptr<Metric>, std::less<>> metrics_;
};

/// The kinds of these metrics, for MetricSet::from_bytes(). Each has a constructor without
/// arguments.
template <typename... M>
MetricSet::Kinds metric_kinds() {
  MetricSet::Kinds kinds;
  (kinds.emplace(M().kind(), [] { return std::make_unique<M>(); }), ...);
  return kinds;
}

}  // namespace muster
