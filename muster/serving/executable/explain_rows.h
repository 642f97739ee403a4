#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "muster/saved_model/executor/executable_model.h"
#include "muster/serving/codec/instances.h"

namespace muster::serving {

/// Explains each row of the inputs by itself; the baseline, if there is one, has one row. Throws as
/// ExecutableModel::explain does; errors name the row.
std::vector<executor::Explanation> explain_rows(const executor::ExecutableModel& model,
                                                std::string_view signature, const Tensors& inputs,
                                                const executor::ExplainOptions& options,
                                                const std::optional<Tensors>& baseline);

}  // namespace muster::serving
