#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/torch_fwd.h"
#include "muster/nn/model/row_gradient.h"
#include "muster/nn/optim/named_tensor.h"

namespace muster {

struct VariableSpec {
  /// The checkpoint's key, such as "dnn/hiddenlayer_0/kernel".
  std::string name{};
  std::vector<std::int64_t> shape{};
  /// Others (batch-norm statistics) are saved but not updated.
  bool trainable = true;
  /// A table [rows, width] whose gradient names the touched rows. A property of the variable, never
  /// of the layout: untouched rows and their slots do not change.
  bool sparse = false;
  /// Its optimizer updates it as a whole: layouts that divide variables keep it in one piece.
  bool whole = false;
};

/// A variable and where it lies. `value` is the variable itself, not a copy.
struct Variable {
  VariableSpec spec{};
  at::Tensor value{};
  /// First element of a dense trainable variable in Variables::flat().
  std::int64_t offset = -1;
  /// Place of a sparse variable in Gradients::rows.
  std::int64_t rows_index = -1;

  bool dense() const { return offset >= 0; }
  bool sparse() const { return rows_index >= 0; }
};

/// A piece of a trainable variable: elements [first, last) of a dense one, rows [first, last) of a
/// table.
struct VariablePart {
  std::size_t variable = 0;
  std::int64_t first = 0;
  std::int64_t last = 0;

  /// This piece of a tensor that is shaped as the variable.
  at::Tensor of(const at::Tensor& whole, const Variable& owner) const;
};

/// The gradients of all trainable variables of one replica, or their sum.
struct Gradients {
  /// Gradients of the dense variables, laid out as Variables::flat(); padding is 0. Where several
  /// holders have a range of them each, those of this holder's range alone.
  at::Tensor flat{};
  /// Gradients of the sparse variables, in their order.
  std::vector<RowGradient> rows{};
  /// The element of Variables::flat() that `flat` begins with.
  std::int64_t first = 0;

  /// Those of the elements [begin, end) of Variables::flat() that are here: a view, which may be
  /// empty.
  at::Tensor within(std::int64_t begin, std::int64_t end) const;
  /// A view of one dense variable's part, all of which is here.
  at::Tensor of(const Variable& variable) const;
};

/// How a module's parameters and buffers become variables.
struct AdoptOptions {
  /// From libtorch's name ("conv1.weight") to the variable's; by default '.' becomes '/'.
  std::function<std::string(std::string_view)> name{};
  /// Whether the variable of this name is a sparse table; by default none is. Its module must have
  /// SparseTables, or give sparse gradients: torch::nn::EmbeddingOptions::sparse(true).
  std::function<bool(std::string_view)> sparse{};
  /// Whether the variable of this name is VariableSpec::whole; by default none is.
  std::function<bool(std::string_view)> whole{};
  /// Whether a GPU reads the dense ones where they lie, in host memory: it is pinned then.
  bool for_gpu = false;
};

class AttachedModule;
class SparseTables;

/// 64 bytes of float32: every dense variable begins a cache line, and a vector load never meets
/// two. What is between two of them in Variables::flat() is less, and 0.
inline constexpr std::int64_t kVariableAlignment = 16;

/// The variables of a process. The dense trainable ones are float32 views of one flat buffer, each
/// beginning at a multiple of 64 bytes, so that an update is one pass over contiguous memory; a
/// sparse table and a variable that is not trained have memory of their own. Not for several
/// threads at once.
class Variables {
 public:
  /// Zeros on the CPU, as a parameter server begins. Throws InvalidArgument on a name that comes
  /// twice, a negative dimension, or a sparse variable that is not a table.
  explicit Variables(std::vector<VariableSpec> specs);

  /// Copies the module's parameters into the flat buffer, on their device. Its buffers and
  /// parameters that need no gradient become variables that are not trained: the module's own
  /// tensors. A tensor that the module holds twice is one variable, under its first name. Throws
  /// InvalidArgument when a trained parameter is not float32 or devices differ.
  static Variables adopt(torch::nn::Module& module, const AdoptOptions& options = {});

