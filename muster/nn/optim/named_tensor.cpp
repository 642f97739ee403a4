#include "muster/nn/optim/named_tensor.h"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string_view>
#include <unordered_map>

#include "muster/base/error.h"

namespace muster {
namespace {

void check_fits(const NamedTensor& target, const at::Tensor& source) {
  if (target.tensor.sizes() != source.sizes()) {
    throw InvalidArgument("`{}` has shape [{}] here and [{}] in the saved state", target.name,
                          fmt::join(target.tensor.sizes(), ", "), fmt::join(source.sizes(), ", "));
  }
  if (target.tensor.scalar_type() != source.scalar_type()) {
    throw InvalidArgument("`{}` is {} here and {} in the saved state", target.name,
                          c10::toString(target.tensor.scalar_type()),
                          c10::toString(source.scalar_type()));
  }
}

}  // namespace

void restore(std::span<const NamedTensor> targets, std::span<const NamedTensor> sources) {
  std::unordered_map<std::string_view, const at::Tensor*> by_name;
  for (const NamedTensor& source : sources) by_name.emplace(source.name, &source.tensor);
  std::vector<const at::Tensor*> found;
  std::vector<std::string_view> missing;
  for (const NamedTensor& target : targets) {
    const auto entry = by_name.find(target.name);
    if (entry == by_name.end()) {
      missing.push_back(target.name);
      continue;
    }
    check_fits(target, *entry->second);
    found.push_back(entry->second);
  }
  if (!missing.empty()) {
    throw NotFound("the saved state has no `{}`: is it of another model or optimizer?",
                   fmt::join(missing, "`, `"));
  }
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < targets.size(); ++i) targets[i].tensor.copy_(*found[i]);
}

}  // namespace muster
