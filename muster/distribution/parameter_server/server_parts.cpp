#include "muster/distribution/parameter_server/server_parts_internal.h"

#include <utility>

namespace muster::internal {
namespace {

// How many servers hold some of each variable.
std::vector<std::size_t> holders(const PsLayout& layout, const Variables& variables) {
  std::vector<std::size_t> parts(variables.all().size(), 0);
  for (std::size_t server = 0; server < layout.servers(); ++server) {
    for (const VariablePart& part : layout.parts(server)) ++parts[part.variable];
  }
  return parts;
}

}  // namespace

ServerParts::ServerParts(const PsLayout& layout, const Variables& variables, const Updater& updater)
    : layout_(layout), variables_(variables) {
  const auto parts = holders(layout, variables);
  for (std::size_t v = 0; v < parts.size(); ++v) {
    const Variable& variable = variables.all()[v];
    // Pieces of others than tables need not be rectangles, as checkpoints have them.
    if (parts[v] == 0 || (variable.dense() && parts[v] > 1)) continue;
    for (const NamedTensor& named : with_slots(variable, updater)) {
      names_.insert(named.name);
      bytes_ += static_cast<std::uint64_t>(named.tensor.nbytes());
    }
  }
}

std::vector<NamedTensor> ServerParts::with_slots(const Variable& variable,
                                                 const Updater& updater) const {
  std::vector<NamedTensor> tensors{{variable.spec.name, variable.value}};
  for (const NamedTensor& slot : updater.tensors()) {
    if (variables_.owner_of_slot(slot.name) == &variable) tensors.push_back(slot);
  }
  return tensors;
}

EncodedTensors ServerParts::tensors(std::size_t server, const Updater& updater,
                                    const CheckpointLayouts& layouts) const {
  std::vector<NamedTensor> pieces;
  std::vector<std::optional<TensorSlice>> slices;
  for (const VariablePart& part : layout_.parts(server)) {
    const Variable& variable = variables_.all()[part.variable];
    if (!has(variable.spec.name)) continue;
    for (const NamedTensor& named : with_slots(variable, updater)) {
      const bool is_cut = variable.sparse() && part.last - part.first < variable.value.size(0);
      pieces.push_back({named.name, is_cut ? part.of(named.tensor, variable) : named.tensor});
      slices.emplace_back();
      if (!is_cut) continue;
      slices.back() = {named.tensor.sizes().vec(),
                       std::vector<std::int64_t>(static_cast<std::size_t>(named.tensor.dim()), 0)};
      slices.back()->start.front() = part.first;
    }
  }
  EncodedTensors encoded = encode(std::move(pieces), layouts);
  for (std::size_t i = 0; i < slices.size(); ++i) encoded.views[i].slice = std::move(slices[i]);
  return encoded;
}

}  // namespace muster::internal
