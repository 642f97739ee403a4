#include <algorithm>
#include <optional>
#include <vector>

#include "muster/train/compiler/column_sums.h"
#include "muster/train/compiler/kernel_source.h"
#include "muster/train/compiler/passes.h"
#include "muster/train/compiler/program_builder.h"
#include "muster/train/compiler/uses.h"

namespace muster::compiler {
namespace {

using Op = ScalarOp;
using Nodes = std::optional<std::vector<Node>>;

// Rows of the innermost `inner` dimensions of a tensor that is in their order.
std::optional<Matrix> rows_of(const Geometry& geometry, std::size_t inner) {
  if (!geometry.is_contiguous() || !is_for_programs(geometry) || geometry.type == at::kBool ||
      inner == 0 || inner > geometry.sizes.size()) {
    return std::nullopt;
  }
  Matrix matrix;
  for (std::size_t d = 0; d < geometry.sizes.size(); ++d) {
    (d + inner < geometry.sizes.size() ? matrix.rows : matrix.columns) *= geometry.sizes[d];
  }
  const bool fits = matrix.columns >= 2 && matrix.columns <= kMostRowColumns;
  return fits ? std::optional(matrix) : std::nullopt;
}

// Whether the tensor, if there is one, has as many elements in a row of memory.
bool is_vector(const Graph& graph, std::optional<ValueId> value, std::int64_t elements) {
  if (!value) return true;
  const Geometry& geometry = graph.geometry(*value);
  return is_for_programs(geometry) && geometry.is_contiguous() && geometry.elements() == elements;
}

bool is_matrix(const Graph& graph, std::optional<ValueId> value, const Matrix& matrix) {
  return value && is_vector(graph, value, matrix.rows * matrix.columns);
}

/// A program over rows and columns in the making.
class RowBuilder {
 public:
  RowBuilder(const Graph& graph, const Matrix& matrix, Program::Kind kind = Program::Kind::kRows)
      : matrix_(matrix), builder_(graph, kind, {matrix.rows, matrix.columns}) {}

  int element(ValueId value) { return builder_.load(value, {matrix_.columns, 1}); }
  int of_column(ValueId value) { return builder_.load(value, kOfColumn); }
  int of_row(ValueId value) { return builder_.load(value, kOfRow); }
  int op(Op what, int a, int b = -1) { return builder_.op(what, a, b); }
  int add(int a, int b) { return op(Op::kAdd, a, b); }
  int subtract(int a, int b) { return op(Op::kSubtract, a, b); }
  int multiply(int a, int b) { return op(Op::kMultiply, a, b); }
  int multiply(int a, double b) { return multiply(a, builder_.constant(b)); }
  int constant(double value) { return builder_.constant(value); }
  int mean(int a) {
    return multiply(op(Op::kRowSum, a), 1.0 / static_cast<double>(matrix_.columns));
  }

  void store(int value, ValueId result) { builder_.store(value, result, {matrix_.columns, 1}); }
  void store_row(int value, std::optional<ValueId> result) {
    if (result) builder_.store(value, *result, kOfRow);
  }
  ProgramBuilder& builder() { return builder_; }
  Node take(const char* operation) { return builder_.take(operation); }

