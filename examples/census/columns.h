#pragma once

#include <memory>
#include <vector>

#include "examples/census/flags.h"
#include "muster/muster.h"

namespace census {

/// Columns that the models read. One that two of them share is made once, so that its ids are too.
struct Columns {
  muster::FeatureColumnList wide{};
  muster::FeatureColumnList deep{};
  muster::FeatureColumnList trees{};
};

Columns make_columns(const Flags& flags);
/// The column sets of --model, which turn features into its inputs.
std::vector<std::shared_ptr<const muster::ColumnSet>> column_sets(const Flags& flags,
                                                                  const Columns& columns);

}  // namespace census
