#include "muster/server/grpc_server.h"

#include <fmt/ranges.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/resource_quota.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <exception>

#include "muster/base/error.h"
#include "muster/base/thread_pool.h"
#include "muster/inference.grpc.pb.h"
#include "muster/server/inference_protocol.h"
#include "muster/server/protobuf_log_internal.h"
#include "muster/server/tensorflow_calls_internal.h"
#include "muster/serving.grpc.pb.h"
#include "muster/serving/signature_choice.h"

namespace muster::server {
namespace {

namespace tfs = tensorflow::serving;
using graph::DataType;
using graph::TensorValue;
using grpc::ServerContext;
using grpc::Status;

// TensorFlow Serving's limit: a status travels in a header, and those are small.
constexpr std::size_t kMostStatusBytes = 1024;
constexpr const char* kPushback = "grpc-retry-pushback-ms";
// Clients that keep connections alive every ten seconds are not sent away.
constexpr int kLeastPingMilliseconds = 9'000;

Deadline deadline_of(const ServerContext& context) {
  const auto deadline = context.deadline();
  const auto left = deadline - std::chrono::system_clock::now();
  // gRPC's "none" is the end of time.
  if (left > std::chrono::hours(24 * 365)) return Deadline::never();
  return Deadline::after(std::chrono::duration_cast<Deadline::Clock::duration>(left));
}

bool is_peer_on_this_host(const std::string& peer) {
  return peer.starts_with("ipv4:127.") || peer.starts_with("ipv6:[::1]") ||
         peer.starts_with("ipv6:%5B::1%5D") || peer.starts_with("ipv6:[::ffff:127.") ||
         peer.starts_with("ipv6:%5B::ffff:127.") || peer.starts_with("unix:");
}

void check_access(const Service& service, const ServerContext& context, Role role) {
  const auto found = context.client_metadata().find("authorization");
  const std::string_view given = found == context.client_metadata().end()
                                     ? std::string_view()
                                     : std::string_view(found->second.data(), found->second.size());
  service.access().check(role, given, is_peer_on_this_host(context.peer()));
}

/// Runs a handler and makes a status of what it throws.
template <typename Act>
Status at_edge(ServerContext& context, Act&& act) {
  try {
    act();
    return Status::OK;
  } catch (...) {
    Description failure = muster::describe(std::current_exception());
    if (failure.message.size() > kMostStatusBytes) {
      failure.message.resize(kMostStatusBytes);
      failure.message += "...TRUNCATED";
    }
    if (failure.code == ErrorCode::kResourceExhausted) {
      context.AddTrailingMetadata(kPushback, "1000");
    }
    return {static_cast<grpc::StatusCode>(failure.code), failure.message};
  }
}

// Without a copy.
grpc::Slice slice_of(std::string bytes) {
  auto* const held = new std::string(std::move(bytes));
  return {held->data(), held->size(), [](void* text) { delete static_cast<std::string*>(text); },
          held};
}

/// Written out where others inherit what protoc generates: Predict is answered from bytes.
class PredictionServiceImpl final : public grpc::Service {
 public:
  PredictionServiceImpl(server::Service& service, TensorFlowCallOptions options)
      : service_(service), options_(options) {
    add("/tensorflow.serving.PredictionService/Classify", &PredictionServiceImpl::classify_one);
    add("/tensorflow.serving.PredictionService/Regress", &PredictionServiceImpl::regress_one);
    add("/tensorflow.serving.PredictionService/Predict", &PredictionServiceImpl::predict_one);
    add("/tensorflow.serving.PredictionService/MultiInference", &PredictionServiceImpl::infer_many);
    add("/tensorflow.serving.PredictionService/GetModelMetadata",
        &PredictionServiceImpl::describe_model);
  }

 private:
  template <typename Request, typename Response>
  using Handle = Status (PredictionServiceImpl::*)(ServerContext& context, const Request& request,
                                                   Response& response);

