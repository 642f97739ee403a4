#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/file_system.h"
#include "muster/saved_model/graph/saved_model.h"
#include "muster/serving/codec/instances.h"
#include "muster/serving/load/client_session.h"
#include "muster/serving/load/load_protocol.h"

namespace muster::serving {

struct GeneratedRequests {
  /// Rows of a request where the first size of an input is open; other open sizes are 1.
  std::int64_t rows = 1;
  /// Different requests.
  std::size_t distinct = 16;
  std::uint64_t seed = 0;
};

/// Inputs of random values that fit the signature: numbers from 0 to 1, integers from 0 to 9,
/// words. Throws Unimplemented for types that cannot be made up, InvalidArgument for sizes that are
/// too large, both with the input's name.
Tensors generated_inputs(const graph::SignatureDef& signature, std::int64_t rows,
                         std::uint64_t seed);
PreparedRequest encoded_request(LoadProtocol protocol, const ModelAddress& model,
                                const graph::SignatureDef& signature, const Tensors& inputs);
std::vector<PreparedRequest> generated_requests(LoadProtocol protocol, const ModelAddress& model,
                                                const graph::SignatureDef& signature,
                                                const GeneratedRequests& options);

/// Requests of lines of JSON, an instance each, `rows` of them in a request; the last one may have
/// fewer. Throws InvalidArgument, with the line, for what is no JSON or does not fit.
std::vector<PreparedRequest> requests_of_lines(LoadProtocol protocol, const ModelAddress& model,
                                               const graph::SignatureDef& signature,
                                               std::string_view text, std::size_t rows);

/// Requests that a server has recorded: a TFRecord file of TensorFlow Serving's PredictionLog. They
/// are sent to `model`, whatever model they were for; those with a signature keep it unless `model`
/// names one. Throws InvalidArgument for a protocol other than kGrpc, DataLoss with file and record
/// for what is no PredictionLog.
std::vector<PreparedRequest> recorded_requests(LoadProtocol protocol, const ModelAddress& model,
                                               const Path& path);

}  // namespace muster::serving
