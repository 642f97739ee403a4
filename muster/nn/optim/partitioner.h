#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace muster {

/// Rules by which a variable is cut into parts along one axis, with the words and numbers of
/// TensorFlow's partitioners. Plain data, applied where variables are placed. A checkpoint holds
/// the whole variable, so another rule can read it.

/// So many parts, or one a row where there are fewer rows.
struct FixedSizePartitions {
  std::int64_t parts = 1;
  std::size_t axis = 0;
};

/// As many parts as are not smaller than min_slice_bytes, at most max_partitions.
struct MinMaxPartitions {
  std::int64_t max_partitions = 1;
  std::size_t axis = 0;
  std::int64_t min_slice_bytes = std::int64_t{256} << 10;
};

/// Parts that are not larger than max_part_bytes, unless a single row is.
struct AxisSizePartitions {
  std::int64_t max_part_bytes = 1;
  std::size_t axis = 0;
  std::optional<std::int64_t> max_parts{};
};

using Partitioner = std::variant<FixedSizePartitions, MinMaxPartitions, AxisSizePartitions>;

/// Beside an element of a numeric type, whose size is known, the size that a string counts with.
inline constexpr std::int64_t kPartitionBytesPerString = 16;

/// The sizes of the parts along the rule's axis, at least one; the first ones have one more where
/// it does not come out even. Throws InvalidArgument for an axis that the shape does not have, a
/// negative dimension, or options that are not positive.
std::vector<std::int64_t> partition(const Partitioner& partitioner,
                                    std::span<const std::int64_t> shape,
                                    std::int64_t element_bytes);

/// A rule and the variables it is for: those whose name starts with `prefix`; of several the
/// longest wins.
struct PartitionRule {
  std::string prefix{};
  Partitioner partitioner{};
};
using PartitionRules = std::vector<PartitionRule>;

/// The rule of a variable; null for none, which is one part.
const Partitioner* find_rule(const PartitionRules& rules, std::string_view variable);

/// Those of the canned estimators on this many parameter servers: at least 64 MiB a part of
/// embedding tables and linear weights, 256 KiB of other layers of the network.
PartitionRules canned_partition_rules(std::int64_t parameter_servers);

}  // namespace muster
