#pragma once

#include <string>
#include <string_view>

#include "muster/saved_model/graph/saved_model.h"
#include "muster/serving/load/client_session.h"

namespace muster::serving {

/// By which of its protocols a server is asked: TensorFlow Serving's and the Open Inference
/// Protocol (OIP), REST and gRPC.
enum class LoadProtocol { kRest, kGrpc, kOipRest, kOipGrpc };

/// "rest", "grpc", "oip", "oip-grpc".
std::string_view name_of(LoadProtocol protocol);
/// Throws InvalidArgument for another word.
LoadProtocol load_protocol_named(std::string_view name);
bool is_grpc(LoadProtocol protocol);

/// A model on the server.
struct ModelAddress {
  std::string name{};
  /// Empty: the version that the server chooses.
  std::string version{};
  /// Empty: serving_default. The Open Inference Protocol has no signatures.
  std::string signature{};
};

/// Asks for the inputs of a model.
PreparedRequest metadata_request(LoadProtocol protocol, const ModelAddress& model);
/// The model's signature out of the answer. Throws InvalidArgument for an answer that has none,
/// NotFound for a signature that the model has not, with the names of those it has.
graph::SignatureDef signature_from_metadata(LoadProtocol protocol, const ModelAddress& model,
                                            std::string_view answer);

}  // namespace muster::serving