  // The name is kept as it is.
  template <typename Request, typename Response>
  void add(const char* name, Handle<Request, Response> handle) {
    using Method = grpc::internal::RpcMethodHandler<PredictionServiceImpl, Request, Response>;
    AddMethod(new grpc::internal::RpcServiceMethod(
        name, grpc::internal::RpcMethod::NORMAL_RPC,
        new Method(
            [handle](PredictionServiceImpl* self, ServerContext* context, const Request* request,
                     Response* response) { return (self->*handle)(*context, *request, *response); },
            this)));
  }

  Status predict_one(ServerContext& context, const grpc::ByteBuffer& request,
                     grpc::ByteBuffer& response) {
    return handled(context, [&](const Caller& caller) {
      grpc::Slice bytes;
      if (!request.TrySingleSlice(&bytes).ok() && !request.DumpToSingleSlice(&bytes).ok()) {
        throw ResourceExhausted("the request cannot be held in one piece");
      }
      const grpc::Slice answer = slice_of(predict(
          service_, std::string_view(reinterpret_cast<const char*>(bytes.begin()), bytes.size()),
          caller, options_));
      response = grpc::ByteBuffer(&answer, 1);
    });
  }
  Status classify_one(ServerContext& context, const tfs::ClassificationRequest& request,
                      tfs::ClassificationResponse& response) {
    return handled(context,
                   [&](const Caller& caller) { classify(service_, request, caller, response); });
  }
  Status regress_one(ServerContext& context, const tfs::RegressionRequest& request,
                     tfs::RegressionResponse& response) {
    return handled(context,
                   [&](const Caller& caller) { regress(service_, request, caller, response); });
  }
  Status infer_many(ServerContext& context, const tfs::MultiInferenceRequest& request,
                    tfs::MultiInferenceResponse& response) {
    return handled(context, [&](const Caller& caller) {
      multi_inference(service_, request, caller, response);
    });
  }
  Status describe_model(ServerContext& context, const tfs::GetModelMetadataRequest& request,
                        tfs::GetModelMetadataResponse& response) {
    return handled(context, [&](const Caller&) { model_metadata(service_, request, response); });
  }

  template <typename Act>
  Status handled(ServerContext& context, Act&& act) {
    return at_edge(context, [&] {
      check_access(service_, context, Role::kPredict);
      act(Caller{.deadline = deadline_of(context)});
    });
  }

  server::Service& service_;
  TensorFlowCallOptions options_;
};

class ModelServiceImpl final : public tfs::ModelService::Service {
 public:
  explicit ModelServiceImpl(server::Service& service) : service_(service) {}

  Status GetModelStatus(ServerContext* context, const tfs::GetModelStatusRequest* request,
                        tfs::GetModelStatusResponse* response) override {
    return at_edge(*context, [&] {
      check_access(service_, *context, Role::kPredict);
      model_status(service_, *request, *response);
    });
  }
  Status HandleReloadConfigRequest(ServerContext* context, const tfs::ReloadConfigRequest* request,
                                   tfs::ReloadConfigResponse* response) override {
    return at_edge(*context, [&] {
      check_access(service_, *context, Role::kAdmin);
      reload_config(service_, *request, {.deadline = deadline_of(*context)}, *response);
    });
  }

