#pragma once

#include <string>
#include <string_view>

#include "muster/saved_model/graph/tensor_value.h"
#include "muster/tensor.pb.h"

namespace muster::serving {

/// A tensor as a client sent it: raw, or one by one, where the last value goes on to the end of the
/// shape. `alias` is its name, for the message. Throws InvalidArgument as TensorFlow Serving does,
/// and for more than `most_bytes`: a few bytes can claim any shape.
graph::TensorValue tensor_of(const muster::proto::TensorProto& proto, std::string_view alias,
                             std::size_t most_bytes);

/// The same one by one, as TensorFlow Serving answers, or raw.
void write_tensor(const graph::TensorValue& tensor, bool raw, muster::proto::TensorProto& out);

/// Such a message with its values one by one, as protobuf writes it in JSON: all fields, by the
/// names that they have in the file of the message.
std::string tensor_proto_json(const graph::TensorValue& tensor);

}  // namespace muster::serving
