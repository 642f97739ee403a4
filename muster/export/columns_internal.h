#pragma once

#include <map>
#include <string>
#include <vector>

#include "muster/data/features/column.h"
#include "muster/export/graph_tables_internal.h"
#include "muster/export/receiver_internal.h"
#include "muster/export/translation_internal.h"

namespace muster::exporting {

/// Writes feature columns as operations of a graph: what ColumnSet::pieces() computes, out of raw
/// features of a receiver. Throws NotFound, naming column and feature, for a feature that the
/// receiver does not give, InvalidArgument for one of a type that the column does not read,
/// Unimplemented for a kind of column that has no such form.
class ColumnGraph {
 public:
  ColumnGraph(const GraphFeatures& features, GraphTables& tables, GraphBuilder& builder)
      : features_(features), tables_(tables), builder_(builder) {}

  ColumnNodes nodes_of(const ColumnInput& input);

 private:
  /// The shape of a sparse matrix: a node that gives it, or else a matrix that has it. Only crosses
  /// read it.
  struct MatrixShape {
    std::string node{};
    std::string matrix{};
    graph::DataType type = graph::DataType::kInt64;
  };
  /// Ids as a sparse matrix.
  struct Ids {
    std::string indices{};
    std::string values{};
    MatrixShape shape{};
    std::string weights{};
    bool some_negative = false;
  };
  /// Words or whole numbers as a sparse matrix, without what stands for a missing value.
  struct Words {
    graph::DataType type = graph::DataType::kString;
    std::string indices{};
    std::string values{};
    MatrixShape shape{};
    bool dense = false;
  };

  const GraphFeature& feature(const std::string& key, const internal::Column& column) const;
  std::string matrix(const GraphFeature& feature);
  Words words(const std::string& key, const internal::Column& column);
  Words checked_words(const std::string& key, const internal::Column& column, CategoryType type);
  std::string strings(const Words& words);

  const Ids& ids(const internal::Column& column);
  Ids make_ids(const internal::Column& column);
  Ids hashed(const internal::HashBucketColumn& column);
  Ids looked_up(const internal::VocabularyColumn& column);
  Ids identity(const internal::IdentityColumn& column);
  Ids bucketized(const internal::BucketizedColumn& column);
  Ids weighted(const internal::WeightedColumn& column);
  Ids crossed(const internal::CrossedColumn& column);
  Ids kept(const Ids& all, bool positive_only);

  std::string numbers(const internal::Column& column);
  std::string numeric(const internal::NumericColumn& column);
  std::string buckets(const internal::BucketizedColumn& column);
  std::string indicator(const internal::IndicatorColumn& column);
  std::string computed(const internal::FunctionColumn& column);
  /// The numbers of all, as one matrix.
  std::string side_by_side(const FeatureColumnList& columns);

  ColumnNodes id_nodes(const internal::Column& column, bool embedded);

  std::string compare(const char* op, const std::string& a, const std::string& b,
                      graph::DataType type);
  std::string gather_nd(const std::string& from, const std::string& places, graph::DataType type);
  std::string reshape(const std::string& tensor, const std::vector<std::int64_t>& sizes,
                      graph::DataType type);
  std::string shape64(const std::string& tensor, graph::DataType type);
  std::string node_of(const MatrixShape& shape);

  const GraphFeatures& features_;
  GraphTables& tables_;
  GraphBuilder& builder_;
  std::map<const internal::Column*, Ids> ids_;
  std::map<const internal::Column*, std::string> numeric_;
  std::map<std::pair<const internal::Column*, bool>, ColumnNodes> id_nodes_;
  std::map<std::string, Words> words_;
};

}  // namespace muster::exporting