 private:
  server::Service& service_;
};

// ------------------------------------------------------------------------------ inference

// An empty text is the newest.
VersionChoice inference_version(const std::string& text) {
  if (text.empty()) return {};
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 0) {
    throw InvalidArgument("failed to get model version from specified version string '{}'", text);
  }
  return {.number = number};
}

template <typename T, typename List>
void take_contents(const List& list, const oip::TensorHeader& header, std::int64_t elements,
                   std::string_view model, TensorValue& out) {
  if (list.size() != elements) {
    throw InvalidArgument(
        "unexpected number of elements {} for inference input '{}' for model '{}', "
        "expecting {}",
        list.size(), header.name, model, elements);
  }
  for (const auto& entry : list) {
    const T value = static_cast<T>(entry);
    out.bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
}

TensorValue tensor_from_contents(const oip::TensorHeader& header,
                                 const inference::InferTensorContents& contents,
                                 std::string_view model) {
  oip::EmptyTensor empty = oip::empty_tensor(header, model);
  TensorValue& out = empty.tensor;
  const auto take = [&]<typename T>(T, const auto& list) {
    take_contents<T>(list, header, empty.elements, model, out);
  };
  switch (out.dtype) {
    case DataType::kBool:
      take(bool{}, contents.bool_contents());
      break;
    case DataType::kInt8:
      take(std::int8_t{}, contents.int_contents());
      break;
    case DataType::kInt16:
      take(std::int16_t{}, contents.int_contents());
      break;
    case DataType::kInt32:
      take(std::int32_t{}, contents.int_contents());
      break;
    case DataType::kInt64:
      take(std::int64_t{}, contents.int64_contents());
      break;
    case DataType::kUint8:
      take(std::uint8_t{}, contents.uint_contents());
      break;
    case DataType::kUint16:
      take(std::uint16_t{}, contents.uint_contents());
      break;
    case DataType::kUint32:
      take(std::uint32_t{}, contents.uint_contents());
      break;
    case DataType::kUint64:
      take(std::uint64_t{}, contents.uint64_contents());
      break;
    case DataType::kFloat:
      take(float{}, contents.fp32_contents());
      break;
    case DataType::kDouble:
      take(double{}, contents.fp64_contents());
      break;
    case DataType::kString:
      if (contents.bytes_contents_size() != empty.elements) {
        throw InvalidArgument(
            "unexpected number of string elements {} for inference input '{}' for model '{}', "
            "expecting {}",
            contents.bytes_contents_size(), header.name, model, empty.elements);
      }
      out.strings.assign(contents.bytes_contents().begin(), contents.bytes_contents().end());
      break;
    default:
      throw InvalidArgument("{} can only be given in raw_input_contents, for input '{}'",
                            header.datatype, header.name);
  }
  return std::move(out);
}

bool has_contents(const inference::InferTensorContents& contents) {
  return contents.ByteSizeLong() > 0;
}

Tensors infer_inputs_of(const inference::ModelInferRequest& request) {
  const std::string& model = request.model_name();
  const bool raw = request.raw_input_contents_size() > 0;
  if (raw && request.raw_input_contents_size() != request.inputs_size()) {
    throw InvalidArgument(
        "expected {} raw_input_contents but got {} for model '{}': one for each input",
        request.inputs_size(), request.raw_input_contents_size(), model);
  }
  Tensors inputs;
  for (int i = 0; i < request.inputs_size(); ++i) {
    const auto& input = request.inputs(i);
    const oip::TensorHeader header{
        input.name(), input.datatype(), {input.shape().begin(), input.shape().end()}};
    if (inputs.contains(header.name)) {
      throw InvalidArgument("input '{}' is given twice for model '{}'", header.name, model);
    }
    if (raw && has_contents(input.contents())) {
      throw InvalidArgument(
          "contents field must not be specified when using raw_input_contents for '{}' for model "
          "'{}'",
          header.name, model);
    }
    inputs.emplace(header.name,
                   raw ? oip::tensor_from_raw(header, request.raw_input_contents(i), model)
                       : tensor_from_contents(header, input.contents(), model));
  }
  return inputs;
}

template <typename T, typename Add>
void each_number(const TensorValue& tensor, const Add& add) {
  for (std::size_t at = 0; at + sizeof(T) <= tensor.bytes.size(); at += sizeof(T)) {
    T value;
    std::memcpy(&value, tensor.bytes.data() + at, sizeof(T));
    add(value);
  }
}

// False for types that only travel raw.
bool write_contents(const TensorValue& tensor, inference::InferTensorContents& out) {
  const auto add_int = [&](auto value) { out.add_int_contents(value); };
  const auto add_uint = [&](auto value) { out.add_uint_contents(value); };
  switch (tensor.dtype) {
    case DataType::kBool:
      each_number<std::uint8_t>(tensor, [&](auto value) { out.add_bool_contents(value != 0); });
      return true;
    case DataType::kInt8:
      each_number<std::int8_t>(tensor, add_int);
      return true;
    case DataType::kInt16:
      each_number<std::int16_t>(tensor, add_int);
      return true;
    case DataType::kInt32:
      each_number<std::int32_t>(tensor, add_int);
      return true;
    case DataType::kInt64:
      each_number<std::int64_t>(tensor, [&](auto value) { out.add_int64_contents(value); });
      return true;
    case DataType::kUint8:
      each_number<std::uint8_t>(tensor, add_uint);
      return true;
    case DataType::kUint16:
      each_number<std::uint16_t>(tensor, add_uint);
      return true;
    case DataType::kUint32:
      each_number<std::uint32_t>(tensor, add_uint);
      return true;
    case DataType::kUint64:
      each_number<std::uint64_t>(tensor, [&](auto value) { out.add_uint64_contents(value); });
      return true;
    case DataType::kFloat:
      each_number<float>(tensor, [&](auto value) { out.add_fp32_contents(value); });
      return true;
    case DataType::kDouble:
      each_number<double>(tensor, [&](auto value) { out.add_fp64_contents(value); });
      return true;
    case DataType::kString:
      for (const std::string& text : tensor.strings) out.add_bytes_contents(text);
      return true;
    default:
      return false;
  }
}

void write_infer_answer(const inference::ModelInferRequest& request, const ModelVersion& version,
                        const Tensors& outputs, inference::ModelInferResponse& response) {
  response.set_model_name(version.model());
  response.set_model_version(std::to_string(version.number()));
  response.set_id(request.id());
  // Raw to whoever asked so; one answer is either all raw or not at all.
  bool raw = request.raw_input_contents_size() > 0;
  for (const auto& [name, tensor] : outputs) {
    raw = raw || tensor.dtype == DataType::kHalf || tensor.dtype == DataType::kBfloat16;
  }
  for (const auto& [name, tensor] : outputs) {
    auto* const out = response.add_outputs();
    out->set_name(name);
    out->set_datatype(std::string(oip::datatype_of(tensor.dtype)));
    for (const std::int64_t size : tensor.shape) out->add_shape(size);
    if (raw) {
      response.add_raw_output_contents(oip::raw_bytes(tensor));
    } else if (!write_contents(tensor, *out->mutable_contents())) {
      throw Unimplemented("output '{}' cannot be written", name);
    }
  }
}

std::string string_parameter(const inference::ModelInferRequest& request, const char* key) {
  const auto found = request.parameters().find(key);
  return found == request.parameters().end() ? std::string() : found->second.string_param();
}

// Zero where there is none, or a negative one.
std::uint64_t number_parameter(const inference::ModelInferRequest& request, const char* key) {
  const auto found = request.parameters().find(key);
  if (found == request.parameters().end()) return 0;
  if (found->second.has_uint64_param()) return found->second.uint64_param();
  return static_cast<std::uint64_t>(std::max<std::int64_t>(0, found->second.int64_param()));
}

Deadline deadline_with_timeout(const inference::ModelInferRequest& request, Deadline deadline) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 40;
  const std::uint64_t micros = std::min(number_parameter(request, "timeout"), kMost);
  if (micros == 0) return deadline;
  const Deadline wished = Deadline::after(std::chrono::microseconds(micros));
  return wished.time() < deadline.time() ? wished : deadline;
}

ModelVersionPtr find_inference_version(Service& service, const std::string& model,
                                       const std::string& version) {
  const VersionChoice choice = inference_version(version);
  try {
    return service.store().find(model, choice);
  } catch (const NotFound&) {
    if (choice.number) {
      throw NotFound("Request for unknown model: '{}' version {} is not found", model,
                     *choice.number);
    }
    throw NotFound("Request for unknown model: '{}' is not found", model);
  }
}

std::string inference_signature(const ModelVersion& version, const std::string& wish) {
  graph::MetaGraph meta;
  meta.signatures = version.signatures();
  return serving::choose_signature(meta, wish);
}

void infer(Service& service, const inference::ModelInferRequest& request, const Deadline& deadline,
           inference::ModelInferResponse& response) {
  const std::string& model = request.model_name();
  const ModelVersionPtr version = find_inference_version(service, model, request.model_version());
  Call call{.model = model,
            .version = {.number = version->number()},
            .entrypoint = "GRPC",
            .deadline = deadline_with_timeout(request, deadline),
            .priority = number_parameter(request, "priority")};
  service.run(call,
              [&](Call& prepared) {
                prepared.signature =
                    inference_signature(*version, string_parameter(request, "signature_name"));
              },
              {.inputs =
                   [&](const ModelVersion&, const graph::SignatureDef& signature) {
                     Tensors inputs = infer_inputs_of(request);
                     oip::check_inputs(model, signature, inputs);
                     return inputs;
                   },
               .answer =
                   [&](const ModelVersion&, BatchAnswer answer) {
                     std::vector<std::string> wanted;
                     for (const auto& output : request.outputs()) wanted.push_back(output.name());
                     oip::select_outputs(model, wanted, answer.outputs);
                     write_infer_answer(request, *version, answer.outputs, response);
                   }});
}

void write_tensor_metadata(const std::string& name, const graph::TensorInfo& info,
                           inference::ModelMetadataResponse::TensorMetadata& out) {
  out.set_name(name);
  out.set_datatype(std::string(oip::datatype_of(info.dtype)));
  for (const std::int64_t size : info.shape.dims) out.add_shape(size);
}

class InferenceServiceImpl final : public inference::GRPCInferenceService::Service {
 public:
  InferenceServiceImpl(server::Service& service, bool repository_control)
      : service_(service), repository_control_(repository_control) {}

