#pragma once

#include "muster/export/program.h"
#include "muster/features/features.h"
#include "muster/model/model.h"

namespace muster::exporting {

/// Traces what the model predicts, with two batches of different sizes made of the example's rows,
/// in eval mode; the model's mode is put back. What differs between the two as the batch size does
/// becomes a symbolic size. Give two rows or more that are not alike.
///
/// Throws InvalidArgument, naming the operation and its module, where the two traces differ in
/// another way: the model decides by its input's values, which a graph cannot. Throws Unimplemented
/// for features or predictions that are strings or ragged, except the classes of heads.
Program trace(Model& model, const Head* head, const Features& example);

}  // namespace muster::exporting
