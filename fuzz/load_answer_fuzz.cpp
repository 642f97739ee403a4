// The bytes that a server under load answers with: HTTP/1.1 and gRPC over HTTP/2, in pieces, and
// what it tells of a model's inputs, of which requests are made.

#include <google/protobuf/stubs/logging.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "fuzz/fuzz.h"
#include "muster/base/error.h"
#include "muster/serving/grpc/http2_client_fake.h"
#include "muster/serving/load/client_session.h"
#include "muster/serving/load/load_requests.h"

namespace {

using namespace muster;
using namespace muster::serving;

void talk(std::string_view bytes, std::size_t piece, bool over_grpc) {
  const PreparedRequest request{.path = "/v1/models/m:predict", .body = "{}"};
  const ClientSession::Options options{.most_answer_bytes = 1 << 16, .keep_bodies = true};
  int answers = 0;
  const auto on_answer = [&](const ClientAnswer&) { ++answers; };
  const auto session =
      over_grpc ? grpc_session(options, on_answer) : http1_session(options, on_answer);
  session->send(1, request);
  std::string out;
  session->take_output(out);
  while (!bytes.empty() && session->receive(bytes.substr(0, piece))) {
    bytes.remove_prefix(std::min(piece, bytes.size()));
    session->take_output(out);
  }
  session->close("closed");
  // Every request has one answer.
  if (answers != 1) __builtin_trap();
}

void read_metadata(std::string_view bytes, LoadProtocol protocol) {
  try {
    const ModelAddress model{.name = "m"};
    const graph::SignatureDef signature = signature_from_metadata(protocol, model, bytes);
    std::size_t elements = 0;
    for (const auto& [name, info] : signature.inputs) {
      for (const auto size : info.shape.dims) {
        if (size > 100) return;
        elements += static_cast<std::size_t>(std::max<std::int64_t>(size, 1));
      }
    }
    if (elements > 10) return;
    encoded_request(protocol, model, signature, generated_inputs(signature, 1, 0));
  } catch (const Error&) {
    // As it should be.
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const google::protobuf::LogSilencer quiet;  // It logs every text that is not UTF-8.
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  // The first byte says what reads the rest, and in which pieces it comes.
  if (bytes.empty()) return 0;
  const auto first = static_cast<std::uint8_t>(bytes[0]);
  const std::string_view rest = bytes.substr(1);
  const std::size_t piece = first / 8 == 0 ? rest.size() : first / 8;
  switch (first % 8) {
    case 0:
      talk(rest, piece, /*over_grpc=*/false);
      break;
    case 1:
      talk(rest, piece, /*over_grpc=*/true);
      break;
    default:
      read_metadata(rest, static_cast<LoadProtocol>(first % 4));
  }
  return 0;
}

std::vector<std::string> muster::fuzz::seeds() {
  namespace h = http2;
  const std::string settings = h::frame(h::kSettings, 0, 0, "");
  return {
      '\0' + std::string("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbody"),
      '\x38' + std::string("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n"
                           "\r\n"),
      '\x01' + settings + h::frame(h::kHeaders, h::kEndOfHeaders, 1, h::header(":status", "200")) +
          h::message(1, "answer", 0) +
          h::frame(h::kHeaders, h::kEndOfHeaders | h::kEndOfStream, 1,
                   h::header("grpc-status", "8") + h::header("grpc-message", "a%20b")),
      '\x39' + settings + h::reset(1),
      '\x04' + std::string(R"({"metadata": {"signature_def": {"signature_def": {"serving_default":
          {"inputs": {"x": {"dtype": "DT_FLOAT", "tensor_shape": {"dim": [{"size": "-1"}],
          "unknown_rank": false}}}}}}}})"),
      '\x06' + std::string(R"({"inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 2]}]})"),
      '\x07' + std::string("\x0a\x01m\x22\x0c\x0a\x01x\x12\x04"
                           "FP32\x1a\x01\x02")};
}

muster::fuzz::MemoryBound muster::fuzz::memory_bound() {
  return {.base_bytes = std::size_t{4} << 20, .bytes_per_input_byte = 256};
}
