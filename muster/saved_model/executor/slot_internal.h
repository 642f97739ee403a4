#pragma once

#include <c10/util/SmallVector.h>

#include <cstddef>
#include <memory>
#include <span>
#include <variant>
#include <vector>

#include "muster/saved_model/executor/resource_internal.h"
#include "muster/saved_model/executor/tensor_list_internal.h"
#include "muster/saved_model/executor/value.h"

namespace muster::executor {

/// An output that was not computed, because the branch of a conditional that makes it was not
/// taken. What needs it is not computed either, except for Merge.
struct Dead {};

/// Content of an edge of a graph: nothing (an output that no step computes), a value, a variable, a
/// table, a list of tensors, or the sign that the value is dead.
using Slot = std::variant<std::monostate, at::Tensor, StringTensor, std::shared_ptr<Variable>,
                          std::shared_ptr<Table>, TensorList, Dead>;
/// Most steps give one.
using Slots = c10::SmallVector<Slot, 1>;

/// Slots that are beside each other or anywhere. Borrows them.
class SlotRefs {
 public:
  SlotRefs() = default;
  SlotRefs(std::span<const Slot> slots)  // NOLINT(google-explicit-constructor): a view
      : beside_(slots.data()), size_(slots.size()) {}
  SlotRefs(const Slots& slots)  // NOLINT(google-explicit-constructor): a view
      : beside_(slots.data()), size_(slots.size()) {}
  explicit SlotRefs(std::span<const Slot* const> anywhere)
      : anywhere_(anywhere.data()), size_(anywhere.size()) {}

  std::size_t size() const { return size_; }
  const Slot& operator[](std::size_t index) const {
    return anywhere_ != nullptr ? *anywhere_[index] : beside_[index];
  }

 private:
  const Slot* beside_ = nullptr;
  const Slot* const* anywhere_ = nullptr;
  std::size_t size_ = 0;
};

Slot to_slot(Value value);

/// The bytes that strings take, with the objects that hold them.
std::int64_t bytes_of(const std::vector<std::string>& strings);

enum class Variables { kSkip, kAsTheirValues };

template <typename See>
void each_memory(const at::Tensor& tensor, const See& see) {
  if (!tensor.defined()) return;
  const auto* storage = tensor.storage().unsafeGetStorageImpl();
  if (storage == nullptr) return;
  see(storage, [storage] { return static_cast<std::int64_t>(storage->nbytes()); });
}

template <typename See>
void each_memory(const StringTensor& tensor, const See& see) {
  const auto& strings = tensor.values();
  see(&strings, [&strings] { return bytes_of(strings); });
}

template <typename See>
void each_memory(const Value& value, const See& see) {
  std::visit([&](const auto& held) { each_memory(held, see); }, value);
}

/// Calls see(address, bytes_of) for each piece of memory that a slot keeps: those of two slots that
/// share it have the same address. bytes_of() computes its size.
template <typename See>
void each_memory(const Slot& slot, Variables variables, const See& see) {
  if (const auto* tensor = std::get_if<at::Tensor>(&slot)) {
    each_memory(*tensor, see);
  } else if (const auto* strings = std::get_if<StringTensor>(&slot)) {
    each_memory(*strings, see);
  } else if (const auto* list = std::get_if<TensorList>(&slot)) {
    const auto& items = list->items();
    see(&items, [&items] {
      return static_cast<std::int64_t>(items.size() * sizeof(std::optional<Value>));
    });
    for (const auto& item : items) {
      if (item) each_memory(*item, see);
    }
  } else if (const auto* variable = std::get_if<std::shared_ptr<Variable>>(&slot)) {
    if (variables == Variables::kSkip || !(*variable)->has_value()) return;
    each_memory((*variable)->read(), see);
  }
}

}  // namespace muster::executor
