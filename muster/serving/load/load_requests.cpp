#include "muster/serving/load/load_requests.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <span>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/lines.h"
#include "muster/base/printable.h"
#include "muster/base/random.h"
#include "muster/data/records/record_reader.h"
#include "muster/inference.pb.h"
#include "muster/serving.pb.h"
#include "muster/serving/codec/predict_request.h"
#include "muster/serving/codec/predictions.h"
#include "muster/serving/load/model_address_internal.h"
#include "muster/serving/protocols/open_inference/inference_words.h"

namespace muster::serving {
namespace {

namespace wire = tensorflow::serving;
using graph::DataType;
using graph::SignatureDef;
using graph::TensorInfo;
using graph::TensorValue;

// Limits of one generated tensor, and of all prepared requests of a model.
constexpr std::int64_t kMostGeneratedElements = std::int64_t{1} << 26;
constexpr std::size_t kMostPreparedBytes = std::size_t{1} << 31;
constexpr std::size_t kMostDimensions = 254;
constexpr const char* kPredictCall = "/tensorflow.serving.PredictionService/Predict";

std::string random_word(Random& random) {
  std::string word;
  for (int i = 0; i < 8; ++i) word += static_cast<char>('a' + random.below(26));
  return word;
}

template <typename T, typename Make>
void fill(TensorValue& tensor, std::size_t count, const Make& make) {
  tensor.bytes.resize(count * sizeof(T));
  for (std::size_t i = 0; i < count; ++i) {
    const T value = static_cast<T>(make());
    std::memcpy(tensor.bytes.data() + i * sizeof(T), &value, sizeof(T));
  }
}

TensorValue generated_tensor(const std::string& name, const TensorInfo& info, std::int64_t rows,
                             Random& random) {
  TensorValue out{.dtype = graph::without_ref(info.dtype), .shape = info.shape.dims};
  if (info.shape.unknown_rank) out.shape = {rows};
  if (out.shape.size() > kMostDimensions) {
    throw InvalidArgument("input {} has {} dimensions", printable_line(name), out.shape.size());
  }
  for (std::size_t i = 0; i < out.shape.size(); ++i) {
    if (out.shape[i] < 0) out.shape[i] = i == 0 ? rows : 1;
  }
  const auto elements = graph::element_count(out.shape);
  if (!elements || *elements > kMostGeneratedElements) {
    throw InvalidArgument("input {} has too many elements to make them up: ({})",
                          printable_line(name), fmt::join(out.shape, ", "));
  }
  const auto count = static_cast<std::size_t>(*elements);
  const auto number = [&] { return random.uniform(); };
  const auto digit = [&] { return random.below(10); };
  switch (out.dtype) {
    case DataType::kFloat:
      fill<float>(out, count, number);
      break;
    case DataType::kDouble:
      fill<double>(out, count, number);
      break;
    case DataType::kHalf:
      fill<std::uint16_t>(out, count,
                          [&] { return oip::half_bits(static_cast<float>(random.uniform())); });
      break;
    case DataType::kInt8:
    case DataType::kUint8:
      fill<std::uint8_t>(out, count, digit);
      break;
    case DataType::kInt16:
    case DataType::kUint16:
      fill<std::uint16_t>(out, count, digit);
      break;
    case DataType::kInt32:
    case DataType::kUint32:
      fill<std::uint32_t>(out, count, digit);
      break;
    case DataType::kInt64:
    case DataType::kUint64:
      fill<std::uint64_t>(out, count, digit);
      break;
    case DataType::kBool:
      fill<std::uint8_t>(out, count, [&] { return random.coin() ? 1 : 0; });
      break;
    case DataType::kString:
      out.strings.reserve(count);
      for (std::size_t i = 0; i < count; ++i) out.strings.push_back(random_word(random));
      break;
    default:
      throw Unimplemented("values of input {} cannot be made up: its type is {}; give --instances",
                          printable_line(name), graph::name_of(out.dtype));
  }
  return out;
}

// In rows where the inputs have as many of them as the request, else as whole tensors.
std::string rest_body(const ModelAddress& model, const SignatureDef& signature,
                      const Tensors& inputs) {
  std::optional<std::int64_t> rows;
  bool is_row_form = !inputs.empty();
  for (const auto& [name, tensor] : inputs) {
    const auto info = signature.inputs.find(name);
    const bool is_open = info != signature.inputs.end() &&
                         (info->second.shape.unknown_rank ||
                          (!info->second.shape.dims.empty() && info->second.shape.dims[0] < 0));
    is_row_form = is_row_form && is_open && !tensor.shape.empty() &&
                  rows.value_or(tensor.shape[0]) == tensor.shape[0];
    if (!tensor.shape.empty()) rows = tensor.shape[0];
  }
  std::string body = "{";
  if (!model.signature.empty())
    body += "\"signature_name\": " + json_string(model.signature) + ", ";
  if (is_row_form) {
    const Predictions table{Tensors(inputs)};
    body += "\"instances\": [";
    for (std::int64_t row = 0; row < table.size(); ++row) {
      if (row > 0) body += ", ";
      body += table.json(row);
    }
    return body + "]}";
  }
  body += "\"inputs\": {";
  bool is_first = true;
  for (const auto& [name, tensor] : inputs) {
    if (!is_first) body += ", ";
    is_first = false;
    body += json_string(name) + ": " + tensor_json(tensor, name.ends_with("_bytes"));
  }
  return body + "}}";
}

std::string oip_body(const Tensors& inputs) {
  std::string body = "{\"inputs\": [";
  bool is_first = true;
  for (const auto& [name, tensor] : inputs) {
    if (!is_first) body += ", ";
    is_first = false;
    body += fmt::format("{{\"name\": {}, \"shape\": [{}], \"datatype\": \"{}\", \"data\": {}}}",
                        json_string(name), fmt::join(tensor.shape, ", "),
                        oip::datatype_of(tensor.dtype), tensor_json(tensor, /*as_bytes=*/false));
  }
  return body + "]}";
}

std::string predict_message(const ModelAddress& model, const Tensors& inputs) {
  wire::PredictRequest request;
  set_spec(model, *request.mutable_model_spec());
  if (!model.signature.empty()) request.mutable_model_spec()->set_signature_name(model.signature);
  for (const auto& [name, tensor] : inputs) {
    auto& proto = (*request.mutable_inputs())[name];
    proto.set_dtype(static_cast<muster::proto::DataType>(tensor.dtype));
    for (const auto size : tensor.shape) proto.mutable_tensor_shape()->add_dim()->set_size(size);
    for (const auto& text : tensor.strings) proto.add_string_val(text);
    if (tensor.dtype != DataType::kString) proto.set_tensor_content(tensor.bytes);
  }
  return request.SerializeAsString();
}

std::string infer_message(const ModelAddress& model, const Tensors& inputs) {
  inference::ModelInferRequest request;
  request.set_model_name(model.name);
  request.set_model_version(model.version);
  for (const auto& [name, tensor] : inputs) {
    auto& input = *request.add_inputs();
    input.set_name(name);
    input.set_datatype(std::string(oip::datatype_of(tensor.dtype)));
    for (const auto size : tensor.shape) input.add_shape(size);
    request.add_raw_input_contents(oip::raw_bytes(tensor));
  }
  return request.SerializeAsString();
}

/// Requests of one model, within memory that a mistaken flag cannot exceed.
class RequestList {
 public:
  void add(PreparedRequest request) {
    bytes_ += request.body.size();
    if (bytes_ > kMostPreparedBytes) {
      throw ResourceExhausted(
          "the requests of a model take more than 2 GiB: give fewer rows, --distinct or instances");
    }
    list_.push_back(std::move(request));
  }
  std::vector<PreparedRequest> take() { return std::move(list_); }

