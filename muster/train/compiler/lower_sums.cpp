#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "muster/train/compiler/column_sums.h"
#include "muster/train/compiler/passes.h"
#include "muster/train/compiler/program_builder.h"
#include "muster/train/compiler/uses.h"

namespace muster::compiler {
namespace {

// Two nodes: blocks of rows, then all of them.
std::optional<std::vector<Node>> lower_sum(Graph& graph, const Uses& uses, NodeId id) {
  const Node& node = graph.nodes[Graph::index(id)];
  if (!is(node, "aten::sum", "dim_IntList")) return std::nullopt;
  const auto summed = tensor_at(node, 0);
  const ValueId made = *node.results[0].value;
  if (!summed || uses.of_value(made).maker != id || !node.arguments[1].constant.isIntList()) {
    return std::nullopt;
  }
  const Geometry from = graph.geometry(*summed);
  const Geometry to = graph.geometry(made);
  std::vector<bool> kept(from.sizes.size(), true);
  for (std::int64_t d : node.arguments[1].constant.toIntVector()) {
    kept[static_cast<std::size_t>(d < 0 ? d + static_cast<std::int64_t>(kept.size()) : d)] = false;
  }
  const auto matrix = matrix_of(from, kept);
  if (!matrix || !is_for_programs(to) || to.device != from.device || !to.is_contiguous() ||
      to.elements() != matrix->columns || matrix->rows < 2) {
    return std::nullopt;
  }
  const ValueId partials = new_partials(graph, *matrix, 1, from.device);
  ProgramBuilder sums(graph, Program::Kind::kColumnSums, {matrix->rows, matrix->columns});
  sums.add_up({sums.load(*summed, {matrix->columns, 1})}, partials, row_blocks(*matrix));
  ProgramBuilder total(graph, Program::Kind::kColumns, {matrix->columns});
  total.read_sums(partials, row_blocks(*matrix), 1);
  total.store(total.sum(0), made, {1});
  return std::vector<Node>{sums.take("sum"), total.take("sum")};
}

/// Batch norm of a tensor whose channels lie innermost.
struct BatchNorm {
  Matrix matrix{};
  ValueId x = -1;
  std::optional<ValueId> weight{};
  std::optional<ValueId> bias{};
  double count = 1;
};

std::optional<BatchNorm> batch_norm(const Graph& graph, const Node& node, std::size_t x,
                                    std::size_t weight) {
  const auto input = tensor_at(node, x);
  if (!input || graph.geometry(*input).sizes.size() < 2) return std::nullopt;
  std::vector<bool> kept(graph.geometry(*input).sizes.size(), false);
  kept[1] = true;
  const auto matrix = matrix_of(graph.geometry(*input), kept);
  if (!matrix || matrix->rows < 2 || matrix->columns != graph.geometry(*input).sizes[1]) {
    return std::nullopt;
  }
  return BatchNorm{.matrix = *matrix,
                   .x = *input,
                   .weight = tensor_at(node, weight),
                   .count = static_cast<double>(matrix->rows)};
}

bool are_columns(const Graph& graph, const Matrix& matrix,
                 const std::vector<std::optional<ValueId>>& values) {
  return std::ranges::all_of(values, [&](const std::optional<ValueId>& value) {
    if (!value) return true;
    const Geometry& geometry = graph.geometry(*value);
    return geometry.type == at::kFloat && geometry.is_contiguous() &&
           geometry.elements() == matrix.columns;
  });
}

bool is_training(const Node& node, std::size_t place) {
  const auto& given = node.arguments[place].constant;
  return given.isBool() && given.toBool();
}

// Sums are of what is left of the first row, so that a large mean costs no digits.
std::optional<std::vector<Node>> lower_batch_norm(Graph& graph, NodeId id) {
  const Node node = graph.nodes[Graph::index(id)];
  if (!is(node, "aten::native_batch_norm") || !is_training(node, 5)) return std::nullopt;
  const auto found = batch_norm(graph, node, 0, 1);
  if (!found || node.results.size() != 3) return std::nullopt;
  const Matrix matrix = found->matrix;
  const auto bias = tensor_at(node, 2);
  const auto running_mean = tensor_at(node, 3);
  const auto running_variance = tensor_at(node, 4);
  const ValueId y = *node.results[0].value;
  const ValueId mean = *node.results[1].value;
  const ValueId scale = *node.results[2].value;
  const Geometry x_geometry = graph.geometry(found->x);
  if (!are_columns(graph, matrix,
                   {found->weight, bias, running_mean, running_variance, mean, scale}) ||
      graph.geometry(y).strides != x_geometry.strides) {
    return std::nullopt;
  }
  Geometry row = contiguous_geometry(x_geometry.type, x_geometry.device, {matrix.columns});
  row.offset = x_geometry.offset;
  const ValueId shift = graph.value(graph.storage_of(found->x), row);
  const ValueId partials = new_partials(graph, matrix, 2, x_geometry.device);
  const double momentum = *number_at(node, 6);
  const double epsilon = *number_at(node, 7);

  ProgramBuilder sums(graph, Program::Kind::kColumnSums, {matrix.rows, matrix.columns});
  const int off = sums.op(ScalarOp::kSubtract, sums.load(found->x, {matrix.columns, 1}),
                          sums.load(shift, kOfColumn));
  sums.add_up({off, sums.op(ScalarOp::kMultiply, off, off)}, partials, row_blocks(matrix));

  ProgramBuilder columns(graph, Program::Kind::kColumns, {matrix.columns});
  columns.read_sums(partials, row_blocks(matrix), 2);
  const auto times = [&](int a, double b) {
    return columns.op(ScalarOp::kMultiply, a, columns.constant(b));
  };
  const int moved = times(columns.sum(0), 1.0 / found->count);
  const int average = columns.op(ScalarOp::kAdd, columns.load(shift, {1}), moved);
  const int raw = columns.op(ScalarOp::kSubtract, times(columns.sum(1), 1.0 / found->count),
                             columns.op(ScalarOp::kMultiply, moved, moved));
  const int zero = columns.constant(0);
  const int variance =
      columns.op(ScalarOp::kSelect, columns.op(ScalarOp::kLess, raw, zero), zero, raw);
  const int root =
      columns.op(ScalarOp::kSqrt, columns.op(ScalarOp::kAdd, variance, columns.constant(epsilon)));
  columns.store(average, mean, {1});
  columns.store(columns.op(ScalarOp::kDivide, columns.constant(1), root), scale, {1});
  const auto move = [&](std::optional<ValueId> running, int now) {
    if (!running) return;
    const int before = columns.load(*running, {1});
    columns.store_into(
        columns.op(ScalarOp::kAdd, times(before, 1.0 - momentum), times(now, momentum)), *running,
        {1});
  };
  move(running_mean, average);
  move(running_variance, times(variance, found->count / (found->count - 1)));

  ProgramBuilder elements(graph, Program::Kind::kElements, {matrix.rows, matrix.columns});
  const int centred = elements.op(ScalarOp::kSubtract, elements.load(found->x, {matrix.columns, 1}),
                                  elements.load(mean, kOfColumn));
  int factor = elements.load(scale, kOfColumn);
  if (found->weight) {
    factor = elements.op(ScalarOp::kMultiply, factor, elements.load(*found->weight, kOfColumn));
  }
  int value = elements.op(ScalarOp::kMultiply, centred, factor);
  if (bias) value = elements.op(ScalarOp::kAdd, value, elements.load(*bias, kOfColumn));
  elements.store(value, y, {matrix.columns, 1});
  return std::vector<Node>{sums.take("batch_norm"), columns.take("batch_norm"),
                           elements.take("batch_norm")};
}

std::optional<std::vector<Node>> lower_batch_norm_backward(Graph& graph, NodeId id) {
  const Node node = graph.nodes[Graph::index(id)];
  if (!is(node, "aten::native_batch_norm_backward") || !is_training(node, 7)) return std::nullopt;
  const auto found = batch_norm(graph, node, 1, 2);
  const auto gradient = tensor_at(node, 0);
  const auto mean = tensor_at(node, 5);
  const auto scale = tensor_at(node, 6);
  if (!found || !gradient || !mean || !scale || node.results.size() != 3) return std::nullopt;
  const Matrix matrix = found->matrix;
  const Geometry x_geometry = graph.geometry(found->x);
  const auto dx = node.results[0].value;
  if (!dx || graph.geometry(*dx).strides != x_geometry.strides ||
      graph.geometry(*gradient).strides != x_geometry.strides ||
      !is_for_programs(graph.geometry(*gradient)) ||
      !are_columns(graph, matrix,
                   {found->weight, mean, scale, node.results[1].value, node.results[2].value})) {
    return std::nullopt;
  }
  const Geometry vector = contiguous_geometry(at::kFloat, x_geometry.device, {matrix.columns});
  const auto made_or_new = [&](std::size_t place) {
    return node.results[place].value ? *node.results[place].value : graph.new_value(vector);
  };
  const ValueId of_weight = made_or_new(1);
  const ValueId of_bias = made_or_new(2);
  const ValueId partials = new_partials(graph, matrix, 2, x_geometry.device);
  const auto centred = [&](ProgramBuilder& in) {
    return in.op(ScalarOp::kSubtract, in.load(found->x, {matrix.columns, 1}),
                 in.load(*mean, kOfColumn));
  };

  // Factors that belong to a column are applied once for all of its rows.
  ProgramBuilder sums(graph, Program::Kind::kColumnSums, {matrix.rows, matrix.columns});
  const int dy = sums.load(*gradient, {matrix.columns, 1});
  sums.add_up({dy, sums.op(ScalarOp::kMultiply, dy, centred(sums))}, partials, row_blocks(matrix));

  ProgramBuilder columns(graph, Program::Kind::kColumns, {matrix.columns});
  columns.read_sums(partials, row_blocks(matrix), 2);
  columns.store(columns.op(ScalarOp::kMultiply, columns.sum(1), columns.load(*scale, {1})),
                of_weight, {1});
  columns.store(columns.sum(0), of_bias, {1});

  ProgramBuilder elements(graph, Program::Kind::kElements, {matrix.rows, matrix.columns});
  const auto share = [&](ValueId sum) {
    return elements.op(ScalarOp::kMultiply, elements.load(sum, kOfColumn),
                       elements.constant(1.0 / found->count));
  };
  const int slope =
      elements.op(ScalarOp::kMultiply, share(of_weight), elements.load(*scale, kOfColumn));
  int factor = elements.load(*scale, kOfColumn);
  if (found->weight) {
    factor = elements.op(ScalarOp::kMultiply, factor, elements.load(*found->weight, kOfColumn));
  }
  int value = elements.op(ScalarOp::kSubtract, elements.load(*gradient, {matrix.columns, 1}),
                          share(of_bias));
  value = elements.op(ScalarOp::kSubtract, value,
                      elements.op(ScalarOp::kMultiply, centred(elements), slope));
  elements.store(elements.op(ScalarOp::kMultiply, value, factor), *dx, {matrix.columns, 1});
  return std::vector<Node>{sums.take("batch_norm_backward"), columns.take("batch_norm_backward"),
                           elements.take("batch_norm_backward")};
}

}  // namespace

void lower_sums(Graph& graph) {
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const auto id = static_cast<NodeId>(i);
    if (!graph.nodes[i].operation) continue;
    auto nodes = lower_sum(graph, Uses(graph), id);
    if (!nodes) nodes = lower_batch_norm(graph, id);
    if (!nodes) nodes = lower_batch_norm_backward(graph, id);
    if (!nodes) continue;
    const auto place = graph.nodes.erase(graph.nodes.begin() + id);
    graph.nodes.insert(place, nodes->begin(), nodes->end());
    i += nodes->size() - 1;
  }
}

}  // namespace muster::compiler
