#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "muster/base/file_system.h"
#include "muster/saved_model/executor/budget_internal.h"
#include "muster/saved_model/executor/resource_internal.h"
#include "muster/saved_model/executor/slot_internal.h"
#include "muster/saved_model/graph/graph_def.h"

namespace muster::executor {

/// The inputs of one node at one run. Errors name the input by number; the caller that runs the
/// node adds its name.
class Inputs {
 public:
  Inputs(const SlotRefs& slots, at::Device device, Budget& budget)
      : slots_(slots), device_(device), budget_(budget) {}

  std::size_t size() const { return slots_.size(); }
  const SlotRefs& slots() const { return slots_; }
  at::Device device() const { return device_; }
  Budget& budget() const { return budget_; }

  /// To be called before a value of these sizes is made that is larger than the inputs. Throws
  /// InvalidArgument for a negative size, ResourceExhausted where there is no room for it.
  void check_room(std::span<const std::int64_t> sizes, at::ScalarType type) const;
  void check_room(std::span<const std::int64_t> sizes, const at::Tensor& like) const {
    check_room(sizes, like.scalar_type());
  }
  /// The same for as many elements of this many bytes each.
  void check_room(std::int64_t count, std::int64_t bytes_each) const;

  const Slot& slot(std::size_t index) const;
  /// The value of an input; a variable stands for what it holds.
  Value value(std::size_t index) const;
  bool is_strings(std::size_t index) const;
  /// A tensor where this node computes: on the CPU where all inputs are small whole numbers there,
  /// else on the model's device.
  at::Tensor tensor(std::size_t index) const;
  /// A tensor of this type. Throws InvalidArgument.
  at::Tensor tensor(std::size_t index, at::ScalarType type) const;
  /// A tensor in the memory of the host, contiguous.
  at::Tensor host_tensor(std::size_t index) const;
  StringTensor strings(std::size_t index) const;
  /// A string tensor with one element.
  std::string string(std::size_t index) const;
  /// The whole numbers of an input, such as a shape.
  std::vector<std::int64_t> ints(std::size_t index) const;
  /// The same where there are mostly a few of them.
  c10::SmallVector<std::int64_t, 8> few_ints(std::size_t index) const;
  /// An input of exactly one whole number.
  std::int64_t integer(std::size_t index) const;
  const std::shared_ptr<Variable>& variable(std::size_t index) const;
  const std::shared_ptr<Table>& table(std::size_t index) const;
  const TensorList& list(std::size_t index) const;

 private:
  at::Device place() const;
  template <typename Ints>
  Ints whole(std::size_t index) const;

  SlotRefs slots_;
  at::Device device_;
  Budget& budget_;
};

/// The value in a slot; a variable stands for what it holds. `index` is for the message of an
/// error.
Value value_of(const Slot& slot, std::size_t index);

/// Computes the outputs of one node. May be called from several threads at once.
using Kernel = std::function<Slots(const Inputs&)>;

/// A function of the library, ready to be called.
using Function = std::function<Slots(Slots arguments, Budget& budget)>;

/// Arguments of a kernel's factory, which runs once for each node when a model is loaded.
struct KernelContext {
  const graph::NodeDef& node;
  at::Device device;
  Resources& resources;
  /// The only bundle that RestoreV2 may read, and the only folder of files for tables.
  Path variables_prefix{};
  Path assets_dir{};
  /// Makes a function of the library callable.
  std::function<Function(const std::string& name)> function{};
};

/// Checks the node's attributes and makes its kernel. Throws InvalidArgument or Unimplemented.
using KernelFactory = std::function<Kernel(const KernelContext&)>;

/// Where an output argument of a node begins among its outputs.
using OutputOffset = std::function<int(const graph::NodeDef& node, std::string_view argument)>;

struct Op {
  KernelFactory make;
  /// The names of the output arguments where there are several of one value each.
  std::vector<std::string> outputs{};
  /// For arguments that are runs of values.
  OutputOffset offset{};
};

/// The operations that can be run, by name.
class OpTable {
 public:
  /// Every operation there is.
  static const OpTable& standard();

  /// Throws AlreadyExists.
  void add(std::string name, Op op);
  void add(std::string name, KernelFactory make) { add(std::move(name), Op{std::move(make)}); }
  /// A kernel that needs no attributes.
  void add_plain(std::string name, Kernel kernel);

  const Op* find(std::string_view name) const;
  std::vector<std::string> names() const;

 private:
  std::map<std::string, Op, std::less<>> ops_;
};

/// The families of operations; each adds its own.
void add_array_ops(OpTable& table);
void add_slice_ops(OpTable& table);
void add_math_ops(OpTable& table);
void add_reduction_ops(OpTable& table);
void add_nn_ops(OpTable& table);
void add_volume_ops(OpTable& table);
void add_state_ops(OpTable& table);
void add_string_ops(OpTable& table);
void add_sparse_ops(OpTable& table);
void add_parsing_ops(OpTable& table);
void add_control_flow_ops(OpTable& table);
void add_tensor_list_ops(OpTable& table);
void add_dynamic_ops(OpTable& table);
void add_block_ops(OpTable& table);
void add_encoding_ops(OpTable& table);
void add_random_ops(OpTable& table);
void add_regex_ops(OpTable& table);
void add_image_ops(OpTable& table);
void add_sequence_ops(OpTable& table);
void add_tensor_array_ops(OpTable& table);

/// The sizes that two tensors have together when each axis of size 1 is repeated as the other
/// wants. Throws InvalidArgument where they do not fit.
std::vector<std::int64_t> broadcast_sizes(std::span<const std::int64_t> left,
                                          std::span<const std::int64_t> right);

/// An axis counted from the front. Throws InvalidArgument unless -rank <= axis < rank.
std::int64_t positive_axis(std::int64_t axis, std::int64_t rank);

/// The largest value that an operation may make out of small inputs, in elements: a shape that a
/// graph or a request names is not to be trusted with the memory of the machine.
inline constexpr std::int64_t kMaxElements = std::int64_t{1} << 28;

/// Throws InvalidArgument for a negative size, and ResourceExhausted for more than kMaxElements.
void check_shape(std::span<const std::int64_t> sizes);

/// Runs something that only moves elements about, such as a reshape, on tensors of any type,
/// strings among them: strings are numbered, the numbers are moved. `move` checks the room for
/// numbers; that for strings is checked here.
Slots rearrange(const Inputs& inputs, std::span<const std::size_t> which,
                const std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>&)>& move);

}  // namespace muster::executor
