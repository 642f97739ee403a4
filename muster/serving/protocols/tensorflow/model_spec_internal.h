#pragma once

#include <string>

#include "muster/serving/protocols/tensorflow/tensorflow_calls_internal.h"

namespace muster::serving {

/// The call that a ModelSpec asks for. Throws InvalidArgument for one that was not given, or that
/// names no model.
Call call_of(const tensorflow::serving::ModelSpec& spec, bool given, const Caller& caller);

/// Writes the version and the signature that have answered.
void write_spec(const ModelVersion& version, const std::string& signature,
                tensorflow::serving::ModelSpec& out);

}  // namespace muster::serving
