#include "muster/nn/model/linear_model.h"

#include <ATen/EmptyTensor.h>
#include <torch/types.h>

#include <algorithm>
#include <utility>
#include <variant>

#include "muster/base/error.h"
#include "muster/nn/model/column_ids_internal.h"
#include "muster/nn/model/graph_node_internal.h"
#include "muster/nn/model/module_variables.h"
#include "muster/nn/model/table_gradients_internal.h"

namespace muster {
namespace {

using internal::IdsView;
using internal::TableIds;

at::Tensor zeros_on_cpu(at::IntArrayRef sizes) {
  at::Tensor tensor(at::detail::empty_cpu(sizes, at::kFloat));
  std::fill_n(tensor.data_ptr<float>(), tensor.numel(), 0.0F);
  return tensor;
}

std::size_t size_of(const at::Tensor& tensor, std::int64_t dimension) {
  return static_cast<std::size_t>(tensor.size(dimension));
}

}  // namespace

/// Values that one forward read, which its backward reads again.
struct LinearModel::Batch {
  struct Ids {
    std::size_t table;
    std::int64_t row_count;
    TableIds ids;
  };
  struct Numbers {
    /// [rows, inputs of all columns of the block], of which these are [first, first + inputs).
    at::Tensor block;
    std::size_t first;
    std::size_t inputs;
  };
  std::int64_t units = 1;
  std::vector<Ids> ids{};
  /// In the order of the graph's edges after the bias.
  std::vector<Numbers> numbers{};
};

/// The whole model as one node: dense gradients go on along its edges, rows are left to be
/// taken from TableGradients.
class LinearModel::Node : public torch::autograd::Node {
 public:
  Node(Batch batch, std::shared_ptr<internal::TableGradients> gradients)
      : batch_(std::move(batch)), gradients_(std::move(gradients)) {}

  std::string name() const override { return "LinearModelBackward"; }

  torch::autograd::variable_list apply(torch::autograd::variable_list&& outputs) override {
    torch::autograd::variable_list inputs(1 + batch_.numbers.size());
    if (!outputs[0].defined()) return inputs;
    const at::Tensor gradient = outputs[0].to(at::kFloat).contiguous();
    const float* values = gradient.data_ptr<float>();
    const std::size_t rows = size_of(gradient, 0);
    const auto units = static_cast<std::size_t>(batch_.units);
    for (const Batch::Ids& column : batch_.ids) add_rows_of(column, values);
    inputs[0] = zeros_on_cpu({batch_.units});
    internal::add_columns(values, rows, units, inputs[0].data_ptr<float>());
    for (std::size_t i = 0; i < batch_.numbers.size(); ++i) {
      const Batch::Numbers& numbers = batch_.numbers[i];
      at::Tensor& target = inputs[1 + i];
      target = zeros_on_cpu({static_cast<std::int64_t>(numbers.inputs), batch_.units});
      internal::add_weight_gradient(numbers.block.data_ptr<float>() + numbers.first,
                                    size_of(numbers.block, 1), values, rows, numbers.inputs, units,
                                    target.data_ptr<float>());
    }
    return inputs;
  }

 private:
  void add_rows_of(const Batch::Ids& column, const float* gradient) {
    const IdsView ids = column.ids.view();
    auto& terms = gradients_->scratch();
    for (std::size_t row = 0; row < ids.rows; ++row, gradient += batch_.units) {
      for (auto place = ids.splits[row]; place < ids.splits[row + 1]; ++place) {
        const float factor = ids.factors == nullptr ? 1.0F : ids.factors[place];
        // An id that does not count does not touch its row either.
        if (factor != 0) terms.push_back({ids.ids[place], gradient, factor});
      }
    }
    gradients_->add(column.table, terms, column.row_count, batch_.units);
  }