 private:
  std::vector<PreparedRequest> list_{};
  std::size_t bytes_ = 0;
};

template <typename Request>
PreparedRequest recorded_call(const char* method, Request request, const ModelAddress& model) {
  set_spec(model, *request.mutable_model_spec());
  if (!model.signature.empty()) request.mutable_model_spec()->set_signature_name(model.signature);
  return {.path = fmt::format("/tensorflow.serving.PredictionService/{}", method),
          .body = request.SerializeAsString()};
}

PreparedRequest recorded_multi_inference(wire::MultiInferenceRequest request,
                                         const ModelAddress& model) {
  for (auto& task : *request.mutable_tasks()) set_spec(model, *task.mutable_model_spec());
  return {.path = "/tensorflow.serving.PredictionService/MultiInference",
          .body = request.SerializeAsString()};
}

PreparedRequest recorded_request(const wire::PredictionLog& record, const ModelAddress& model) {
  switch (record.log_type_case()) {
    case wire::PredictionLog::kPredictLog:
      return recorded_call("Predict", record.predict_log().request(), model);
    case wire::PredictionLog::kClassifyLog:
      return recorded_call("Classify", record.classify_log().request(), model);
    case wire::PredictionLog::kRegressLog:
      return recorded_call("Regress", record.regress_log().request(), model);
    case wire::PredictionLog::kMultiInferenceLog:
      return recorded_multi_inference(record.multi_inference_log().request(), model);
    default:
      throw DataLoss("it holds no request");
  }
}

}  // namespace

Tensors generated_inputs(const SignatureDef& signature, std::int64_t rows, std::uint64_t seed) {
  Random random(seed);
  Tensors inputs;
  for (const auto& [name, info] : signature.inputs) {
    inputs.emplace(name, generated_tensor(name, info, rows, random));
  }
  return inputs;
}

PreparedRequest encoded_request(LoadProtocol protocol, const ModelAddress& model,
                                const SignatureDef& signature, const Tensors& inputs) {
  switch (protocol) {
    case LoadProtocol::kRest:
      return {.path = model_path(protocol, model) + ":predict",
              .body = rest_body(model, signature, inputs)};
    case LoadProtocol::kOipRest:
      return {.path = model_path(protocol, model) + "/infer", .body = oip_body(inputs)};
    case LoadProtocol::kGrpc:
      return {.path = kPredictCall, .body = predict_message(model, inputs)};
    default:
      return {.path = "/inference.GRPCInferenceService/ModelInfer",
              .body = infer_message(model, inputs)};
  }
}

std::vector<PreparedRequest> generated_requests(LoadProtocol protocol, const ModelAddress& model,
                                                const SignatureDef& signature,
                                                const GeneratedRequests& options) {
  if (options.rows <= 0) throw InvalidArgument("rows must be positive: {}", options.rows);
  RequestList list;
  for (std::size_t i = 0; i < options.distinct; ++i) {
    list.add(
        encoded_request(protocol, model, signature,
                        generated_inputs(signature, options.rows, derive_key(options.seed, i))));
  }
  return list.take();
}

std::vector<PreparedRequest> requests_of_lines(LoadProtocol protocol, const ModelAddress& model,
                                               const SignatureDef& signature, std::string_view text,
                                               std::size_t rows) {
  if (rows == 0) throw InvalidArgument("rows must be positive: 0");
  // Finds the line that is no JSON.
  (void)Instances::from_json_lines(text);
  const auto lines = lines_of(without_byte_order_mark(text));
  RequestList list;
  for (std::size_t first = 0; first < lines.size(); first += rows) {
    const auto some = std::span(lines).subspan(first, std::min(rows, lines.size() - first));
    if (protocol == LoadProtocol::kRest) {
      std::string body = "{";
      if (!model.signature.empty()) {
        body += "\"signature_name\": " + json_string(model.signature) + ", ";
      }
      list.add({.path = model_path(protocol, model) + ":predict",
                .body = fmt::format("{}\"instances\": [{}]}}", body, fmt::join(some, ", "))});
      continue;
    }
    try {
      const auto instances = Instances::from_json_lines(fmt::format("{}\n", fmt::join(some, "\n")));
      list.add(encoded_request(protocol, model, signature, instances.tensors(signature)));
    } catch (Error& error) {
      error.add_context(
          fmt::format("the request of lines {} to {}", first + 1, first + some.size()));
      throw;
    }
  }
  return list.take();
}

std::vector<PreparedRequest> recorded_requests(LoadProtocol protocol, const ModelAddress& model,
                                               const Path& path) {
  if (protocol != LoadProtocol::kGrpc) {
    throw InvalidArgument("{}: recorded requests are those of the protocol grpc, not of {}",
                          path.string(), name_of(protocol));
  }
  RequestList list;
  RecordReader reader(path);
  while (const auto bytes = reader.next()) {
    const std::uint64_t number = reader.record_number() - 1;
    wire::PredictionLog record;
    if (!record.ParseFromArray(bytes->data(), static_cast<int>(bytes->size()))) {
      throw DataLoss("{}: record {} is no PredictionLog", path.string(), number);
    }
    try {
      list.add(recorded_request(record, model));
    } catch (Error& error) {
      error.add_context(fmt::format("{}: record {}", path.string(), number));
      throw;
    }
  }
  std::vector<PreparedRequest> requests = list.take();
  if (requests.empty()) throw InvalidArgument("{} has no records", path.string());
  return requests;
}

}  // namespace muster::serving