  Variables(Variables&&) noexcept;
  Variables& operator=(Variables&&) noexcept;
  ~Variables();

  /// Makes the module's parameters views of these variables, with gradients of its own. Several
  /// modules can be attached: they share values, and each has its buffers to itself. Moving the
  /// module to another device or type afterwards breaks the tie. Throws InvalidArgument when the
  /// module has other names or shapes.
  AttachedModule attach(const std::shared_ptr<torch::nn::Module>& module) const;

  std::span<const Variable> all() const { return variables_; }
  const Variable* find(std::string_view name) const;
  /// The variable that a slot of this name belongs to: `<variable>/...`, the longest that matches.
  /// Null for a scalar of an optimizer.
  const Variable* owner_of_slot(std::string_view name) const;
  /// Every dense trainable variable, padding included.
  const at::Tensor& flat() const { return flat_; }
  /// Every trainable variable in one piece.
  std::vector<VariablePart> whole() const;
  /// The number of sparse variables.
  std::size_t sparse_count() const { return sparse_count_; }
  /// Trainable scalars.
  std::int64_t parameter_count() const;

  /// Zero gradients, with no touched rows.
  Gradients make_gradients() const;
  /// All variables, trainable or not, for checkpoints.
  std::vector<NamedTensor> tensors() const;

 private:
  Variables() = default;
  void allocate(c10::Device device);

  AdoptOptions options_;
  std::vector<Variable> variables_;
  at::Tensor flat_;
  std::size_t sparse_count_ = 0;
};

/// A module whose parameters are views of Variables, and the gradients that backward leaves.
///
///   attached.zero();
///   loss.backward();
///   attached.collect();
///   updater.apply(attached.gradients(), step);
class AttachedModule {
 public:
  AttachedModule(std::shared_ptr<torch::nn::Module> module, Gradients gradients);
  AttachedModule(AttachedModule&&) noexcept;
  AttachedModule& operator=(AttachedModule&&) noexcept;
  ~AttachedModule();

  torch::nn::Module& module() const { return *module_; }

  /// Before a backward: the module has no gradients, and no row is touched. On a GPU the module's
  /// gradients are zeros where they belong, for backward to add to.
  void zero();
  /// After a backward: brings its gradients into gradients(), 0 where there are none. Throws
  /// FailedPrecondition when a layer of a sparse variable gave a dense gradient. Returns whether
  /// dense ones were moved there: false on a GPU, where backward itself adds to them.
  bool collect();

  /// On the CPU, where nothing else has a view of the gradients' memory: hands them over with it.
  /// The next backward needs memory from place_gradients().
  Gradients release_gradients();
  /// After a backward and before collect(): memory for dense gradients, laid out as
  /// Variables::flat(), where this module's were released. What it contains does not matter.
  void place_gradients(at::Tensor flat);

  /// Those of the dense variables, in their order. Their gradients are where they belong, except
  /// for the time of a backward on the CPU.
  std::vector<at::Tensor> dense_parameters() const;

  const Gradients& gradients() const { return gradients_; }
  Gradients& gradients() { return gradients_; }

 private:
  friend class Variables;
  struct Dense {
    at::Tensor parameter;
    /// Where its gradient belongs; undefined while gradients have no memory.
    at::Tensor gradient;
    std::int64_t offset = 0;
  };
  struct Table {
    std::string name;
    at::Tensor parameter;
    std::size_t rows_index = 0;
  };
  /// A module that keeps the gradients of its tables until they are taken.
  struct Keeper {
    SparseTables* module = nullptr;
    /// Places of its tables in Gradients::rows, in their order.
    std::vector<std::size_t> rows_index{};
  };
  void tie(const Variable& variable, at::Tensor parameter);
  void find_keepers();

  std::shared_ptr<torch::nn::Module> module_;
  Gradients gradients_;
  std::vector<Dense> dense_;
  std::vector<Table> tables_;
  std::vector<Keeper> keepers_;
};

}  // namespace muster
