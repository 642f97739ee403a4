#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "muster/saved_model/executor/arena_internal.h"
#include "muster/saved_model/executor/budget_internal.h"
#include "muster/saved_model/executor/fused_chain_internal.h"
#include "muster/saved_model/executor/fused_layer_internal.h"
#include "muster/saved_model/executor/slot_internal.h"
#include "muster/saved_model/graph/graph_def.h"

namespace muster::executor {

/// The numbers that values in an arena may have, by ArenaType.
struct ArenaNumber {
  graph::DataType data;
  at::ScalarType scalar;
};
inline constexpr std::array kArenaNumbers{ArenaNumber{graph::DataType::kFloat, at::kFloat},
                                          ArenaNumber{graph::DataType::kDouble, at::kDouble},
                                          ArenaNumber{graph::DataType::kInt32, at::kInt},
                                          ArenaNumber{graph::DataType::kInt64, at::kLong},
                                          ArenaNumber{graph::DataType::kBool, at::kBool}};
static_assert(kArenaNumbers.size() == static_cast<std::size_t>(ArenaType::kStrings));

/// Nothing for what is not among these numbers, strings too.
constexpr std::optional<ArenaType> arena_type(graph::DataType type) {
  for (std::size_t i = 0; i < kArenaNumbers.size(); ++i) {
    if (kArenaNumbers[i].data == type) return static_cast<ArenaType>(i);
  }
  return std::nullopt;
}
constexpr std::optional<ArenaType> arena_type(at::ScalarType type) {
  for (std::size_t i = 0; i < kArenaNumbers.size(); ++i) {
    if (kArenaNumbers[i].scalar == type) return static_cast<ArenaType>(i);
  }
  return std::nullopt;
}

constexpr graph::DataType data_type(ArenaType type) {
  if (type == ArenaType::kStrings) return graph::DataType::kString;
  return kArenaNumbers[static_cast<std::size_t>(type)].data;
}
/// The scalar type of a type of numbers.
constexpr at::ScalarType scalar_type(ArenaType type) {
  return kArenaNumbers[static_cast<std::size_t>(type)].scalar;
}

/// One step of a small run: its inputs, and the room for its outputs.
class ArenaCall {
 public:
  /// A number of an input: of a value, or of a constant counted from -1 downwards.
  using Number = std::int32_t;

  /// Owners of memory outside the arena, kept until the run ends.
  using Kept = std::vector<Slot>;

  ArenaCall(ArenaValue* values, const ArenaValue* constants, Arena& arena, Kept& kept,
            Budget& budget)
      : values_(values), constants_(constants), arena_(arena), kept_(kept), budget_(budget) {}
  void set(std::span<const Number> inputs, Number output) {
    inputs_ = inputs;
    output_ = output;
  }

  std::size_t size() const { return inputs_.size(); }
  const ArenaValue& in(std::size_t index) const { return at(inputs_[index]); }
  const ArenaValue& at(Number number) const {
    return number >= 0 ? values_[number] : constants_[-1 - number];
  }
  ArenaValue& out(std::size_t index = 0) {
    return values_[static_cast<std::size_t>(output_) + index];
  }
  Budget& budget() { return budget_; }
  void keep(Slot slot) { kept_.push_back(std::move(slot)); }

  /// Memory for this many elements, or null.
  template <typename T>
  T* take(std::int64_t count) {
    if (count > static_cast<std::int64_t>(Arena::kMostBytes)) return nullptr;
    return static_cast<T*>(arena_.take(static_cast<std::size_t>(count) * sizeof(T)));
  }

  /// Gives an output its shape and memory for its elements. Null where there is no room.
  void* make(ArenaType type, std::span<const std::int64_t> shape, std::size_t index = 0) {
    ArenaValue& made = out(index);
    if (!made.set_shape(shape)) return nullptr;
    void* const memory = arena_.take(static_cast<std::size_t>(made.count) * size_of(type));
    made.type = type;
    made.data = memory;
    return memory;
  }
  template <typename T>
  T* make(ArenaType type, std::span<const std::int64_t> shape, std::size_t index = 0) {
    return static_cast<T*>(make(type, shape, index));
  }

  /// The output is the first input in another shape of as many elements.
  bool pass_in_shape(std::span<const std::int64_t> shape) {
    const ArenaValue& from = in(0);
    ArenaValue& made = out();
    if (!made.set_shape(shape) || made.count != from.count) return false;
    made.type = from.type;
    made.data = from.data;
    return true;
  }

 private:
  ArenaValue* values_;
  const ArenaValue* constants_;
  Arena& arena_;
  Kept& kept_;
  Budget& budget_;
  std::span<const Number> inputs_{};
  Number output_ = 0;
};

/// Computes the outputs, with the bits of the operation's own kernel. False for anything unusual,
/// bad inputs among it: then that kernel is asked, and its errors are those that users see.
using ArenaKernel = std::function<bool(ArenaCall&)>;

/// A step of a plan, for which a kernel is wanted.
struct ArenaNode {
  std::string_view op{};
  /// With its attributes; null for a fused step.
  const graph::NodeDef* node = nullptr;
  const FusedLayer* layer = nullptr;
  const FusedChain* chain = nullptr;
  /// The inputs that are constants; null for others.
  std::vector<const Slot*> constants{};
  /// Whether the tables of the model have the content that they will have.
  bool tables_stay = false;
};

struct ArenaOp {
  /// Empty where there is none.
  ArenaKernel kernel{};
  std::size_t outputs = 1;
};

/// Whether such nodes may have a kernel of this kind.
bool may_be_in_arena(std::string_view op);
ArenaOp arena_op(const ArenaNode& node);

/// The families of operations.
struct ArenaEntry {
  std::string_view op;
  /// Inputs that the kernel reads without asking how many there are.
  std::size_t inputs;
  ArenaOp (*make)(const ArenaNode&);
};
using ArenaFactories = std::span<const ArenaEntry>;
namespace arena {

/// The sizes of a shape, or something else for each axis; those after the last mean nothing.
using Axes = std::array<std::int64_t, ArenaValue::kMostAxes>;

/// The whole numbers of a shape, one for each axis. False where there are too many.
inline bool read_shape(const ArenaValue& from, Axes& shape) {
  if (!from.is_whole_numbers() || from.rank > 1 ||
      from.count > static_cast<std::int64_t>(shape.size())) {
    return false;
  }
  for (std::int64_t i = 0; i < from.count; ++i) shape[static_cast<std::size_t>(i)] = from.whole(i);
  return true;
}

ArenaFactories array_ops();
ArenaFactories math_ops();
ArenaFactories gather_ops();
ArenaFactories column_ops();
ArenaFactories cross_ops();
ArenaFactories layer_ops();
ArenaFactories sparse_ops();
ArenaFactories choice_ops();
}  // namespace arena

}  // namespace muster::executor
