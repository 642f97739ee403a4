#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "muster/train/compiler/fused_kernel.h"
#include "muster/train/compiler/graph.h"
#include "muster/train/compiler/program.h"

namespace muster::compiler {

/// Whether programs can read and write such a tensor: float32, bfloat16, float16 or bool, not
/// empty.
bool is_for_programs(const Geometry& geometry);

/// Whether the first element's address is a multiple of 16 bytes where the storage's is.
bool is_aligned(const Geometry& geometry);

/// The dimensions of a tensor by falling stride, and without those of size 1: the order in which
/// its elements lie.
std::vector<std::size_t> memory_order(const Geometry& geometry);

/// A node of one program in the making. Its loop is over the elements of a tensor, as they lie.
class ProgramBuilder {
 public:
  /// For each element.
  ProgramBuilder(const Graph& graph, const Geometry& loop);
  /// Over rows and columns that a tensor has as it lies, or over columns alone.
  ProgramBuilder(const Graph& graph, Program::Kind kind, std::vector<std::int64_t> sizes);

  /// The element of a tensor whose sizes are broadcast to those of the loop's.
  int load(ValueId value);
  /// That of a tensor with these strides by the program's dimensions.
  int load(ValueId value, std::vector<std::int64_t> strides);
  int constant(double value);
  int op(ScalarOp what, int a, int b = -1, int c = -1);
  int sum(int number);

  /// A new tensor, laid out as the loop.
  void store(int value, ValueId result);
  void store(int value, ValueId result, std::vector<std::int64_t> strides);
  /// Into a tensor that is there, in place.
  void store_into(int value, ValueId place);
  void store_into(int value, ValueId place, std::vector<std::int64_t> strides);
  /// Values that kColumnSums or kRows adds up, after its last store, and the result that takes
  /// them: float [sums, columns, blocks].
  void add_up(std::vector<int> values, ValueId partials, std::int64_t blocks);
  /// Sums that kColumns reads.
  void read_sums(ValueId partials, std::int64_t blocks, std::int64_t sums);

  Node take(std::string operations);

 private:
  std::size_t input(ValueId value, std::vector<std::int64_t> strides);
  std::vector<std::int64_t> strides_of(const Geometry& geometry) const;

  const Graph& graph_;
  /// The loop's tensor.
  std::vector<std::int64_t> loop_sizes_{};
  std::vector<std::size_t> order_{};
  Program program_{};
  std::vector<ValueId> inputs_{};
  std::vector<ValueId> results_{};
  std::vector<ValueId> writes_{};
};

/// A node of a program whose operands are these.
Node program_node(Program program, std::string operations, const std::vector<ValueId>& inputs,
                  const std::vector<ValueId>& results, const std::vector<ValueId>& writes);

}  // namespace muster::compiler
