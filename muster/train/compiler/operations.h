#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <optional>
#include <string>
#include <string_view>

/// Properties of single ATen operations that the compiler knows beyond their schemas.
namespace muster::compiler {

/// "aten::add" of "aten::add.Tensor".
std::string_view name_of(const c10::OperatorHandle& operation);

/// The operation of this name; throws Internal where libtorch has none.
c10::OperatorHandle find_operation(const char* name, const char* overload);
std::optional<c10::OperatorHandle> find_if_there(const std::string& name,
                                                 const std::string& overload);

/// Whether it changes how a tensor is in its memory, and not the memory: "transpose_".
bool changes_layout(const c10::OperatorHandle& operation);

/// Whether an operation changes this argument: by its schema, or as batch norms change their
/// running statistics, which libtorch's schemas do not say.
bool changes_argument(const c10::OperatorHandle& operation, std::size_t place);

/// Whether it draws from libtorch's generators.
bool draws_random_numbers(const c10::OperatorHandle& operation,
                          c10::ArrayRef<c10::IValue> arguments);

/// Whether its result is memory that nothing has written.
bool leaves_uninitialised(const c10::OperatorHandle& operation);

/// Why a step with this operation cannot be a graph, or nothing.
std::optional<std::string> obstacle_of(const c10::OperatorHandle& operation);

/// Whether libtorch made this tensor of a number: "2 * x".
bool is_number(const at::Tensor& tensor);

}  // namespace muster::compiler
