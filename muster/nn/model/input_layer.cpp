#include "muster/nn/model/input_layer.h"

#include <ATen/EmptyTensor.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <variant>

#include "muster/base/error.h"
#include "muster/nn/model/column_ids_internal.h"
#include "muster/nn/model/graph_node_internal.h"
#include "muster/nn/model/initializer.h"
#include "muster/nn/model/module_variables.h"
#include "muster/nn/model/random_scope.h"
#include "muster/nn/model/table_gradients_internal.h"

namespace muster {
namespace {

using internal::IdsView;
using internal::TableIds;

constexpr std::size_t kNotTrained = static_cast<std::size_t>(-1);

float norm_of(const float* row, std::size_t width) {
  double squares = 0;
  for (std::size_t k = 0; k < width; ++k) squares += static_cast<double>(row[k]) * row[k];
  return static_cast<float>(std::sqrt(squares));
}

// Rows longer than the limit count as if they had that length: the factor of each id shrinks.
void limit_norms(TableIds& column, const float* table, std::size_t width, double max_norm) {
  column.factors.resize(static_cast<std::size_t>(column.ids.values.numel()), 1.0F);
  const auto limit = static_cast<float>(max_norm);
  const std::int64_t* id = column.ids.values.data_ptr<std::int64_t>();
  for (float& factor : column.factors) {
    const float norm = norm_of(table + static_cast<std::size_t>(*id++) * width, width);
    if (norm > limit) factor *= limit / norm;
  }
}

// The gradient of a row that was shortened: what is left of `gradient` across the row's direction.
void across(const float* gradient, const float* row, std::size_t width, float* out) {
  double product = 0;
  double squares = 0;
  for (std::size_t k = 0; k < width; ++k) {
    product += static_cast<double>(gradient[k]) * row[k];
    squares += static_cast<double>(row[k]) * row[k];
  }
  const auto along = static_cast<float>(product / squares);
  for (std::size_t k = 0; k < width; ++k) out[k] = gradient[k] - along * row[k];
}

}  // namespace

struct InputLayer::Table {
  EmbeddingTable options;
  torch::Tensor weights;
  /// Among the trained ones.
  std::size_t number = kNotTrained;
};

/// Values that one forward read, which its backward reads again.
struct InputLayer::Batch {
  struct Embedding {
    std::size_t table;
    std::int64_t row_count;
    std::size_t dimension;
    /// In a row of the output.
    std::size_t offset;
    TableIds ids;
    /// With max_norm: the table, whose rows the gradient depends on.
    at::Tensor limited{};
    float max_norm = 0;
  };
  std::size_t width = 0;
  std::size_t tables = 0;
  std::vector<Embedding> embeddings{};
};

/// All embeddings as one node. It has no edges: what it leaves are rows.
class InputLayer::Node : public torch::autograd::Node {
 public:
  Node(Batch batch, std::shared_ptr<internal::TableGradients> gradients)
      : batch_(std::move(batch)), gradients_(std::move(gradients)) {}

  std::string name() const override { return "InputLayerBackward"; }

  torch::autograd::variable_list apply(torch::autograd::variable_list&& outputs) override {
    if (!outputs[0].defined()) return {};
    const at::Tensor gradient = outputs[0].to(at::kFloat).contiguous();
    const float* values = gradient.data_ptr<float>();
    for (std::size_t table = 0; table < batch_.tables; ++table) add_table(table, values);
    return {};
  }

 private:
  // Columns that share a table come one after the other, in the order of columns.
  void add_table(std::size_t table, const float* gradient) {
    auto& terms = gradients_->scratch();
    std::vector<std::vector<float>> memory;
    const Batch::Embedding* last = nullptr;
    for (const Batch::Embedding& embedding : batch_.embeddings) {
      if (embedding.table != table) continue;
      last = &embedding;
      const std::size_t first = terms.size();
      add_terms(embedding, gradient + embedding.offset, terms);
      if (embedding.limited.defined()) memory.push_back(project(embedding, terms, first));
    }
    if (last == nullptr) return;
    gradients_->add(table, terms, last->row_count, static_cast<std::int64_t>(last->dimension));
  }

