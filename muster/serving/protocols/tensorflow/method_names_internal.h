#pragma once

#include "muster/saved_model/graph/saved_model.h"

/// TensorFlow Serving's --enable_signature_method_name_check: a signature says for which call it
/// was made. Models of TensorFlow 2 say predict in all of them, so the check is off by default.
namespace muster::serving {

/// Throws Internal, as TensorFlow Serving does, for a signature of none of its three calls.
void check_predict_method(const graph::SignatureDef& signature);
/// Throw InvalidArgument for a signature that was made for another call.
void check_classify_method(const graph::SignatureDef& signature);
void check_regress_method(const graph::SignatureDef& signature);

}  // namespace muster::serving