  Status ServerLive(ServerContext*, const inference::ServerLiveRequest*,
                    inference::ServerLiveResponse* response) override {
    response->set_live(true);
    return Status::OK;
  }
  Status ServerReady(ServerContext*, const inference::ServerReadyRequest*,
                     inference::ServerReadyResponse* response) override {
    response->set_ready(service_.ready());
    return Status::OK;
  }
  Status ModelReady(ServerContext* context, const inference::ModelReadyRequest* request,
                    inference::ModelReadyResponse* response) override {
    return checked(*context, Role::kPredict, [&] {
      try {
        service_.store().find(request->name(), inference_version(request->version()));
        response->set_ready(true);
      } catch (const NotFound&) {
        response->set_ready(false);
      }
    });
  }
  Status ServerMetadata(ServerContext* context, const inference::ServerMetadataRequest*,
                        inference::ServerMetadataResponse* response) override {
    return checked(*context, Role::kPredict, [&] {
      response->set_name(oip::kServerName);
      response->set_version(std::string(server_version()));
      for (const char* name : {"model_repository", "statistics", "schedule_policy", "parameters"}) {
        response->add_extensions(name);
      }
    });
  }
  Status ModelMetadata(ServerContext* context, const inference::ModelMetadataRequest* request,
                       inference::ModelMetadataResponse* response) override {
    return checked(*context, Role::kPredict, [&] {
      const auto version = find_inference_version(service_, request->name(), request->version());
      const auto& signature = *version->find_signature(inference_signature(*version, ""));
      response->set_name(request->name());
      response->set_platform(oip::kPlatform);
      for (const VersionStatus& one : service_.store().status(request->name())) {
        if (one.state == VersionState::kAvailable) {
          response->add_versions(std::to_string(one.number));
        }
      }
      for (const auto& [name, info] : signature.inputs) {
        write_tensor_metadata(name, info, *response->add_inputs());
      }
      for (const auto& [name, info] : signature.outputs) {
        write_tensor_metadata(name, info, *response->add_outputs());
      }
    });
  }
  Status ModelInfer(ServerContext* context, const inference::ModelInferRequest* request,
                    inference::ModelInferResponse* response) override {
    return checked(*context, Role::kPredict,
                   [&] { infer(service_, *request, deadline_of(*context), *response); });
  }
  Status ModelStreamInfer(ServerContext* context,
                          grpc::ServerReaderWriter<inference::ModelStreamInferResponse,
                                                   inference::ModelInferRequest>* stream) override {
    return checked(*context, Role::kPredict, [&] {
      inference::ModelInferRequest request;
      while (stream->Read(&request)) {
        inference::ModelStreamInferResponse response;
        // A wrong request is told of; the stream goes on.
        try {
          infer(service_, request, deadline_of(*context), *response.mutable_infer_response());
        } catch (...) {
          response.mutable_infer_response()->Clear();
          response.mutable_infer_response()->set_id(request.id());
          response.set_error_message(muster::describe(std::current_exception()).message);
        }
        if (!stream->Write(response)) return;
      }
    });
  }
  Status ModelStatistics(ServerContext* context, const inference::ModelStatisticsRequest* request,
                         inference::ModelStatisticsResponse* response) override {
    return checked(*context, Role::kPredict, [&] { write_statistics(*request, *response); });
  }
  Status RepositoryIndex(ServerContext* context, const inference::RepositoryIndexRequest* request,
                         inference::RepositoryIndexResponse* response) override {
    return checked(*context, Role::kPredict, [&] { write_index(request->ready(), *response); });
  }
  Status RepositoryModelLoad(ServerContext* context,
                             const inference::RepositoryModelLoadRequest* request,
                             inference::RepositoryModelLoadResponse* response) override {
    return checked(*context, Role::kAdmin, [&] {
      const std::string& model = controlled_model(*request);
      service_.load(model, deadline_of(*context));
      // Triton's message has no fields, and its clients skip these.
      response->set_model_name(model);
      response->set_is_loaded(true);
    });
  }
  Status RepositoryModelUnload(ServerContext* context,
                               const inference::RepositoryModelUnloadRequest* request,
                               inference::RepositoryModelUnloadResponse* response) override {
    return checked(*context, Role::kAdmin, [&] {
      const std::string& model = controlled_model(*request);
      service_.unload(model);
      response->set_model_name(model);
      response->set_is_unloaded(true);
    });
  }