  Batch batch_;
  std::shared_ptr<internal::TableGradients> gradients_;
};

LinearModel::LinearModel(LinearModelOptions options) : options_(std::move(options)) {
  if (options_.columns == nullptr || options_.columns->use() != ColumnUse::kLinear) {
    throw InvalidArgument("a linear model needs a ColumnSet made with ColumnUse::kLinear");
  }
  if (options_.units <= 0) {
    throw InvalidArgument("a linear model needs a positive number of units: {}", options_.units);
  }
  std::size_t tables = 0;
  for (const FeatureColumn& column : options_.columns->columns()) {
    const bool table = column.is_categorical();
    const auto rows = table ? column.num_buckets() : column.width();
    weights_.push_back(register_parameter(parameter_key(column.name() + "/weights"),
                                          torch::zeros({rows, options_.units})));
    table_of_column_.push_back(table ? tables++ : 0);
  }
  bias_ = register_parameter("bias_weights", torch::zeros({options_.units}));
}

LinearModel::~LinearModel() = default;

torch::Tensor LinearModel::forward(const Features& features) {
  return forward(options_.columns->pieces(features));
}

torch::Tensor LinearModel::forward(const std::vector<ColumnPiece>& pieces) {
  if (internal::is_tracing()) return forward_traced(pieces);
  const bool libtorchs_gradients = at::GradMode::is_enabled() && gradients_ == nullptr;
  if (libtorchs_gradients || internal::needs_tensor_operations(bias_)) {
    return forward_by_tensors(pieces);
  }
  return forward_by_loops(pieces);
}

torch::Tensor LinearModel::forward_by_loops(const std::vector<ColumnPiece>& pieces) {
  const auto columns = options_.columns->columns();
  const auto units = static_cast<std::size_t>(options_.units);
  const std::int64_t rows = rows_of(pieces.front().value);
  const bool with_gradients = at::GradMode::is_enabled();
  at::Tensor logits = zeros_on_cpu({rows, options_.units});
  float* out = logits.data_ptr<float>();
  Batch batch{.units = options_.units};
  torch::autograd::edge_list edges{internal::edge_of(bias_)};
  for (const ColumnPiece& piece : pieces) {
    if (const auto* ids = std::get_if<RaggedColumn>(&piece.value)) {
      const auto& weights = weights_[piece.first];
      auto column = internal::column_ids(*ids, options_.sparse_combiner, weights.size(0),
                                         columns[piece.first].name());
      internal::add_table_rows(column.view(), weights.data_ptr<float>(), units, out, units);
      batch.ids.push_back({table_of_column_[piece.first], weights.size(0), std::move(column)});
      continue;
    }
    const at::Tensor block = std::get<at::Tensor>(piece.value).contiguous();
    std::size_t first = 0;
    for (std::size_t c = piece.first; c < piece.first + piece.count; ++c) {
      const std::size_t inputs = size_of(weights_[c], 0);
      internal::add_product(block.data_ptr<float>() + first, size_of(block, 1),
                            weights_[c].data_ptr<float>(), static_cast<std::size_t>(rows), inputs,
                            units, out);
      batch.numbers.push_back({block, first, inputs});
      if (with_gradients) edges.push_back(internal::edge_of(weights_[c]));
      first += inputs;
    }
  }
  const float* bias = bias_.data_ptr<float>();
  for (std::int64_t row = 0; row < rows; ++row, out += units) {
    for (std::size_t unit = 0; unit < units; ++unit) out[unit] += bias[unit];
  }
  if (with_gradients) {
    internal::set_node(logits, std::make_unique<Node>(std::move(batch), gradients_),
                       std::move(edges));
  }
  return logits;
}

torch::Tensor LinearModel::forward_by_tensors(const std::vector<ColumnPiece>& pieces) {
  auto logits = internal::zero_rows(pieces.front().value, options_.units, bias_);
  for (const ColumnPiece& piece : pieces) {
    if (const auto* ids = std::get_if<RaggedColumn>(&piece.value)) {
      logits = internal::add_by_row(logits, *ids, options_.sparse_combiner,
                                    internal::table_rows(weights_[piece.first], *ids));
      continue;
    }
    const auto& block = std::get<at::Tensor>(piece.value);
    std::int64_t first = 0;
    for (std::size_t c = piece.first; c < piece.first + piece.count; ++c) {
      const auto inputs = weights_[c].size(0);
      logits = logits.addmm(block.narrow(1, first, inputs), weights_[c]);
      first += inputs;
    }
  }
  return logits + bias_;
}

// A sum of one term a column, whatever the number of their ids.
torch::Tensor LinearModel::forward_traced(const std::vector<ColumnPiece>& pieces) {
  torch::Tensor logits;
  const auto add = [&](const torch::Tensor& term) {
    logits = logits.defined() ? logits + term : term;
  };
  for (const ColumnPiece& piece : pieces) {
    if (const auto* ids = std::get_if<RaggedColumn>(&piece.value)) {
      add(internal::lookup(weights_[piece.first], *ids, options_.sparse_combiner));
      continue;
    }
    const auto& block = std::get<at::Tensor>(piece.value);
    std::int64_t first = 0;
    for (std::size_t c = piece.first; c < piece.first + piece.count; ++c) {
      const auto inputs = weights_[c].size(0);
      add(block.narrow(1, first, inputs).mm(weights_[c]));
      first += inputs;
    }
  }
  return logits + bias_;
}

torch::Tensor LinearModel::fraction_of_zero_weights() const {
  const torch::NoGradGuard no_grad;
  std::int64_t count = 0;
  double zeros = 0;
  for (const auto& weights : weights_) {
    count += weights.numel();
    zeros += static_cast<double>(weights.numel() - weights.count_nonzero().item<std::int64_t>());
  }
  return torch::full({}, zeros / static_cast<double>(count));
}

std::vector<at::Tensor> LinearModel::tables() const {
  std::vector<at::Tensor> tables;
  const auto columns = options_.columns->columns();
  for (std::size_t c = 0; c < columns.size(); ++c) {
    if (columns[c].is_categorical()) tables.push_back(weights_[c]);
  }
  return tables;
}

void LinearModel::keep_row_gradients() {
  gradients_ = std::make_shared<internal::TableGradients>(tables().size());
}

std::vector<RowGradient> LinearModel::take_row_gradients() {
  return gradients_ == nullptr ? std::vector<RowGradient>(tables().size()) : gradients_->take();
}

}  // namespace muster
