#include "muster/saved_model/executor/arena_bridge_internal.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "muster/saved_model/executor/small_tensor_ops_internal.h"

namespace muster::executor {
namespace {

constexpr std::array<std::string_view, 43> kBridged{"Abs",
                                                    "All",
                                                    "Any",
                                                    "ArgMax",
                                                    "ArgMin",
                                                    "AsString",
                                                    "BiasAdd",
                                                    "Cumsum",
                                                    "DecodeCSV",
                                                    "Div",
                                                    "DivNoNan",
                                                    "Elu",
                                                    "FloorDiv",
                                                    "FloorMod",
                                                    "LeakyRelu",
                                                    "Log1p",
                                                    "LogSoftmax",
                                                    "LogicalNot",
                                                    "Max",
                                                    "Maximum",
                                                    "Mean",
                                                    "Min",
                                                    "Minimum",
                                                    "Mod",
                                                    "Neg",
                                                    "ParseExample",
                                                    "ParseExampleV2",
                                                    "Pow",
                                                    "Range",
                                                    "RealDiv",
                                                    "RegexFullMatch",
                                                    "RegexReplace",
                                                    "Rsqrt",
                                                    "Selu",
                                                    "Size",
                                                    "Softplus",
                                                    "Sqrt",
                                                    "Square",
                                                    "StringStrip",
                                                    "StringToNumber",
                                                    "Sum",
                                                    "TruncateDiv",
                                                    "TruncateMod"};

Slot slot_of(const ArenaValue& value) {
  const auto shape = value.shape();
  if (value.type == ArenaType::kStrings) {
    const auto* const words = value.as<std::string_view>();
    return StringTensor({words, words + value.count}, {shape.begin(), shape.end()});
  }
  at::Tensor made =
      empty_on_host(at::IntArrayRef(shape.data(), shape.size()), scalar_type(value.type));
  if (value.count > 0) std::memcpy(made.data_ptr(), value.data, made.nbytes());
  return made;
}

/// Makes what a kernel gave an output of the step, which keeps it.
bool set_output(ArenaCall& call, std::size_t index, Slot slot) {
  ArenaValue& to = call.out(index);
  if (auto* tensor = std::get_if<at::Tensor>(&slot)) {
    if (!tensor->defined() || !tensor->is_cpu() || tensor->nbytes() > Arena::kMostBytes) {
      return false;
    }
    *tensor = tensor->contiguous();
    if (!set_tensor(*tensor, to)) return false;
  } else if (const auto* strings = std::get_if<StringTensor>(&slot)) {
    const auto& values = strings->values();
    if (!to.set_shape(strings->shape())) return false;
    auto* const words = call.take<std::string_view>(to.count);
    if (words == nullptr) return false;
    std::uninitialized_copy(values.begin(), values.end(), words);
    to.type = ArenaType::kStrings;
    to.data = words;
  } else {
    return false;
  }
  call.keep(std::move(slot));
  return true;
}

}  // namespace

bool may_be_bridged(std::string_view op) {
  return std::ranges::find(kBridged, op) != kBridged.end();
}

bool set_tensor(const at::Tensor& tensor, ArenaValue& to) {
  const auto type = arena_type(tensor.scalar_type());
  if (!type || !tensor.is_contiguous() ||
      tensor.dim() > static_cast<std::int64_t>(ArenaValue::kMostAxes)) {
    return false;
  }
  to.data = tensor.data_ptr();
  to.count = tensor.numel();
  to.type = *type;
  to.rank = static_cast<std::uint8_t>(tensor.dim());
  std::ranges::copy(tensor.sizes(), to.sizes.begin());
  return true;
}

ArenaKernel arena_bridge(Kernel kernel, std::vector<std::shared_ptr<const Slot>> constants,
                         std::size_t outputs) {
  return [kernel = std::move(kernel), constants = std::move(constants), outputs](ArenaCall& call) {
    Slots inputs;
    for (std::size_t i = 0; i < call.size(); ++i) {
      inputs.push_back(constants[i] != nullptr ? *constants[i] : slot_of(call.in(i)));
    }
    Slots made = kernel(Inputs(inputs, at::kCPU, call.budget()));
    if (made.size() < outputs) return false;
    for (std::size_t i = 0; i < outputs; ++i) {
      if (!set_output(call, i, std::move(made[i]))) return false;
    }
    return true;
  };
}

}  // namespace muster::executor
