#pragma once

#include "muster/graph/codec_internal.h"
#include "muster/graph/saved_model.h"

namespace muster::graph {

/// TensorFlow's AssetFileDef.
AssetFile decode_asset(const Message& message, Decoding& decoding);

/// TensorFlow's SignatureDef.
std::string encode_signature(const SignatureDef& signature);

}  // namespace muster::graph