 private:
  template <typename Act>
  Status checked(ServerContext& context, Role role, Act&& act) {
    return at_edge(context, [&] {
      check_access(service_, context, role);
      act();
    });
  }

  template <typename Request>
  const std::string& controlled_model(const Request& request) const {
    if (!repository_control_) {
      throw Unavailable("explicit model load / unload is not allowed if polling is enabled");
    }
    return request.model_name().empty() ? request.repository_name() : request.model_name();
  }

  void write_statistics(const inference::ModelStatisticsRequest& request,
                        inference::ModelStatisticsResponse& response) {
    if (!request.name().empty()) {
      find_inference_version(service_, request.name(), request.version());
    }
    for (const ModelVersionPtr& version : service_.store().available()) {
      if (!request.name().empty() && version->model() != request.name()) continue;
      if (!request.version().empty() && std::to_string(version->number()) != request.version()) {
        continue;
      }
      const VersionCounts counts =
          service_.statistics().counts(version->model(), version->number());
      auto* const out = response.add_model_stats();
      out->set_name(version->model());
      out->set_version(std::to_string(version->number()));
      out->set_last_inference(counts.last_ms);
      out->set_inference_count(counts.rows);
      out->set_execution_count(static_cast<std::uint64_t>(std::llround(counts.executions)));
      const auto set = [](inference::StatisticDuration* duration, std::uint64_t count,
                          std::uint64_t ns) {
        duration->set_count(count);
        duration->set_ns(ns);
      };
      auto* const stats = out->mutable_inference_stats();
      set(stats->mutable_success(), counts.success, counts.success_ns);
      set(stats->mutable_fail(), counts.failure, counts.failure_ns);
      set(stats->mutable_queue(), counts.success, counts.queued_ns);
      set(stats->mutable_compute_infer(), counts.success, counts.computed_ns);
    }
  }

