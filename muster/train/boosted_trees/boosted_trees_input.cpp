#include <torch/types.h>

#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/train/boosted_trees/boosted_trees_input_internal.h"

namespace muster::internal {
namespace {

/// One column of many batches, to be joined.
class JoinedColumn {
 public:
  void add(const std::string& name, const FeatureValue& value) {
    if (const auto* tensor = std::get_if<at::Tensor>(&value)) {
      tensors_.push_back(*tensor);
    } else if (const auto* strings = std::get_if<StringColumn>(&value);
               strings != nullptr && !strings->is_ragged()) {
      // Copies: what the views look at would keep whole batches in memory.
      for (const std::string_view word : strings->values()) words_.emplace_back(word);
      shape_ = strings->shape();
      rows_ += strings->rows();
    } else {
      throw InvalidArgument("boosted trees: {} is {}, where each example has one value", name,
                            describe(value));
    }
  }

  FeatureValue join() {
    if (!tensors_.empty()) return at::cat(tensors_);
    shape_[0] = rows_;
    return StringColumn(std::move(words_), shape_);
  }

 private:
  std::vector<at::Tensor> tensors_;
  std::vector<std::string> words_;
  std::vector<std::int64_t> shape_;
  std::int64_t rows_ = 0;
};

using JoinedColumns = std::map<std::string, JoinedColumn>;

Features join(JoinedColumns columns) {
  Features features;
  for (auto& [name, column] : columns) features.add(name, column.join());
  return features;
}

void check_size(const SparseRows& rows, const BoostedTreesOptions& options) {
  if (rows.bytes() <= options.max_input_bytes) return;
  throw ResourceExhausted(
      "the training input has given {} examples, {} bytes as trees read them, and has not ended. "
      "Boosted trees read it once: leave repeat() out, or set n_batches_per_layer to the batches "
      "of "
      "one pass; if it does end, raise max_input_bytes, which is {}",
      rows.rows(), rows.bytes(), options.max_input_bytes);
}

}  // namespace

TreeTrainingSet read_training_set(const InputFn& input_fn, const InputContext& context,
                                  const TreeFeatures& features,
                                  const BoostedTreesOptions& options) {
  TreeTrainingSet set{.rows = features.make_rows()};
  JoinedColumns labels;
  JoinedColumns weights;
  const auto input = input_fn(context).iterate();
  std::int64_t batches = 0;
  while (!options.n_batches_per_layer || batches < *options.n_batches_per_layer) {
    const auto batch = input->next();
    if (!batch) break;
    batch->size();  // Throws if features and labels do not have the same.
    features.append(batch->features, set.rows);
    check_size(set.rows, options);
    for (const auto& [name, value] : batch->labels) labels[name].add(name, value);
    if (!options.weight_column.empty()) {
      weights[options.weight_column].add(options.weight_column,
                                         batch->features.at(options.weight_column));
    }
    ++batches;
  }
  if (set.rows.rows() == 0) throw InvalidArgument("train: the input had no example");
  if (options.n_batches_per_layer && batches < *options.n_batches_per_layer) {
    log::warning("the input ended after {} batches, n_batches_per_layer is {}", batches,
                 *options.n_batches_per_layer);
  }
  set.head_batch = {.features = join(std::move(weights)), .labels = join(std::move(labels))};
  return set;
}

}  // namespace muster::internal
