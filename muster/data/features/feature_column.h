#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "muster/base/file_system.h"
#include "muster/data/features/features.h"
#include "muster/data/records/parse_spec.h"
#include "muster/data/text/tokenizer.h"

namespace muster {

namespace internal {
class Column;
}

/// How the ids of one example become one vector.
enum class Combiner { kMean, kSqrtN, kSum };

/// Description of an embedding column's table. The table itself belongs to the model.
struct EmbeddingTable {
  std::int64_t rows = 0;
  std::int64_t dimension = 0;
  Combiner combiner = Combiner::kMean;
  /// Stands before `embedding_weights` in the variable's name; columns that share a table give the
  /// same.
  std::string name{};
  /// Standard deviation of the truncated normal that fills it; 1 / sqrt(dimension) unless given.
  double initial_stddev = 0;
  /// Rows longer than this are scaled down to it before they are combined.
  std::optional<double> max_norm{};
  bool trainable = true;
  /// Where its first values come from; both set or both empty. `estimator/` fulfils the wish.
  Path checkpoint_to_load_from{};
  std::string tensor_name_in_checkpoint{};
};

/// Recipe for what a model reads of raw features, without data. An immutable handle; copies are
/// cheap. The functions below make them, with the words of tf.feature_column. They throw
/// InvalidArgument, naming the column, for arguments that cannot work.
class FeatureColumn {
 public:
  explicit FeatureColumn(std::shared_ptr<const internal::Column> column);

  const std::string& name() const;
  /// Gives ids: hash bucket, vocabulary, identity, weighted, crossed, bucketized.
  bool is_categorical() const;
  /// Gives numbers: numeric, bucketized (one-hot), indicator, embedding.
  bool is_dense() const;
  /// Gives sequences, for a model that reads steps.
  bool is_sequence() const;
  /// Number of ids of a categorical column; all ids are below it.
  std::int64_t num_buckets() const;
  /// Numbers per example of a dense column.
  std::int64_t width() const;
  /// Table of an embedding column; null for others.
  const EmbeddingTable* embedding() const;
  /// Features of a tf.Example that the column needs.
  FeatureSpecs parse_specs() const;

  const internal::Column& internal() const { return *column_; }
  const std::shared_ptr<const internal::Column>& shared() const { return column_; }