  void write_index(bool only_ready, inference::RepositoryIndexResponse& response) {
    for (const oip::IndexEntry& entry : oip::repository_index(service_, only_ready)) {
      auto* const out = response.add_models();
      out->set_name(entry.name);
      out->set_version(entry.version);
      out->set_state(std::string(entry.state));
      out->set_reason(entry.reason);
    }
  }

  server::Service& service_;
  bool repository_control_;
};

std::shared_ptr<grpc::ServerCredentials> credentials_of(const TlsOptions& tls) {
  if (!tls.enabled()) return grpc::InsecureServerCredentials();
  grpc::SslServerCredentialsOptions options(
      tls.require_client ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
                         : GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE);
  options.pem_root_certs = tls.client_ca;
  options.pem_key_cert_pairs.push_back({tls.key, tls.certificate});
  return grpc::SslServerCredentials(options);
}

void add_arguments(const std::vector<std::pair<std::string, std::string>>& arguments,
                   grpc::ServerBuilder& builder) {
  for (const auto& [name, value] : arguments) {
    int number = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (error == std::errc() && end == value.data() + value.size()) {
      builder.AddChannelArgument(name, number);
    } else {
      builder.AddChannelArgument(name, value);
    }
  }
}

}  // namespace

struct GrpcServer::Impl {
  PredictionServiceImpl prediction;
  ModelServiceImpl models;
  InferenceServiceImpl inference;
  int port = 0;
  std::unique_ptr<grpc::Server> server{};

