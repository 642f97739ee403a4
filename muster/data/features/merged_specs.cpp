#include <fmt/ranges.h>

#include <algorithm>

#include "muster/base/error.h"
#include "muster/data/features/merged_specs_internal.h"

namespace muster::internal {
namespace {

bool same_spec(const FeatureSpec& left, const FeatureSpec& right) {
  if (left.index() != right.index()) return false;
  if (const auto* fixed = std::get_if<FixedLen>(&left)) {
    const auto& other = std::get<FixedLen>(right);
    return fixed->kind == other.kind && fixed->shape == other.shape &&
           fixed->default_value == other.default_value;
  }
  return std::get<VarLen>(left).kind == std::get<VarLen>(right).kind;
}

std::string describe_spec(const FeatureSpec& spec) {
  if (const auto* fixed = std::get_if<FixedLen>(&spec)) {
    return fmt::format("{} of the fixed shape [{}] {}", name_of(fixed->kind),
                       fmt::join(fixed->shape, ", "),
                       fixed->default_value ? "with a default" : "without a default");
  }
  return fmt::format("{} of any number", name_of(std::get<VarLen>(spec).kind));
}

}  // namespace

void MergedSpecs::add(const FeatureSpecs& specs, const std::string& column) {
  for (const auto& [key, spec] : specs) {
    const auto known = std::ranges::find_if(
        specs_, [&key = key](const auto& other) { return other.first == key; });
    if (known == specs_.end()) {
      specs_.emplace_back(key, spec);
      columns_.push_back(column);
    } else if (!same_spec(known->second, spec)) {
      throw InvalidArgument(
          "the columns \"{}\" and \"{}\" disagree about the feature \"{}\": {} or {}",
          columns_[static_cast<std::size_t>(known - specs_.begin())], column, key,
          describe_spec(known->second), describe_spec(spec));
    }
  }
}

}  // namespace muster::internal
