#include "muster/train/compiler/operations.h"

#include <algorithm>
#include <array>

#include "muster/base/error.h"
#include "muster/train/compiler/torch_dispatch.h"

namespace muster::compiler {
namespace {

// Operations that return values that the host decides by.
constexpr std::array kReadByHost{std::string_view("aten::_local_scalar_dense"),
                                 std::string_view("aten::equal"),
                                 std::string_view("aten::is_nonzero"),
                                 std::string_view("aten::nonzero"),
                                 std::string_view("aten::masked_select"),
                                 std::string_view("aten::_unique2"),
                                 std::string_view("aten::unique_dim"),
                                 std::string_view("aten::unique_consecutive"),
                                 std::string_view("aten::item"),
                                 std::string_view("aten::allclose")};

constexpr std::array kOtherMemory{std::string_view("aten::set_"), std::string_view("aten::resize_"),
                                  std::string_view("aten::resize_as_"),
                                  std::string_view("aten::set_data")};

bool contains(const auto& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

// A probability of 0 draws nothing, but a generator may still advance.
bool has_dropout(const c10::Argument& argument, const c10::IValue& given) {
  return argument.name().find("dropout") != std::string::npos && given.isDouble() &&
         given.toDouble() != 0;
}

}  // namespace

std::string_view name_of(const c10::OperatorHandle& operation) {
  return operation.schema().operator_name().name;
}

std::optional<c10::OperatorHandle> find_if_there(const std::string& name,
                                                 const std::string& overload) {
  const auto found = c10::Dispatcher::singleton().findSchema({name, overload});
  return found ? std::optional(*found) : std::nullopt;
}

c10::OperatorHandle find_operation(const char* name, const char* overload) {
  const auto found = find_if_there(name, overload);
  if (!found) throw Internal("libtorch has no operation {}.{}", name, overload);
  return *found;
}

bool changes_layout(const c10::OperatorHandle& operation) {
  return operation.hasTag(at::Tag::inplace_view);
}

bool changes_argument(const c10::OperatorHandle& operation, std::size_t place) {
  if (changes_layout(operation)) return false;
  const c10::Argument& argument = operation.schema().arguments()[place];
  if (argument.alias_info() != nullptr && argument.alias_info()->isWrite()) return true;
  // That of libtorch 2 leaves what it computes in the workspace that its forward made.
  if (name_of(operation) == "aten::mkldnn_rnn_layer_backward" && argument.name() == "workspace") {
    return true;
  }
  const bool is_forward = !name_of(operation).ends_with("_backward");
  return is_forward && argument.alias_info() == nullptr &&
         (argument.name() == "running_mean" || argument.name() == "running_var");
}

bool draws_random_numbers(const c10::OperatorHandle& operation,
                          c10::ArrayRef<c10::IValue> arguments) {
  if (operation.hasTag(at::Tag::nondeterministic_seeded)) return true;
  const auto& declared = operation.schema().arguments();
  for (std::size_t i = 0; i < declared.size(); ++i) {
    if (declared[i].name() == "generator" || has_dropout(declared[i], arguments[i])) return true;
  }
  return false;
}

bool leaves_uninitialised(const c10::OperatorHandle& operation) {
  const std::string_view name = name_of(operation);
  return name.starts_with("aten::empty") || name.starts_with("aten::new_empty");
}

std::optional<std::string> obstacle_of(const c10::OperatorHandle& operation) {
  const std::string_view name = name_of(operation);
  if (contains(kReadByHost, name)) return std::string(name) + " gives a value to the host";
  if (contains(kOtherMemory, name)) return std::string(name) + " gives a tensor other memory";
  return std::nullopt;
}

bool is_number(const at::Tensor& tensor) {
  return tensor.defined() && tensor.dim() == 0 && tensor.is_cpu() &&
         tensor.unsafeGetTensorImpl()->is_wrapped_number();
}

}  // namespace muster::compiler
