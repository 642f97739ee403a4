#include "muster/train/compiler/graph.h"

#include <ATen/core/ivalue.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <sstream>
#include <utility>

#include "muster/train/compiler/kernel.h"

namespace muster::compiler {
namespace {

std::vector<std::int64_t> contiguous_strides(const std::vector<std::int64_t>& sizes) {
  std::vector<std::int64_t> strides(sizes.size());
  std::int64_t next = 1;
  for (std::size_t i = sizes.size(); i-- > 0;) {
    strides[i] = next;
    next *= std::max<std::int64_t>(sizes[i], 1);
  }
  return strides;
}

std::string short_name(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return "f32";
    case at::kDouble:
      return "f64";
    case at::kHalf:
      return "f16";
    case at::kBFloat16:
      return "bf16";
    case at::kLong:
      return "i64";
    case at::kInt:
      return "i32";
    case at::kByte:
      return "u8";
    case at::kBool:
      return "bool";
    default:
      return c10::toString(type);
  }
}

std::string text_of(const c10::IValue& constant) {
  std::ostringstream text;
  if (constant.isTensor()) {
    const at::Scalar number = constant.toTensor().item();
    text << "number "
         << (number.isFloatingPoint() ? fmt::format("{}", number.toDouble())
                                      : fmt::format("{}", number.toLong()));
  } else {
    text << constant;
  }
  return text.str();
}

std::string text_of(const std::vector<std::optional<ValueId>>& tensors) {
  std::vector<std::string> names;
  for (const auto& tensor : tensors) {
    names.push_back(tensor ? fmt::format("%{}", *tensor) : "undefined");
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string text_of(const Argument& argument) {
  switch (argument.kind) {
    case Argument::Kind::kConstant:
      return text_of(argument.constant);
    case Argument::Kind::kTensor:
      return text_of(argument.tensors);
    case Argument::Kind::kTensorList:
      return fmt::format("[{}]", text_of(argument.tensors));
  }
  return {};
}

std::string text_of_place(const Graph& graph, ValueId value) {
  const StorageId storage = graph.storage_of(value);
  const char* const kinds[] = {"s", "input ", "external "};
  const auto kind = static_cast<std::size_t>(graph.storage(storage).kind);
  const std::int64_t offset = graph.geometry(value).offset;
  return fmt::format("{}{}{}", kinds[kind], storage, offset == 0 ? "" : fmt::format("+{}", offset));
}

std::string text_of(const Graph& graph, const Node& node) {
  std::vector<std::string> results;
  for (const Result& result : node.results) {
    if (!result.value) continue;
    results.push_back(fmt::format("%{}: {} in {}", *result.value,
                                  describe(graph.geometry(*result.value)),
                                  text_of_place(graph, *result.value)));
  }
  std::vector<std::string> arguments;
  for (const Argument& argument : node.arguments) arguments.push_back(text_of(argument));
  std::string line = fmt::format(
      "{} = {}({})", results.empty() ? "_" : fmt::format("{}", fmt::join(results, ", ")),
      node.name(), fmt::join(arguments, ", "));
  for (const ValueId written : node.writes) {
    line += fmt::format(" changes %{}: {} in {}", written, describe(graph.geometry(written)),
                        text_of_place(graph, written));
  }
  if (node.random) line += " random";
  return line;
}

std::vector<std::string> lines_of(const Graph& graph) {
  std::vector<std::string> lines;
  for (const Node& node : graph.nodes) lines.push_back(text_of(graph, node));
  lines.push_back(fmt::format("return {}", text_of(graph.outputs)));
  return lines;
}

}  // namespace

std::int64_t Geometry::elements() const {
  std::int64_t count = 1;
  for (const std::int64_t size : sizes) count *= size;
  return count;
}

std::size_t Geometry::bytes() const {
  return static_cast<std::size_t>(elements()) * c10::elementSize(type);
}

bool Geometry::is_dense() const {
  std::vector<std::pair<std::int64_t, std::int64_t>> dimensions;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] != 1) dimensions.emplace_back(strides[i], sizes[i]);
  }
  std::ranges::sort(dimensions);
  std::int64_t next = 1;
  for (const auto& [stride, size] : dimensions) {
    if (stride != next) return false;
    next *= size;
  }
  return true;
}

bool Geometry::is_contiguous() const {
  const auto wanted = contiguous_strides(sizes);
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] != 1 && strides[i] != wanted[i]) return false;
  }
  return true;
}

bool is_short_float(at::ScalarType type) { return type == at::kBFloat16 || type == at::kHalf; }

Geometry geometry_of(const at::Tensor& tensor) {
  return {.type = tensor.scalar_type(),
          .device = tensor.device(),
          .sizes = tensor.sizes().vec(),
          .strides = tensor.strides().vec(),
          .offset = tensor.storage_offset()};
}

Geometry contiguous_geometry(at::ScalarType type, c10::Device device,
                             std::vector<std::int64_t> sizes) {
  auto strides = contiguous_strides(sizes);
  return {.type = type, .device = device, .sizes = std::move(sizes), .strides = std::move(strides)};
}

std::string Node::name() const {
  if (kernel) return kernel->name();
  const auto& name = operation->schema().operator_name();
  return name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
}

StorageId Graph::add_storage(Storage::Kind kind) {
  storages.push_back({.kind = kind});
  return static_cast<StorageId>(storages.size() - 1);
}

ValueId Graph::value(StorageId storage, const Geometry& geometry) {
  for (std::size_t i = values.size(); i-- > 0;) {
    if (values[i].storage == storage && values[i].geometry == geometry) {
      return static_cast<ValueId>(i);
    }
  }
  values.push_back({.storage = storage, .geometry = geometry});
  return static_cast<ValueId>(values.size() - 1);
}

ValueId Graph::new_value(const Geometry& geometry) {
  values.push_back({.storage = add_storage(Storage::Kind::kComputed), .geometry = geometry});
  return static_cast<ValueId>(values.size() - 1);
}

std::vector<ValueId> values_read(const Node& node) {
  std::vector<ValueId> read;
  for (const Argument& argument : node.arguments) {
    for (const auto& tensor : argument.tensors) {
      if (tensor) read.push_back(*tensor);
    }
  }
  return read;
}

std::vector<ValueId> values_made(const Node& node) {
  std::vector<ValueId> made;
  for (const Result& result : node.results) {
    if (result.value) made.push_back(*result.value);
  }
  return made;
}

std::string describe(const Geometry& geometry) {
  std::string text =
      fmt::format("{}[{}]", short_name(geometry.type), fmt::join(geometry.sizes, ", "));
  if (!geometry.is_contiguous()) text += fmt::format("/[{}]", fmt::join(geometry.strides, ", "));
  return text;
}

std::string to_text(const Graph& graph) {
  return fmt::format("{}\n", fmt::join(lines_of(graph), "\n"));
}

std::optional<std::string> first_difference(const Graph& left, const Graph& right) {
  const auto one = lines_of(left);
  const auto other = lines_of(right);
  const auto [a, b] = std::ranges::mismatch(one, other);
  if (a == one.end() && b == other.end()) return std::nullopt;
  return fmt::format("\"{}\", then \"{}\"", a == one.end() ? "nothing" : *a,
                     b == other.end() ? "nothing" : *b);
}

}  // namespace muster::compiler
