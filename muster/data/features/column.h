#pragma once

// Classes behind FeatureColumn, one for each kind, which say all that another module needs to build
// the same thing, such as a graph. dynamic_cast tells the kinds apart.

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "muster/data/features/feature_column.h"
#include "muster/data/features/vocabulary.h"

namespace muster::internal {

class ColumnBatch;

/// Where each row's values are: `per_row` of them in every row or, if there are splits, row r has
/// those from splits[r] to splits[r + 1].
struct RowLayout {
  std::int64_t rows = 0;
  std::int64_t per_row = 1;
  /// int64 [rows + 1] on the CPU, or undefined, and its memory.
  at::Tensor splits{};
  const std::int64_t* starts = nullptr;

  std::int64_t begin(std::int64_t row) const { return starts ? starts[row] : row * per_row; }
  std::int64_t end(std::int64_t row) const { return begin(row + 1); }
  bool one_per_row() const { return !starts && per_row == 1; }
};

/// The ids of one column over a batch. A negative one stands for a value that counts for nothing.
struct ColumnIds {
  ColumnIds(RowLayout row_layout, std::int64_t size);

  RowLayout layout;
  /// int64 [size], and its memory.
  at::Tensor values;
  std::int64_t* data;
  std::int64_t size;
  /// float [size] on the CPU, or undefined.
  at::Tensor weights{};
  /// No id is negative.
  bool whole = true;
};

/// Gives ids.
class IdSource {
 public:
  virtual std::int64_t num_buckets() const = 0;
  /// Every id is below num_buckets(). Callers ask ColumnBatch::ids(), which computes once.
  virtual ColumnIds compute_ids(ColumnBatch& batch) const = 0;

 protected:
  ~IdSource() = default;
};

/// Gives numbers, without variables of a model.
class NumberSource {
 public:
  virtual std::int64_t width() const = 0;
  /// Writes row r from out[r * stride] on, where zeros are.
  virtual void fill(ColumnBatch& batch, float* out, std::int64_t stride) const = 0;

 protected:
  ~NumberSource() = default;
};

class Column {
 public:
  explicit Column(std::string name) : name_(std::move(name)) {}
  virtual ~Column() = default;
  Column(const Column&) = delete;
  Column& operator=(const Column&) = delete;

  const std::string& name() const { return name_; }
  virtual FeatureSpecs parse_specs() const = 0;
  /// These are null where the column is nothing of the kind.
  virtual const IdSource* ids() const { return nullptr; }
  virtual const NumberSource* numbers() const { return nullptr; }
  virtual const EmbeddingTable* embedding() const { return nullptr; }
  /// Column that a sequence column applies to each step; null for others.
  virtual const Column* step() const { return nullptr; }

 private:
  std::string name_;
};

class NumericColumn final : public Column, public NumberSource {
 public:
  NumericColumn(std::string key, NumericColumnOptions options);

  const std::string& key() const { return name(); }
  const NumericColumnOptions& options() const { return options_; }
  FeatureSpecs parse_specs() const override;
  const NumberSource* numbers() const override { return this; }
  std::int64_t width() const override { return width_; }
  void fill(ColumnBatch& batch, float* out, std::int64_t stride) const override;
  /// rows * width() numbers of any type on the CPU, contiguous, after the normalizer. Callers ask
  /// ColumnBatch::numbers(), which computes once.
  at::Tensor compute_numbers(ColumnBatch& batch) const;

 private:
  NumericColumnOptions options_;
  std::int64_t width_;
};

class BucketizedColumn final : public Column, public IdSource, public NumberSource {
 public:
  BucketizedColumn(const FeatureColumn& source, std::vector<float> boundaries);

  const NumericColumn& source() const { return *numeric_; }
  const std::vector<float>& boundaries() const { return boundaries_; }
  FeatureSpecs parse_specs() const override { return source_.parse_specs(); }
  const IdSource* ids() const override { return this; }
  const NumberSource* numbers() const override { return this; }
  std::int64_t num_buckets() const override { return width(); }
  std::int64_t width() const override;
  ColumnIds compute_ids(ColumnBatch& batch) const override;
  void fill(ColumnBatch& batch, float* out, std::int64_t stride) const override;

 private:
  FeatureColumn source_;
  const NumericColumn* numeric_;
  std::vector<float> boundaries_;
};

class HashBucketColumn final : public Column, public IdSource {
 public:
  HashBucketColumn(std::string key, std::int64_t hash_bucket_size, CategoryType type);

  const std::string& key() const { return name(); }
  CategoryType type() const { return type_; }
  FeatureSpecs parse_specs() const override;
  const IdSource* ids() const override { return this; }
  std::int64_t num_buckets() const override { return hash_bucket_size_; }
  ColumnIds compute_ids(ColumnBatch& batch) const override;

 private:
  std::int64_t hash_bucket_size_;
  CategoryType type_;
};

class VocabularyColumn final : public Column, public IdSource {
 public:
  /// `file` is empty for a list.
  VocabularyColumn(std::string key, Vocabulary vocabulary, CategoryType type,
                   VocabularyOptions options, Path file);

  const std::string& key() const { return name(); }
  CategoryType type() const { return type_; }
  /// Vocabulary; numbers stand in it as decimal text.
  const Vocabulary& vocabulary() const { return vocabulary_; }
  const VocabularyOptions& options() const { return options_; }
  const Path& file() const { return file_; }
  FeatureSpecs parse_specs() const override;
  const IdSource* ids() const override { return this; }
  std::int64_t num_buckets() const override {
    return vocabulary_.size() + options_.num_oov_buckets;
  }
  ColumnIds compute_ids(ColumnBatch& batch) const override;