  void add_terms(const Batch::Embedding& embedding, const float* gradient,
                 std::vector<internal::RowTerm>& terms) const {
    const IdsView ids = embedding.ids.view();
    for (std::size_t row = 0; row < ids.rows; ++row, gradient += batch_.width) {
      for (auto place = ids.splits[row]; place < ids.splits[row + 1]; ++place) {
        const float factor = ids.factors == nullptr ? 1.0F : ids.factors[place];
        if (factor != 0) terms.push_back({ids.ids[place], gradient, factor});
      }
    }
  }

  // Redirects the terms of shortened rows to their own gradients; returns the memory of those.
  static std::vector<float> project(const Batch::Embedding& embedding,
                                    std::vector<internal::RowTerm>& terms, std::size_t first) {
    const std::size_t width = embedding.dimension;
    const float* table = embedding.limited.data_ptr<float>();
    std::vector<float> memory((terms.size() - first) * width);
    float* next = memory.data();
    for (std::size_t i = first; i < terms.size(); ++i, next += width) {
      const float* row = table + static_cast<std::size_t>(terms[i].row) * width;
      if (!(norm_of(row, width) > embedding.max_norm)) continue;
      across(terms[i].gradient, row, width, next);
      terms[i].gradient = next;
    }
    return memory;
  }

