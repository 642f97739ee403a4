#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "muster/data/records/parse_spec.h"
#include "muster/saved_model/executor/op_table_internal.h"

namespace muster::executor {

/// The kind of list that holds a feature of this type. Throws InvalidArgument for types that
/// Examples have not.
FeatureKind feature_kind(graph::DataType type);

/// The types that an attribute lists; none where it is missing.
std::vector<graph::DataType> types_of(const graph::NodeDef& node, const char* name);

/// A feature of a fixed number of values, whose default is the input of this number; an empty one
/// makes the feature a must.
FixedLen dense_spec(const Inputs& inputs, std::size_t index, graph::DataType type,
                    const std::vector<std::int64_t>& shape);

/// All values of a column.
Value values_of(const ParsedColumn& column, std::vector<std::int64_t> shape);

struct SparseColumn {
  at::Tensor indices;
  Value values;
  at::Tensor shape;
};

/// The values of a column of VarLen by Example and number.
SparseColumn sparse_column(const ParsedColumn& column);

}  // namespace muster::executor
