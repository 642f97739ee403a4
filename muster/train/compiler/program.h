#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "muster/train/compiler/graph.h"

namespace muster::compiler {

/// Operation on one element, in float32.
enum class ScalarOp {
  kConstant,
  kLoad,
  /// Sum of one column over all partial sums that kColumnSums left: see Program::Kind.
  kSum,
  /// Sum and maximum of a value over the columns of its row: of Program::Kind::kRows.
  kRowSum,
  kRowMax,
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kNegate,
  kAbsolute,
  kExp,
  kLog,
  kSqrt,
  kTanh,
  kErf,
  /// a > b, a < b, a == b: 1 or 0.
  kGreater,
  kLess,
  kEqual,
  /// a != 0 ? b : c.
  kSelect,
};

struct Instruction {
  ScalarOp op = ScalarOp::kConstant;
  /// Earlier instructions.
  int a = -1;
  int b = -1;
  int c = -1;
  float constant = 0;
  /// Operand of a kLoad; number of the sum of a kSum.
  int place = -1;

  bool operator==(const Instruction&) const = default;
};

/// A tensor as a program reads or writes it: its elements by the program's dimensions.
struct Operand {
  at::ScalarType type = at::kFloat;
  std::vector<std::int64_t> strides{};
  /// Whether every element's address is a multiple of 16 bytes where its dimensions allow it.
  bool aligned = true;

  bool operator==(const Operand&) const = default;
};

/// A loop over elements: loads, instructions, stores.
struct Program {
  enum class Kind {
    /// For each element by itself.
    kElements,
    /// Two dimensions, rows and columns, and values of whole rows between those of elements. May
    /// also add `sums` up, as kColumnSums does.
    kRows,
    /// Two dimensions, rows and columns: also adds `sums` up over blocks of rows. The last outputs
    /// take them, each float [sums, columns, blocks].
    kColumnSums,
    /// One dimension, columns: the first input is one that sums were left in, which kSum adds up.
    kColumns,
  };
  Kind kind = Kind::kElements;
  /// Outermost first.
  std::vector<std::int64_t> sizes{};
  std::vector<Operand> inputs{};
  std::vector<Operand> outputs{};
  std::vector<Instruction> code{};
  /// Values that are written, into an output, or into an input in place.
  struct Store {
    int place = 0;
    int value = 0;
    bool into_input = false;

    bool operator==(const Store&) const = default;
  };
  std::vector<Store> stores{};
  std::vector<int> sums{};
  /// How many of the sums each of the last outputs takes.
  std::vector<std::int64_t> partials{};
  /// Blocks of rows, where there are sums and of kColumns.
  std::int64_t blocks = 1;
  /// Number of sums in the first input of kColumns.
  std::int64_t sum_count = 0;

  std::int64_t elements() const;
  bool operator==(const Program&) const = default;
};

/// Whether a loop of this kind is over rows and columns, which stay apart.
bool has_rows_and_columns(Program::Kind kind);
/// Whether the instruction joins the elements of a row.
bool is_of_row(const Instruction& instruction);
/// Whether the operand's elements are in the order of the loop.
bool is_linear(const Program& program, const Operand& operand);
/// Joins dimensions that all operands go through as one. Rows and columns stay as they are.
void collapse(Program& program);
/// Gives the program these sizes, of which its own are products. False, and nothing is changed,
/// where they are not.
bool refine(Program& program, const std::vector<std::int64_t>& sizes);
/// Sizes that both are products of, or nothing.
std::optional<std::vector<std::int64_t>> common_sizes(const std::vector<std::int64_t>& left,
                                                      const std::vector<std::int64_t>& right);
/// Loops in plain C++, for the CPU: slow, and the reference for what is generated.
void evaluate(const Program& program, std::span<const at::Tensor> inputs,
              std::span<const at::Tensor> outputs);
/// "3 loads, 2 stores, 12 instructions over [32, 64]".
std::string describe(const Program& program);

}  // namespace muster::compiler
