#include "muster/nn/model/metric_set.h"

#include <fmt/ranges.h>

#include <vector>

#include "muster/base/error.h"
#include "muster/nn/model/metrics.h"

namespace muster {
namespace {

constexpr std::uint8_t kVersion = 1;

}  // namespace

MetricSet::MetricSet(const MetricSet& other) {
  for (const auto& [name, metric] : other.metrics_) metrics_.emplace(name, metric->clone());
}

MetricSet& MetricSet::operator=(const MetricSet& other) {
  if (this != &other) *this = MetricSet(other);
  return *this;
}

void MetricSet::insert(std::string name, std::unique_ptr<Metric> metric) {
  const auto [place, added] = metrics_.try_emplace(std::move(name), std::move(metric));
  if (!added) throw AlreadyExists("there already is a metric \"{}\"", place->first);
}

const Metric& MetricSet::at(std::string_view name) const {
  const auto found = metrics_.find(name);
  if (found != metrics_.end()) return *found->second;
  std::vector<std::string_view> names;
  for (const auto& entry : metrics_) names.emplace_back(entry.first);
  throw NotFound("there is no metric \"{}\"; there are: {}", name, fmt::join(names, ", "));
}

void MetricSet::merge(const MetricSet& other) {
  for (const auto& [name, metric] : other.metrics_) {
    const auto found = metrics_.find(name);
    if (found == metrics_.end()) {
      metrics_.emplace(name, metric->clone());
      continue;
    }
    try {
      found->second->merge(*metric);
    } catch (Error& error) {
      error.add_context(fmt::format("merging metric \"{}\"", name));
      throw;
    }
  }
}

void MetricSet::absorb(MetricSet other) {
  for (auto& [name, metric] : other.metrics_) insert(name, std::move(metric));
}

std::map<std::string, double> MetricSet::compute() const {
  std::map<std::string, double> values;
  for (const auto& [name, metric] : metrics_) values.emplace(name, metric->compute());
  return values;
}

std::map<std::string, MetricTable> MetricSet::tables() const {
  std::map<std::string, MetricTable> tables;
  for (const auto& [name, metric] : metrics_) {
    if (auto table = metric->table()) tables.emplace(name, std::move(*table));
  }
  return tables;
}

MetricSet MetricSet::with_suffix(std::string_view suffix) && {
  MetricSet renamed;
  for (auto& [name, metric] : metrics_) {
    renamed.insert(fmt::format("{}{}", name, suffix), std::move(metric));
  }
  metrics_.clear();
  return renamed;
}

void MetricSet::reset() {
  for (auto& entry : metrics_) entry.second->reset();
}

std::string MetricSet::to_bytes() const {
  StateWriter out;
  out.u8(kVersion);
  out.u32(static_cast<std::uint32_t>(metrics_.size()));
  for (const auto& [name, metric] : metrics_) {
    out.string(name);
    out.string(metric->kind());
    metric->write(out);
  }
  return std::move(out).take();
}

MetricSet MetricSet::from_bytes(std::string_view bytes, const Kinds& kinds) {
  StateReader in(bytes);
  const auto version = in.u8();
  if (version != kVersion) {
    throw DataLoss("metric state of version {}, this program reads {}", version, kVersion);
  }
  MetricSet set;
  for (auto left = in.u32(); left > 0; --left) {
    auto name = in.string();
    const auto kind = in.string();
    const auto maker = kinds.find(kind);
    if (maker == kinds.end()) {
      throw NotFound("metric \"{}\" is of kind \"{}\", which this program does not know", name,
                     kind);
    }
    auto metric = maker->second();
    metric->read(in);
    set.insert(std::move(name), std::move(metric));
  }
  if (in.left() != 0) throw DataLoss("metric state has {} bytes too many", in.left());
  return set;
}

MetricSet MetricSet::from_bytes(std::string_view bytes) {
  return from_bytes(bytes, built_in_metrics());
}

}  // namespace muster
