#pragma once

#include "muster/saved_model/graph/codec_internal.h"
#include "muster/saved_model/graph/saved_model.h"

namespace muster::graph {

/// TensorFlow's AssetFileDef.
AssetFile decode_asset(const Message& message, Decoding& decoding);

/// TensorFlow's SignatureDef.
std::string encode_signature(const SignatureDef& signature);

}  // namespace muster::graph