  Impl(Service& service, const GrpcServerOptions& options)
      : prediction(service, {options.raw_answers, options.max_message_bytes}),
        models(service),
        inference(service, options.repository_control) {}
};

GrpcServer::GrpcServer(Service& service, GrpcServerOptions options)
    : impl_(std::make_unique<Impl>(service, options)) {
  quiet_protobuf();
  grpc::EnableDefaultHealthCheckService(true);
  if (options.reflection) grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  const auto credentials = credentials_of(options.tls);
  // Another server's port must be refused, not shared.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                             kLeastPingMilliseconds);
  builder.SetMaxReceiveMessageSize(static_cast<int>(
      std::min<std::size_t>(options.max_message_bytes, std::numeric_limits<int>::max())));
  builder.SetMaxSendMessageSize(-1);
  add_arguments(options.channel_arguments, builder);
  const bool is_v6 = options.address.find(':') != std::string::npos;
  const std::string host = options.address.empty() ? "[::]"
                           : is_v6                 ? "[" + options.address + "]"
                                                   : options.address;
  const std::string address = fmt::format("{}:{}", host, options.port);
  builder.AddListeningPort(address, credentials, &impl_->port);
  if (!options.socket_path.empty()) {
    builder.AddListeningPort("unix:" + options.socket_path, grpc::InsecureServerCredentials());
  }
  grpc::ResourceQuota quota("muster");
  const std::size_t threads =
      options.max_threads > 0 ? options.max_threads : 64 * ThreadPool::available_processors();
  quota.SetMaxThreads(static_cast<int>(threads));
  quota.Resize(options.max_total_bytes);
  service.limit_grpc_calls(threads);
  builder.SetResourceQuota(quota);
  builder.RegisterService(&impl_->prediction);
  builder.RegisterService(&impl_->models);
  builder.RegisterService(&impl_->inference);
  impl_->server = builder.BuildAndStart();
  if (!impl_->server || impl_->port == 0) {
    throw Unavailable("cannot listen on {} for gRPC: the port may be taken", address);
  }
  set_serving(true);
}

GrpcServer::~GrpcServer() { drain(Deadline::after(std::chrono::seconds(0))); }

std::uint16_t GrpcServer::port() const { return static_cast<std::uint16_t>(impl_->port); }

void GrpcServer::set_serving(bool serving) {
  auto* const health = impl_->server->GetHealthCheckService();
  if (health == nullptr) return;
  health->SetServingStatus(serving);
  // TensorFlow Serving's short names, and the full ones.
  for (const char* name :
       {"PredictionService", "ModelService", "tensorflow.serving.PredictionService",
        "tensorflow.serving.ModelService", "inference.GRPCInferenceService"}) {
    health->SetServingStatus(name, serving);
  }
}

void GrpcServer::drain(const Deadline& deadline) {
  if (!impl_->server) return;
  if (deadline.is_never()) {
    impl_->server->Shutdown();
  } else {
    impl_->server->Shutdown(
        std::chrono::system_clock::now() +
        std::chrono::duration_cast<std::chrono::system_clock::duration>(deadline.remaining()));
  }
  impl_->server->Wait();
}

}  // namespace muster::server