 private:
  std::shared_ptr<const internal::Column> column_;
};

using FeatureColumnList = std::vector<FeatureColumn>;

struct NumericColumnOptions {
  std::vector<std::int64_t> shape{1};
  /// Stands for a missing value when Examples are parsed: one number, or as many as the shape has.
  std::vector<float> default_value{};
  /// Applied to the whole batch [rows, ...].
  std::function<at::Tensor(const at::Tensor&)> normalizer{};
};
FeatureColumn numeric_column(std::string key, NumericColumnOptions options = {});

/// Numbers that a function makes of other columns' numbers: how a program adds a kind of column.
struct FunctionColumnOptions {
  /// Dense columns without variables; the function gets their numbers side by side.
  std::vector<FeatureColumn> sources{};
  /// Numbers per example that it gives; 0 for as many as it gets.
  std::int64_t width = 0;
  /// From float [rows, widths of the sources] to [rows, width], each row by itself. An export
  /// traces it, so it computes with the tensor and does not look at its values.
  std::function<at::Tensor(const at::Tensor&)> function{};
};
FeatureColumn function_column(std::string name, FunctionColumnOptions options);

/// Bucket i holds boundaries[i - 1] <= x < boundaries[i]. The name is `<source>_bucketized`.
FeatureColumn bucketized_column(const FeatureColumn& source, std::vector<float> boundaries);

enum class CategoryType { kString, kInt };

FeatureColumn categorical_column_with_hash_bucket(std::string key, std::int64_t hash_bucket_size,
                                                  CategoryType type = CategoryType::kString);

struct VocabularyOptions {
  /// The id of words that are not in the vocabulary; -1 drops them. Excludes num_oov_buckets.
  std::int64_t default_value = -1;
  /// Hash such words into this many more buckets.
  std::int64_t num_oov_buckets = 0;
};
FeatureColumn categorical_column_with_vocabulary_list(std::string key,
                                                      std::vector<std::string> vocabulary,
                                                      VocabularyOptions options = {});
FeatureColumn categorical_column_with_vocabulary_list(std::string key,
                                                      std::vector<std::int64_t> vocabulary,
                                                      VocabularyOptions options = {});
/// One word a line, the id is the line's number. `vocabulary_size` takes the first so many lines.
FeatureColumn categorical_column_with_vocabulary_file(
    std::string key, const Path& file, std::optional<std::int64_t> vocabulary_size = {},
    CategoryType type = CategoryType::kString, VocabularyOptions options = {});

/// An id out of range fails unless there is a default.
FeatureColumn categorical_column_with_identity(std::string key, std::int64_t num_buckets,
                                               std::optional<std::int64_t> default_value = {});

/// The tokens of text: as many ids for an example as its strings have tokens, without special ones,
/// the first `max_tokens` of them where that is not 0. A graph has no tokenizer, so that an export
/// refuses it: one that takes ids has an identity column.
FeatureColumn categorical_column_with_tokenizer(std::string key, TokenizerPtr tokenizer,
                                                std::int64_t max_tokens = 0);

/// The name is `<categorical>_weighted_by_<weight_key>`.
FeatureColumn weighted_categorical_column(const FeatureColumn& categorical, std::string weight_key);

/// A key of a cross: a raw feature by name, of strings or ids, or a categorical column that is
/// neither hashed nor weighted.
using CrossKey = std::variant<std::string, FeatureColumn>;
/// Every combination of one value of each key, hashed. The name is the keys' names, sorted, joined
/// by `_X_`. Nested crosses are flattened. As in TensorFlow, columns and ragged features are hashed
/// before dense features, else in the order of the keys: keys that begin with the columns give the
/// same ids for dense features (CSV rows) and for ragged ones (parsed Examples).
FeatureColumn crossed_column(std::vector<CrossKey> keys, std::int64_t hash_bucket_size,
                             std::optional<std::uint64_t> hash_key = {});

/// How often each id occurs. The name is `<categorical>_indicator`.
FeatureColumn indicator_column(const FeatureColumn& categorical);

struct EmbeddingColumnOptions {
  Combiner combiner = Combiner::kMean;
  std::optional<double> initial_stddev{};
  Path checkpoint_to_load_from{};
  std::string tensor_name_in_checkpoint{};
  std::optional<double> max_norm{};
  bool trainable = true;
};
/// The name is `<categorical>_embedding`.
FeatureColumn embedding_column(const FeatureColumn& categorical, std::int64_t dimension,
                               EmbeddingColumnOptions options = {});
/// One table for all, which must have the same number of buckets; in the order given.
FeatureColumnList shared_embedding_columns(const FeatureColumnList& categoricals,
                                           std::int64_t dimension,
                                           EmbeddingColumnOptions options = {});

FeatureColumn sequence_numeric_column(std::string key, NumericColumnOptions options = {});
FeatureColumn sequence_categorical_column_with_hash_bucket(
    std::string key, std::int64_t hash_bucket_size, CategoryType type = CategoryType::kString);
FeatureColumn sequence_categorical_column_with_identity(
    std::string key, std::int64_t num_buckets, std::optional<std::int64_t> default_value = {});
FeatureColumn sequence_categorical_column_with_vocabulary_list(std::string key,
                                                               std::vector<std::string> vocabulary,
                                                               VocabularyOptions options = {});
FeatureColumn sequence_categorical_column_with_vocabulary_file(
    std::string key, const Path& file, std::optional<std::int64_t> vocabulary_size = {},
    VocabularyOptions options = {});
FeatureColumn sequence_categorical_column_with_tokenizer(std::string key, TokenizerPtr tokenizer,
                                                         std::int64_t max_tokens = 0);

/// Features of a tf.Example that all columns need. Throws InvalidArgument, naming the key and both
/// columns, where they disagree.
FeatureSpecs make_parse_example_spec(const FeatureColumnList& columns);

}  // namespace muster
