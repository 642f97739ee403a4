#include "muster/serving/codec/signature_choice.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "muster/base/error.h"

namespace muster::serving {
namespace {

constexpr std::string_view kInternalPrefix = "__saved_model";

}  // namespace

std::string choose_signature(const graph::MetaGraph& meta, std::string_view name) {
  std::vector<std::string> there;
  for (const auto& row : meta.signatures) {
    if (!row.first.starts_with(kInternalPrefix)) there.push_back(row.first);
  }
  if (name.empty() && there.size() == 1) return there[0];
  const std::string wanted(name.empty() ? graph::kDefaultSignature : name);
  if (std::ranges::find(there, wanted) != there.end()) return wanted;
  throw NotFound("No signature found for signature key {}. The model has: {}", wanted,
                 fmt::join(there, ", "));
}

}  // namespace muster::serving