 private:
  Matrix matrix_;
  ProgramBuilder builder_;
};

std::size_t dimensions_at(const Node& node, std::size_t place) {
  const auto& given = node.arguments[place].constant;
  return given.isIntList() ? given.toIntVector().size() : 0;
}

Nodes lower_layer_norm(Graph& graph, const Node& node) {
  if (!is(node, "aten::native_layer_norm") || node.results.size() != 3) return std::nullopt;
  const auto x = tensor_at(node, 0);
  const auto weight = tensor_at(node, 2);
  const auto bias = tensor_at(node, 3);
  const auto epsilon = number_at(node, 4);
  const auto y = node.results[0].value;
  if (!x || !y || !epsilon) return std::nullopt;
  const auto matrix = rows_of(graph.geometry(*x), dimensions_at(node, 1));
  if (!matrix || !is_matrix(graph, y, *matrix) || !is_vector(graph, weight, matrix->columns) ||
      !is_vector(graph, bias, matrix->columns) ||
      !is_vector(graph, node.results[1].value, matrix->rows) ||
      !is_vector(graph, node.results[2].value, matrix->rows)) {
    return std::nullopt;
  }
  RowBuilder in(graph, *matrix);
  const int value = in.element(*x);
  const int mean = in.mean(value);
  const int centred = in.subtract(value, mean);
  const int variance = in.mean(in.multiply(centred, centred));
  const int root = in.op(Op::kSqrt, in.add(variance, in.constant(*epsilon)));
  const int scale = in.op(Op::kDivide, in.constant(1), root);
  int made = in.multiply(centred, scale);
  if (weight) made = in.multiply(made, in.of_column(*weight));
  if (bias) made = in.add(made, in.of_column(*bias));
  in.store(made, *y);
  in.store_row(mean, node.results[1].value);
  in.store_row(scale, node.results[2].value);
  return std::vector<Node>{in.take("layer_norm")};
}

/// Operands of the way back of a layer norm.
struct LayerNormBackward {
  Matrix matrix{};
  ValueId gradient = -1;
  ValueId x = -1;
  ValueId mean = -1;
  ValueId scale = -1;
  std::optional<ValueId> weight{};