 private:
  Vocabulary vocabulary_;
  CategoryType type_;
  VocabularyOptions options_;
  Path file_;
};

class IdentityColumn final : public Column, public IdSource {
 public:
  IdentityColumn(std::string key, std::int64_t num_buckets,
                 std::optional<std::int64_t> default_value);

  const std::string& key() const { return name(); }
  std::optional<std::int64_t> default_value() const { return default_value_; }
  FeatureSpecs parse_specs() const override;
  const IdSource* ids() const override { return this; }
  std::int64_t num_buckets() const override { return num_buckets_; }
  ColumnIds compute_ids(ColumnBatch& batch) const override;

 private:
  std::int64_t num_buckets_;
  std::optional<std::int64_t> default_value_;
};

class TokenizerColumn final : public Column, public IdSource {
 public:
  TokenizerColumn(std::string key, TokenizerPtr tokenizer, std::int64_t max_tokens);

  const std::string& key() const { return name(); }
  FeatureSpecs parse_specs() const override;
  const IdSource* ids() const override { return this; }
  std::int64_t num_buckets() const override { return tokenizer_->size(); }
  ColumnIds compute_ids(ColumnBatch& batch) const override;

 private:
  TokenizerPtr tokenizer_;
  std::int64_t max_tokens_;
};

class WeightedColumn final : public Column, public IdSource {
 public:
  WeightedColumn(const FeatureColumn& categorical, std::string weight_key);

  const Column& categorical() const { return categorical_.internal(); }
  const std::string& weight_key() const { return weight_key_; }
  FeatureSpecs parse_specs() const override;
  const IdSource* ids() const override { return this; }
  std::int64_t num_buckets() const override { return categorical_.num_buckets(); }
  ColumnIds compute_ids(ColumnBatch& batch) const override;

 private:
  FeatureColumn categorical_;
  std::string weight_key_;
};

class CrossedColumn final : public Column, public IdSource {
 public:
  /// `keys` without crosses among them.
  CrossedColumn(std::vector<CrossKey> keys, std::int64_t hash_bucket_size, std::uint64_t hash_key);

  /// In the order given.
  const std::vector<CrossKey>& keys() const { return keys_; }
  std::uint64_t hash_key() const { return hash_key_; }
  FeatureSpecs parse_specs() const override;
  const IdSource* ids() const override { return this; }
  std::int64_t num_buckets() const override { return hash_bucket_size_; }
  ColumnIds compute_ids(ColumnBatch& batch) const override;

 private:
  std::vector<CrossKey> keys_;
  std::int64_t hash_bucket_size_;
  std::uint64_t hash_key_;
};

class IndicatorColumn final : public Column, public NumberSource {
 public:
  explicit IndicatorColumn(const FeatureColumn& categorical);

  const Column& categorical() const { return categorical_.internal(); }
  FeatureSpecs parse_specs() const override { return categorical_.parse_specs(); }
  const NumberSource* numbers() const override { return this; }
  std::int64_t width() const override { return categorical_.num_buckets(); }
  void fill(ColumnBatch& batch, float* out, std::int64_t stride) const override;

 private:
  FeatureColumn categorical_;
};

class FunctionColumn final : public Column, public NumberSource {
 public:
  FunctionColumn(std::string name, FunctionColumnOptions options);

  const std::vector<FeatureColumn>& sources() const { return options_.sources; }
  const std::function<at::Tensor(const at::Tensor&)>& function() const { return options_.function; }
  /// Numbers per example that the function gets.
  std::int64_t source_width() const { return source_width_; }
  FeatureSpecs parse_specs() const override { return make_parse_example_spec(options_.sources); }
  const NumberSource* numbers() const override { return this; }
  std::int64_t width() const override { return options_.width; }
  void fill(ColumnBatch& batch, float* out, std::int64_t stride) const override;

 private:
  FunctionColumnOptions options_;
  std::int64_t source_width_ = 0;
};

class EmbeddingColumn final : public Column {
 public:
  EmbeddingColumn(std::string name, const FeatureColumn& categorical, EmbeddingTable table);

  const Column& categorical() const { return categorical_.internal(); }
  FeatureSpecs parse_specs() const override { return categorical_.parse_specs(); }
  const EmbeddingTable* embedding() const override { return &table_; }

 private:
  FeatureColumn categorical_;
  EmbeddingTable table_;
};

class SequenceColumn final : public Column {
 public:
  /// `step` is numeric or categorical.
  explicit SequenceColumn(const FeatureColumn& step);

  FeatureSpecs parse_specs() const override;
  const Column* step() const override { return &step_.internal(); }

 private:
  FeatureColumn step_;
};

/// Throws InvalidArgument, naming the maker of columns that wants one ("embedding_column"), unless
/// the column is categorical and no sequence.
const FeatureColumn& require_categorical(const FeatureColumn& column, std::string_view maker);
/// Throws InvalidArgument, naming the maker of columns, for an empty key.
std::string require_key(std::string key, std::string_view maker);

/// A column of this kind behind its handle.
template <typename Kind, typename... Args>
FeatureColumn make_column(Args&&... args) {
  return FeatureColumn(std::make_shared<const Kind>(std::forward<Args>(args)...));
}

}  // namespace muster::internal
