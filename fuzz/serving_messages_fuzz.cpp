// Messages of TensorFlow Serving's gRPC: the first byte says which call, the rest is the request,
// asked of a server with one small model.

#include <cstdlib>
#include <string>
#include <string_view>

#include "fuzz/fuzz.h"
#include "muster/base/error.h"
#include "muster/serving/core/service_fake.h"
#include "muster/serving/protocols/tensorflow/tensorflow_requests_internal.h"

namespace {

using namespace muster;
using namespace muster::serving;
namespace tfs = tensorflow::serving;

template <class Request, class Response, class Function>
void call(std::string_view bytes, const Function& function) {
  Request request;
  if (!request.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return;
  Response response;
  try {
    function(request, response);
  } catch (const muster::Error&) {
    // Refused, as it should be.
  }
}

// The answer is a message.
template <class Response, class Start>
void call(Service& service, std::string_view bytes, const Start& start) {
  try {
    if (!Response().ParseFromString(answer_of(start, service, bytes))) std::abort();
  } catch (const muster::Error&) {
    // Refused, as it should be.
  }
}

constexpr TensorFlowCallOptions kOptions{.raw_answers = false, .most_tensor_bytes = 1 << 20};

// The answer as text, or the error.
std::string outcome(Service& service, std::string_view bytes) {
  tfs::PredictResponse response;
  try {
    if (!response.ParseFromString(predict(service, bytes, {}, kOptions))) std::abort();
  } catch (const muster::Error& error) {
    return std::to_string(static_cast<int>(error.code())) + error.message();
  }
  return response.ShortDebugString();
}

// Read from bytes and from a message, a request has the same outcome.
void compare_predict(Service& service, std::string_view bytes) {
  const std::string by_bytes = outcome(service, bytes);
  if (!tfs::PredictRequest().ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return;
  if (by_bytes != outcome(service, std::string(bytes) + kUnknownField)) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static Service& service = (new FakeService)->service();
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 6) {
    case 0:
      compare_predict(service, bytes);
      break;
    case 1:
      call<tfs::ClassificationResponse>(service, bytes, start_classify);
      break;
    case 2:
      call<tfs::RegressionResponse>(service, bytes, start_regress);
      break;
    case 3:
      call<tfs::MultiInferenceResponse>(service, bytes, start_multi_inference);
      break;
    case 4:
      call<tfs::GetModelMetadataRequest, tfs::GetModelMetadataResponse>(
          bytes,
          [&](auto& request, auto& response) { model_metadata(service, request, response); });
      break;
    default:
      call<tfs::GetModelStatusRequest, tfs::GetModelStatusResponse>(
          bytes, [&](auto& request, auto& response) { model_status(service, request, response); });
  }
  return 0;
}

std::vector<std::string> muster::fuzz::seeds() {
  const auto seed = [](char call, const auto& message) {
    return call + message.SerializeAsString();
  };
  const auto name = [](tfs::ModelSpec& spec, const char* signature) {
    spec.set_name("m");
    spec.set_signature_name(signature);
  };
  tfs::PredictRequest floats;
  name(*floats.mutable_model_spec(), "");
  auto& x = (*floats.mutable_inputs())["x"];
  x.set_dtype(muster::proto::DT_FLOAT);
  x.mutable_tensor_shape()->add_dim()->set_size(2);
  x.add_float_val(1.5F);
  x.add_float_val(-2.0F);
  tfs::PredictRequest raw = floats;
  (*raw.mutable_inputs())["x"].clear_float_val();
  (*raw.mutable_inputs())["x"].set_tensor_content(std::string("\0\0\x80\x3f\0\0\0\x40", 8));
  raw.add_output_filter("y");
  tfs::PredictRequest two = floats;
  name(*two.mutable_model_spec(), "two");
  auto& text = (*two.mutable_inputs())["text"];
  text.set_dtype(muster::proto::DT_STRING);
  text.mutable_tensor_shape()->add_dim()->set_size(2);
  text.add_string_val("a");
  text.add_string_val("bc");

  tfs::ClassificationRequest classified;
  name(*classified.mutable_model_spec(), "classify");
  auto& example = *classified.mutable_input()->mutable_example_list()->add_examples();
  (*example.mutable_features()->mutable_feature())["a"].mutable_float_list()->add_value(1.5F);
  tfs::RegressionRequest regressed;
  name(*regressed.mutable_model_spec(), "regress");
  *regressed.mutable_input()->mutable_example_list_with_context()->add_examples() = example;
  *regressed.mutable_input()->mutable_example_list_with_context()->mutable_context() = example;
  tfs::MultiInferenceRequest multi;
  *multi.mutable_input() = classified.input();
  auto& task = *multi.add_tasks();
  name(*task.mutable_model_spec(), "classify");
  task.set_method_name(std::string(graph::kClassifyMethod));
  tfs::GetModelMetadataRequest metadata;
  name(*metadata.mutable_model_spec(), "");
  metadata.add_metadata_field("signature_def");
  tfs::GetModelStatusRequest status;
  name(*status.mutable_model_spec(), "");
  status.mutable_model_spec()->mutable_version()->set_value(1);
  return {seed(0, floats),    seed(0, raw),   seed(0, two),      seed(1, classified),
          seed(2, regressed), seed(3, multi), seed(4, metadata), seed(5, status)};
}

// A few bytes may claim a tensor of the most that a request may take: it and its copies, of input,
// batch and answer. And protobuf reserves 50 MB for a text that is cut.
muster::fuzz::MemoryBound muster::fuzz::memory_bound() {
  return {.base_bytes = std::size_t{64} << 20, .bytes_per_input_byte = 256};
}
