#pragma once

#include <functional>
#include <vector>

#include "muster/data/features/column_set.h"
#include "muster/data/features/features.h"
#include "muster/export/program.h"
#include "muster/nn/model/model.h"

namespace muster::exporting {

/// Traces what the model predicts, with two batches of different sizes made of the example's rows,
/// in eval mode; the model's mode is put back. What differs between the two as the batch size does
/// becomes a symbolic size. Give two rows or more that are not alike.
///
/// Throws InvalidArgument, naming the operation and its module, where the two traces differ in
/// another way: the model decides by its input's values, which a graph cannot. Throws Unimplemented
/// for predictions that are strings or ragged, except the classes of heads.
///
/// The output of feature columns for the example (those of InputLayer and LinearModel modules) is
/// computed before the trace and goes into it like features: Program::columns. Strings and ragged
/// features are for columns alone.
Program trace(Model& model, const Head* head, const Features& example);

/// The columns of the model's InputLayer and LinearModel modules, which own them.
std::vector<const ColumnSet*> column_sets_of(const Model& model);

/// A function that keeps the rows, such as a column's normalizer, as a program of one feature "x"
/// and one output.
Program trace_function(const std::function<at::Tensor(const at::Tensor&)>& function,
                       const at::Tensor& example);

}  // namespace muster::exporting
