#include "muster/nn/optim/partitioner.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "muster/base/error.h"

namespace muster {
namespace {

constexpr std::int64_t kMinTableSliceBytes = std::int64_t{64} << 20;

void require_positive(std::int64_t value, std::string_view name) {
  if (value <= 0) throw InvalidArgument("partitioner: {} must be positive: {}", name, value);
}

std::int64_t divide_up(std::int64_t value, std::int64_t by) {
  return value / by + (value % by != 0);
}

/// The shape as a rule sees it.
struct Extent {
  std::int64_t rows = 1;
  /// Size of one row.
  std::int64_t bytes = 0;
};

Extent extent_of(std::span<const std::int64_t> shape, std::size_t axis,
                 std::int64_t element_bytes) {
  if (axis >= shape.size() || std::ranges::min(shape) < 0) {
    throw InvalidArgument("partitioner: shape [{}] cannot be cut along axis {}",
                          fmt::join(shape, ", "), axis);
  }
  Extent extent{.rows = shape[axis], .bytes = element_bytes};
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (i != axis) extent.bytes *= shape[i];
  }
  return extent;
}

std::int64_t count_of(const FixedSizePartitions& rule, const Extent& extent) {
  require_positive(rule.parts, "parts");
  return std::min(rule.parts, extent.rows);
}

std::int64_t count_of(const MinMaxPartitions& rule, const Extent& extent) {
  require_positive(rule.max_partitions, "max_partitions");
  require_positive(rule.min_slice_bytes, "min_slice_bytes");
  return std::min({extent.rows, rule.max_partitions,
                   divide_up(extent.rows * extent.bytes, rule.min_slice_bytes)});
}

std::int64_t count_of(const AxisSizePartitions& rule, const Extent& extent) {
  require_positive(rule.max_part_bytes, "max_part_bytes");
  if (rule.max_parts) require_positive(*rule.max_parts, "max_parts");
  const std::int64_t rows_a_part =
      std::max<std::int64_t>(1, rule.max_part_bytes / std::max<std::int64_t>(1, extent.bytes));
  const std::int64_t parts = divide_up(extent.rows, rows_a_part);
  return rule.max_parts ? std::min(parts, *rule.max_parts) : parts;
}

}  // namespace

std::vector<std::int64_t> partition(const Partitioner& partitioner,
                                    std::span<const std::int64_t> shape,
                                    std::int64_t element_bytes) {
  require_positive(element_bytes, "element_bytes");
  const std::size_t axis = std::visit([](const auto& rule) { return rule.axis; }, partitioner);
  const Extent extent = extent_of(shape, axis, element_bytes);
  const std::int64_t parts = std::max<std::int64_t>(
      1, std::visit([&](const auto& rule) { return count_of(rule, extent); }, partitioner));
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(parts), extent.rows / parts);
  for (std::int64_t i = 0; i < extent.rows % parts; ++i) ++sizes[static_cast<std::size_t>(i)];
  return sizes;
}

const Partitioner* find_rule(const PartitionRules& rules, std::string_view variable) {
  const PartitionRule* best = nullptr;
  for (const PartitionRule& rule : rules) {
    if (!variable.starts_with(rule.prefix)) continue;
    if (best == nullptr || rule.prefix.size() > best->prefix.size()) best = &rule;
  }
  return best == nullptr ? nullptr : &best->partitioner;
}

PartitionRules canned_partition_rules(std::int64_t parameter_servers) {
  require_positive(parameter_servers, "parameter_servers");
  const MinMaxPartitions tables{.max_partitions = parameter_servers,
                                .min_slice_bytes = kMinTableSliceBytes};
  const MinMaxPartitions layers{.max_partitions = parameter_servers};
  return {{"linear/", tables}, {"dnn/", layers}, {"dnn/input_from_feature_columns/", tables}};
}

}  // namespace muster