  int normal(RowBuilder& in) const {
    return in.multiply(in.subtract(in.element(x), in.of_row(mean)), in.of_row(scale));
  }
};

std::optional<LayerNormBackward> layer_norm_backward(const Graph& graph, const Node& node) {
  if (!is(node, "aten::native_layer_norm_backward") || node.results.size() != 3) {
    return std::nullopt;
  }
  const auto gradient = tensor_at(node, 0);
  const auto x = tensor_at(node, 1);
  const auto mean = tensor_at(node, 3);
  const auto scale = tensor_at(node, 4);
  const auto weight = tensor_at(node, 5);
  if (!gradient || !x || !mean || !scale) return std::nullopt;
  const auto matrix = rows_of(graph.geometry(*x), dimensions_at(node, 2));
  const bool fits = matrix && is_matrix(graph, gradient, *matrix) &&
                    is_vector(graph, mean, matrix->rows) && is_vector(graph, scale, matrix->rows) &&
                    is_vector(graph, weight, matrix->columns) &&
                    is_vector(graph, node.results[1].value, matrix->columns) &&
                    is_vector(graph, node.results[2].value, matrix->columns);
  const auto dx = node.results[0].value;
  if (!fits || (dx && !is_matrix(graph, dx, *matrix))) return std::nullopt;
  return LayerNormBackward{*matrix, *gradient, *x, *mean, *scale, weight};
}

// Gradients of weight and bias, which the program adds up over blocks of rows.
void sum_rows(Graph& graph, const Node& node, const LayerNormBackward& of, RowBuilder& in,
              int gradient, int normal, std::vector<Node>& nodes) {
  const auto of_weight = node.results[1].value;
  const auto of_bias = node.results[2].value;
  const std::int64_t count = (of_weight ? 1 : 0) + (of_bias ? 1 : 0);
  const bool has_sums = count > 0;
  ValueId partials = -1;
  if (has_sums) {
    partials = new_partials(graph, of.matrix, count, graph.geometry(of.x).device);
    std::vector<int> added;
    if (of_bias) added.push_back(gradient);
    if (of_weight) added.push_back(in.multiply(gradient, normal));
    in.builder().add_up(added, partials, row_blocks(of.matrix));
  }
  nodes.push_back(in.take("layer_norm_backward"));
  if (!has_sums) return;
  ProgramBuilder columns(graph, Program::Kind::kColumns, {of.matrix.columns});
  columns.read_sums(partials, row_blocks(of.matrix), count);
  if (of_bias) columns.store(columns.sum(0), *of_bias, {1});
  if (of_weight) columns.store(columns.sum(static_cast<int>(count) - 1), *of_weight, {1});
  nodes.push_back(columns.take("layer_norm_backward"));
}

Nodes lower_layer_norm_backward(Graph& graph, const Node& given) {
  const Node node = given;
  const auto found = layer_norm_backward(graph, node);
  if (!found) return std::nullopt;
  const auto dx = node.results[0].value;
  RowBuilder in(graph, found->matrix, dx ? Program::Kind::kRows : Program::Kind::kColumnSums);
  const int normal = found->normal(in);
  const int gradient = in.element(found->gradient);
  if (dx) {
    const int weighted =
        found->weight ? in.multiply(gradient, in.of_column(*found->weight)) : gradient;
    const int average = in.mean(weighted);
    const int share = in.multiply(normal, in.mean(in.multiply(weighted, normal)));
    const int centred = in.subtract(in.subtract(weighted, average), share);
    in.store(in.multiply(centred, in.of_row(found->scale)), *dx);
  }
  std::vector<Node> nodes;
  sum_rows(graph, node, *found, in, gradient, normal, nodes);
  return nodes;
}

// The last dimension, as the operation names it.
bool is_over_last(const Graph& graph, const Node& node, std::size_t place, ValueId value) {
  const auto dimension = number_at(node, place);
  const auto last = static_cast<double>(graph.geometry(value).sizes.size()) - 1;
  return dimension && last >= 0 && (*dimension == last || *dimension == -1);
}

Nodes lower_softmax(Graph& graph, const Node& node) {
  const bool is_log = is(node, "aten::_log_softmax");
  if (!is_log && !is(node, "aten::_softmax")) return std::nullopt;
  const auto x = tensor_at(node, 0);
  const auto y = node.results[0].value;
  if (!x || !y || !is_over_last(graph, node, 1, *x)) return std::nullopt;
  const auto matrix = rows_of(graph.geometry(*x), 1);
  if (!matrix || !is_matrix(graph, y, *matrix)) return std::nullopt;
  RowBuilder in(graph, *matrix);
  const int value = in.element(*x);
  const int off = in.subtract(value, in.op(Op::kRowMax, value));
  const int power = in.op(Op::kExp, off);
  const int sum = in.op(Op::kRowSum, power);
  in.store(is_log ? in.subtract(off, in.op(Op::kLog, sum)) : in.op(Op::kDivide, power, sum), *y);
  return std::vector<Node>{in.take(is_log ? "log_softmax" : "softmax")};
}

Nodes lower_softmax_backward(Graph& graph, const Node& node) {
  const bool is_log = is(node, "aten::_log_softmax_backward_data");
  if (!is_log && !is(node, "aten::_softmax_backward_data")) return std::nullopt;
  const auto gradient = tensor_at(node, 0);
  const auto y = tensor_at(node, 1);
  const auto dx = node.results[0].value;
  if (!gradient || !y || !dx || !is_over_last(graph, node, 2, *y)) return std::nullopt;
  const auto matrix = rows_of(graph.geometry(*y), 1);
  if (!matrix || !is_matrix(graph, gradient, *matrix) || !is_matrix(graph, dx, *matrix)) {
    return std::nullopt;
  }
  RowBuilder in(graph, *matrix);
  const int given = in.element(*gradient);
  const int made = in.element(*y);
  if (is_log) {
    const int share = in.multiply(in.op(Op::kExp, made), in.op(Op::kRowSum, given));
    in.store(in.subtract(given, share), *dx);
  } else {
    const int sum = in.op(Op::kRowSum, in.multiply(given, made));
    in.store(in.multiply(in.subtract(given, sum), made), *dx);
  }
  return std::vector<Node>{in.take(is_log ? "log_softmax_backward" : "softmax_backward")};
}

}  // namespace

void lower_rows(Graph& graph) {
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    if (!graph.nodes[i].operation) continue;
    Nodes nodes;
    for (const auto lower :
         {lower_layer_norm, lower_layer_norm_backward, lower_softmax, lower_softmax_backward}) {
      if (!nodes) nodes = lower(graph, graph.nodes[i]);
    }
    if (!nodes) continue;
    const auto place = graph.nodes.erase(graph.nodes.begin() + static_cast<std::ptrdiff_t>(i));
    graph.nodes.insert(place, nodes->begin(), nodes->end());
    i += nodes->size() - 1;
  }
}

}  // namespace muster::compiler
