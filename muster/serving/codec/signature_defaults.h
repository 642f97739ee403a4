#pragma once

#include "muster/saved_model/graph/saved_model.h"
#include "muster/serving/codec/instances.h"

namespace muster::serving {

/// Whether the default of an input is one row of a batch of any size, such as exports of ours have
/// for features that training has a default for. Other defaults stand for whole inputs.
bool is_row_default(const graph::TensorInfo& info, const graph::TensorValue& value);

/// Throws InvalidArgument when a default, repeated for this many rows, takes more than 256 MiB.
void check_default_bytes(const std::string& name, const graph::TensorValue& value,
                         std::int64_t rows);

/// Adds the inputs that a request leaves out and the signature has a default for. Where every input
/// has a batch dimension of any size, the default of a row is repeated for as many rows as the
/// inputs of the request have, if they agree. Throws as check_default_bytes().
void add_defaults(const graph::SignatureDef& signature, Tensors& inputs);

}  // namespace muster::serving
