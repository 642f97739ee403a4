#include "muster/train/engine/tensor_codec.h"

#include <ATen/Functions.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "muster/base/error.h"

namespace muster {
namespace {

constexpr std::pair<at::ScalarType, DataType> kTypes[] = {
    {at::kFloat, DataType::kFloat}, {at::kDouble, DataType::kDouble},
    {at::kLong, DataType::kInt64},  {at::kInt, DataType::kInt32},
    {at::kShort, DataType::kInt16}, {at::kChar, DataType::kInt8},
    {at::kByte, DataType::kUint8},  {at::kBool, DataType::kBool},
    {at::kHalf, DataType::kHalf},   {at::kBFloat16, DataType::kBfloat16},
};

DataType type_of(const NamedTensor& named) {
  for (const auto& [ours, theirs] : kTypes) {
    if (ours == named.tensor.scalar_type()) return theirs;
  }
  throw InvalidArgument("the variable {} has a type that checkpoints lack: {}", named.name,
                        c10::toString(named.tensor.scalar_type()));
}

at::ScalarType type_of(const std::string& name, DataType type) {
  for (const auto& [ours, theirs] : kTypes) {
    if (theirs == type) return ours;
  }
  throw InvalidArgument("the tensor {} of the checkpoint has a type that libtorch lacks: {}", name,
                        numpy_name(type));
}

}  // namespace

CheckpointLayouts::CheckpointLayouts(std::span<const ModuleVariable> variables) {
  for (const auto& variable : variables) by_name_.emplace(variable.name, variable.layout);
}

VariableLayout CheckpointLayouts::of(const std::string& name) const {
  for (std::string_view path = name;; path = path.substr(0, path.rfind('/'))) {
    const auto found = by_name_.find(path);
    if (found != by_name_.end()) return found->second;
    if (path.find('/') == std::string_view::npos) return VariableLayout::kAsIs;
  }
}

EncodedTensors encode(std::vector<NamedTensor> tensors, const CheckpointLayouts& layouts) {
  EncodedTensors encoded;
  encoded.holders = std::move(tensors);
  for (auto& holder : encoded.holders) {
    const VariableLayout layout = layouts.of(holder.name);
    holder.tensor = to_checkpoint_layout(holder.tensor.detach().cpu(), layout);
    const auto* data = static_cast<const std::byte*>(holder.tensor.data_ptr());
    encoded.views.push_back({.name = holder.name,
                             .type = type_of(holder),
                             .shape = holder.tensor.sizes().vec(),
                             .bytes = {data, static_cast<std::size_t>(holder.tensor.nbytes())}});
  }
  return encoded;
}

EncodedTensors encode_parts(std::span<const TensorPart> parts, const CheckpointLayouts& layouts) {
  std::vector<NamedTensor> pieces;
  std::vector<const TensorPart*> places;
  for (const TensorPart& part : parts) {
    if (part.empty()) continue;
    pieces.push_back({part.name, part.rows()});
    places.push_back(&part);
  }
  EncodedTensors encoded = encode(std::move(pieces), layouts);
  for (std::size_t i = 0; i < places.size(); ++i) {
    const TensorPart& part = *places[i];
    if (part.is_whole()) continue;
    const VariableLayout layout = layouts.of(part.name);
    encoded.views[i].slice = {checkpoint_shape(part.shape, layout),
                              checkpoint_shape(part.start(), layout)};
  }
  return encoded;
}

at::Tensor decode(const BundleReader& bundle, const std::string& name, VariableLayout layout) {
  const TensorData data = bundle.read(name);
  // A copy: mapped bytes are read-only and may not be aligned.
  const at::Tensor tensor = at::empty(data.spec.shape, type_of(name, data.spec.type));
  if (!data.bytes.empty()) std::memcpy(tensor.data_ptr(), data.bytes.data(), data.bytes.size());
  return from_checkpoint_layout(tensor, layout);
}

namespace {

constexpr std::size_t kNamesShown = 3;

// Variables before their slots: what an optimizer keeps of a variable is missing with it.
std::vector<std::string_view> variables_first(std::vector<std::string_view> names) {
  const std::set<std::string_view> all(names.begin(), names.end());
  const auto is_variable = [&](std::string_view name) {
    for (auto slash = name.rfind('/'); slash != name.npos; slash = name.rfind('/')) {
      name = name.substr(0, slash);
      if (all.contains(name)) return false;
    }
    return true;
  };
  std::stable_partition(names.begin(), names.end(), is_variable);
  return names;
}

// In one line, however many there are.
[[noreturn]] void throw_missing(const std::vector<std::string_view>& missing, std::size_t all,
                                const BundleReader& bundle) {
  const auto names = variables_first(missing);
  const std::size_t shown = std::min(names.size(), kNamesShown);
  const std::string more =
      shown < names.size() ? fmt::format(" and {} more", names.size() - shown) : "";
  throw NotFound(
      "the checkpoint {} has no {}{}, of the {} tensors that this model and its optimizer keep: it "
      "is of another model or optimizer; use another model_dir, or warm-start the variables that "
      "fit",
      bundle.prefix().string(),
      fmt::join(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(shown), ", "), more,
      all);
}

}  // namespace

void restore_from(const BundleReader& bundle, std::span<const NamedTensor> targets,
                  const CheckpointLayouts& layouts) {
  std::vector<NamedTensor> sources;
  std::vector<std::string_view> missing;
  for (const auto& target : targets) {
    if (!bundle.contains(target.name)) {
      missing.push_back(target.name);
      continue;
    }
    const VariableLayout layout = layouts.of(target.name);
    const auto found = bundle.spec(target.name).shape;
    const auto wanted = checkpoint_shape(target.tensor.sizes(), layout);
    if (found != wanted) {
      throw InvalidArgument(
          "the variable {} has the shape {} in the checkpoint {}, but {} in the model; use another "
          "model_dir, or warm-start the variables that fit",
          target.name, shape_text(found), bundle.prefix().string(), shape_text(wanted));
    }
    sources.push_back({target.name, decode(bundle, target.name, layout)});
  }
  if (!missing.empty()) throw_missing(missing, targets.size(), bundle);
  try {
    restore(targets, sources);
  } catch (Error& error) {
    error.add_context(fmt::format("restoring {}", bundle.prefix().string()));
    throw;
  }
}

}  // namespace muster