  Batch batch_;
  std::shared_ptr<internal::TableGradients> gradients_;
};

InputLayer::InputLayer(std::shared_ptr<const ColumnSet> columns) : columns_(std::move(columns)) {
  if (columns_ == nullptr || columns_->use() != ColumnUse::kInputLayer) {
    throw InvalidArgument("an input layer needs a ColumnSet made with ColumnUse::kInputLayer");
  }
  for (const FeatureColumn& column : columns_->columns()) {
    table_of_column_.push_back(column.embedding() == nullptr ? 0 : add_table(column));
    offsets_.push_back(width_);
    width_ += column.width();
  }
  InputLayer::seed_from(0, "");
}

InputLayer::~InputLayer() = default;

std::size_t InputLayer::add_table(const FeatureColumn& column) {
  const EmbeddingTable& wanted = *column.embedding();
  const auto found = std::ranges::find_if(
      tables_, [&](const Table& table) { return table.options.name == wanted.name; });
  if (found != tables_.end()) {
    const EmbeddingTable& there = found->options;
    if (there.rows != wanted.rows || there.dimension != wanted.dimension ||
        there.trainable != wanted.trainable) {
      throw InvalidArgument(
          "column {}: it shares the table {} [{}, {}], but wants [{}, {}]: both must agree, also "
          "on "
          "trainable",
          column.name(), wanted.name, there.rows, there.dimension, wanted.rows, wanted.dimension);
    }
    return static_cast<std::size_t>(found - tables_.begin());
  }
  Table table{.options = wanted, .weights = {}};
  table.weights =
      register_parameter(parameter_key(wanted.name + "/embedding_weights"),
                         torch::empty({wanted.rows, wanted.dimension}), wanted.trainable);
  if (wanted.trainable) table.number = trained_++;
  tables_.push_back(std::move(table));
  return tables_.size() - 1;
}

void InputLayer::seed_from(std::uint64_t seed, const std::string& name) {
  for (Table& table : tables_) {
    const double stddev = table.options.initial_stddev > 0
                              ? table.options.initial_stddev
                              : 1.0 / std::sqrt(static_cast<double>(table.options.dimension));
    truncated_normal(static_cast<float>(stddev))(table.weights,
                                                 derive_key(seed, name + "." + table.options.name));
  }
}

bool InputLayer::has_gradients() const { return trained_ > 0 && at::GradMode::is_enabled(); }

torch::Tensor InputLayer::forward(const Features& features) {
  return forward(columns_->pieces(features));
}

torch::Tensor InputLayer::forward(const std::vector<ColumnPiece>& pieces) {
  // Numbers alone are the layer's output already.
  if (tables_.empty() && pieces.size() == 1) return std::get<at::Tensor>(pieces[0].value);
  const bool libtorchs_gradients = has_gradients() && gradients_ == nullptr;
  const bool loops = !tables_.empty() && !libtorchs_gradients &&
                     !internal::needs_tensor_operations(tables_.front().weights);
  return loops ? forward_by_loops(pieces) : forward_by_tensors(pieces);
}

torch::Tensor InputLayer::forward_by_loops(const std::vector<ColumnPiece>& pieces) {
  const std::int64_t rows = rows_of(pieces.front().value);
  at::Tensor output(at::detail::empty_cpu({rows, width_}, at::kFloat));
  const auto width = static_cast<std::size_t>(width_);
  Batch batch{.width = width, .tables = trained_};
  for (const ColumnPiece& piece : pieces) {
    float* out = output.data_ptr<float>() + offsets_[piece.first];
    if (const auto* block = std::get_if<at::Tensor>(&piece.value)) {
      const at::Tensor numbers = block->contiguous();
      const auto size = numbers.size(1);
      const float* source = numbers.data_ptr<float>();
      for (std::int64_t row = 0; row < rows; ++row, out += width, source += size) {
        std::copy_n(source, size, out);
      }
      continue;
    }
    const Table& table = tables_[table_of_column_[piece.first]];
    const EmbeddingTable& options = *columns_->columns()[piece.first].embedding();
    const float* weights = table.weights.data_ptr<float>();
    const auto dimension = static_cast<std::size_t>(options.dimension);
    auto ids = internal::column_ids(std::get<RaggedColumn>(piece.value), options.combiner,
                                    options.rows, columns_->columns()[piece.first].name());
    if (options.max_norm) limit_norms(ids, weights, dimension, *options.max_norm);
    for (std::int64_t row = 0; row < rows; ++row) std::fill_n(out + row * width_, dimension, 0.0F);
    internal::add_table_rows(ids.view(), weights, dimension, out, width);
    if (table.number == kNotTrained) continue;
    batch.embeddings.push_back({.table = table.number,
                                .row_count = options.rows,
                                .dimension = dimension,
                                .offset = static_cast<std::size_t>(offsets_[piece.first]),
                                .ids = std::move(ids),
                                .limited = options.max_norm ? table.weights.detach() : at::Tensor(),
                                .max_norm = static_cast<float>(options.max_norm.value_or(0))});
  }
  if (has_gradients()) {
    internal::set_node(output, std::make_unique<Node>(std::move(batch), gradients_), {});
  }
  return output;
}

torch::Tensor InputLayer::forward_by_tensors(const std::vector<ColumnPiece>& pieces) {
  std::vector<torch::Tensor> parts;
  for (const ColumnPiece& piece : pieces) {
    if (const auto* block = std::get_if<at::Tensor>(&piece.value)) {
      parts.push_back(*block);
      continue;
    }
    const auto& ids = std::get<RaggedColumn>(piece.value);
    const auto& weights = tables_[table_of_column_[piece.first]].weights;
    const EmbeddingTable& options = *columns_->columns()[piece.first].embedding();
    if (internal::is_tracing()) {
      parts.push_back(internal::lookup(weights, ids, options.combiner, options.max_norm));
      continue;
    }
    auto rows = internal::table_rows(weights, ids);
    if (options.max_norm) rows = internal::with_limited_norms(rows, *options.max_norm);
    const auto zeros = internal::zero_rows(piece.value, options.dimension, weights);
    parts.push_back(internal::add_by_row(zeros, ids, options.combiner, rows));
  }
  return torch::cat(parts, 1);
}

std::vector<at::Tensor> InputLayer::tables() const {
  std::vector<at::Tensor> trained;
  for (const Table& table : tables_) {
    if (table.options.trainable) trained.push_back(table.weights);
  }
  return trained;
}

void InputLayer::keep_row_gradients() {
  gradients_ = std::make_shared<internal::TableGradients>(trained_);
}

std::vector<RowGradient> InputLayer::take_row_gradients() {
  return gradients_ == nullptr ? std::vector<RowGradient>(trained_) : gradients_->take();
}

}  // namespace muster
