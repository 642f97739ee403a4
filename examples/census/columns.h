#pragma once

#include <memory>
#include <vector>

#include "examples/census/flags.h"
#include "muster/muster.h"

namespace census {

/// What the models read. A column that two of them hold is made once, so that its ids are too.
struct Columns {
  muster::FeatureColumnList wide{};
  muster::FeatureColumnList deep{};
  muster::FeatureColumnList trees{};
};

Columns make_columns(const Flags& flags);
/// What the inputs of --model make of the features.
std::vector<std::shared_ptr<const muster::ColumnSet>> column_sets(const Flags& flags,
                                                                  const Columns& columns);

}  // namespace census
