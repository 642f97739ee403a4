#include "muster/server/grpc_server.h"

#include <fmt/ranges.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/resource_quota.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <exception>

#include "muster/base/error.h"
#include "muster/base/thread_pool.h"
#include "muster/inference.pb.h"
#include "muster/server/grpc_calls_internal.h"
#include "muster/server/grpc_health_internal.h"
#include "muster/server/grpc_reflection_internal.h"
#include "muster/server/inference_protocol.h"
#include "muster/server/protobuf_log_internal.h"
#include "muster/server/tensorflow_calls_internal.h"
#include "muster/serving.pb.h"
#include "muster/serving/signature_choice.h"

namespace muster::server {
namespace {

namespace tfs = tensorflow::serving;
using graph::DataType;
using graph::TensorValue;
using grpc::Status;

// TensorFlow Serving's limit: a status travels in a header, and those are small.
constexpr std::size_t kMostStatusBytes = 1024;
constexpr const char* kPushback = "grpc-retry-pushback-ms";
// Clients that keep connections alive every ten seconds are not sent away.
constexpr int kLeastPingMilliseconds = 9'000;
// Of one connection at a time; clients wait with more.
constexpr std::size_t kMostStreams = 1'000;
// Calls of a connection that are not done, for each stream that it may have open. Others are of
// streams that the client has reset.
constexpr std::size_t kCallsPerStream = 2;

Deadline deadline_of(const GrpcContext& context) {
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

void check_access(const Service& service, const GrpcContext& context, Role role) {
  const auto found = context.client_metadata().find("authorization");
  const std::string_view given = found == context.client_metadata().end()
                                     ? std::string_view()
                                     : std::string_view(found->second.data(), found->second.size());
  service.access().check(role, given, is_peer_on_this_host(context.peer()));
}

/// Runs a handler and makes a status of what it throws.
template <typename Act>
Status at_edge(GrpcContext& context, Act&& act) {
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

// Calls of both kinds are answered with the status of an Error.
constexpr GrpcWork kPrediction = GrpcWork::kShort;
constexpr GrpcWork kAdministration = GrpcWork::kLong;

template <typename Self, typename Request, typename Response>
auto bound(Self* self, Status (Self::*act)(GrpcContext&, const Request&, Response&)) {
  return std::function<Status(GrpcContext&, const Request&, Response&)>(
      [self, act](GrpcContext& context, const Request& request, Response& response) {
        return (self->*act)(context, request, response);
      });
}

/// Predict is answered from bytes, the others from messages.
class PredictionServiceImpl final : public GrpcService {
 public:
  PredictionServiceImpl(GrpcCalls& calls, server::Service& service, TensorFlowCallOptions options)
      : GrpcService(calls), service_(service), options_(options) {
    using Self = PredictionServiceImpl;
    add("/tensorflow.serving.PredictionService/Classify", kPrediction,
        bound(this, &Self::classify_one));
    add("/tensorflow.serving.PredictionService/Regress", kPrediction,
        bound(this, &Self::regress_one));
    add_bytes("/tensorflow.serving.PredictionService/Predict", kPrediction,
              bound(this, &Self::predict_one));
    add("/tensorflow.serving.PredictionService/MultiInference", kPrediction,
        bound(this, &Self::infer_many));
    add("/tensorflow.serving.PredictionService/GetModelMetadata", kPrediction,
        bound(this, &Self::describe_model));
  }

 private:
  Status predict_one(GrpcContext& context, const grpc::ByteBuffer& request,
                     grpc::ByteBuffer& response) {
    return handled(context, [&](const Caller& caller) {
      const grpc::Slice bytes = one_slice(request);
      response = buffer_of(predict(service_, text_of(bytes), caller, options_));
    });
  }
  Status classify_one(GrpcContext& context, const tfs::ClassificationRequest& request,
                      tfs::ClassificationResponse& response) {
    return handled(context,
                   [&](const Caller& caller) { classify(service_, request, caller, response); });
  }
  Status regress_one(GrpcContext& context, const tfs::RegressionRequest& request,
                     tfs::RegressionResponse& response) {
    return handled(context,
                   [&](const Caller& caller) { regress(service_, request, caller, response); });
  }
  Status infer_many(GrpcContext& context, const tfs::MultiInferenceRequest& request,
                    tfs::MultiInferenceResponse& response) {
    return handled(context, [&](const Caller& caller) {
      multi_inference(service_, request, caller, response);
    });
  }
  Status describe_model(GrpcContext& context, const tfs::GetModelMetadataRequest& request,
                        tfs::GetModelMetadataResponse& response) {
    return handled(context, [&](const Caller&) { model_metadata(service_, request, response); });
  }

  template <typename Act>
  Status handled(GrpcContext& context, Act&& act) {
    return at_edge(context, [&] {
      check_access(service_, context, Role::kPredict);
      act(Caller{.deadline = deadline_of(context)});
    });
  }

  server::Service& service_;
  TensorFlowCallOptions options_;
};

class ModelServiceImpl final : public GrpcService {
 public:
  ModelServiceImpl(GrpcCalls& calls, server::Service& service)
      : GrpcService(calls), service_(service) {
    add("/tensorflow.serving.ModelService/GetModelStatus", kPrediction,
        bound(this, &ModelServiceImpl::get_status));
    add("/tensorflow.serving.ModelService/HandleReloadConfigRequest", kAdministration,
        bound(this, &ModelServiceImpl::reload));
  }

 private:
  Status get_status(GrpcContext& context, const tfs::GetModelStatusRequest& request,
                    tfs::GetModelStatusResponse& response) {
    return at_edge(context, [&] {
      check_access(service_, context, Role::kPredict);
      model_status(service_, request, response);
    });
  }
  Status reload(GrpcContext& context, const tfs::ReloadConfigRequest& request,
                tfs::ReloadConfigResponse& response) {
    return at_edge(context, [&] {
      check_access(service_, context, Role::kAdmin);
      reload_config(service_, request, {.deadline = deadline_of(context)}, response);
    });
  }

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

class InferenceServiceImpl final : public GrpcService {
 public:
  InferenceServiceImpl(GrpcCalls& calls, server::Service& service, bool repository_control)
      : GrpcService(calls), service_(service), repository_control_(repository_control) {
    using Self = InferenceServiceImpl;
    add("/inference.GRPCInferenceService/ServerLive", GrpcWork::kNone,
        bound(this, &Self::server_live));
    add("/inference.GRPCInferenceService/ServerReady", GrpcWork::kNone,
        bound(this, &Self::server_ready));
    add("/inference.GRPCInferenceService/ModelReady", kPrediction, bound(this, &Self::model_ready));
    add("/inference.GRPCInferenceService/ServerMetadata", kPrediction,
        bound(this, &Self::server_metadata));
    add("/inference.GRPCInferenceService/ModelMetadata", kPrediction,
        bound(this, &Self::model_metadata));
    add("/inference.GRPCInferenceService/ModelInfer", kPrediction, bound(this, &Self::model_infer));
    add("/inference.GRPCInferenceService/ModelStatistics", kPrediction,
        bound(this, &Self::model_statistics));
    add("/inference.GRPCInferenceService/RepositoryIndex", kAdministration,
        bound(this, &Self::repository_index));
    add("/inference.GRPCInferenceService/RepositoryModelLoad", kAdministration,
        bound(this, &Self::load_model));
    add("/inference.GRPCInferenceService/RepositoryModelUnload", kAdministration,
        bound(this, &Self::unload_model));
  }

 private:
  Status server_live(GrpcContext&, const inference::ServerLiveRequest&,
                     inference::ServerLiveResponse& response) {
    response.set_live(true);
    return Status::OK;
  }
  Status server_ready(GrpcContext&, const inference::ServerReadyRequest&,
                      inference::ServerReadyResponse& response) {
    response.set_ready(service_.ready());
    return Status::OK;
  }
  Status model_ready(GrpcContext& context, const inference::ModelReadyRequest& request,
                     inference::ModelReadyResponse& response) {
    return checked(context, Role::kPredict, [&] {
      try {
        service_.store().find(request.name(), inference_version(request.version()));
        response.set_ready(true);
      } catch (const NotFound&) {
        response.set_ready(false);
      }
    });
  }
  Status server_metadata(GrpcContext& context, const inference::ServerMetadataRequest&,
                         inference::ServerMetadataResponse& response) {
    return checked(context, Role::kPredict, [&] {
      response.set_name(oip::kServerName);
      response.set_version(std::string(server_version()));
      for (const char* name : {"model_repository", "statistics", "schedule_policy", "parameters"}) {
        response.add_extensions(name);
      }
    });
  }
  Status model_metadata(GrpcContext& context, const inference::ModelMetadataRequest& request,
                        inference::ModelMetadataResponse& response) {
    return checked(context, Role::kPredict, [&] {
      const auto version = find_inference_version(service_, request.name(), request.version());
      const auto& signature = *version->find_signature(inference_signature(*version, ""));
      response.set_name(request.name());
      response.set_platform(oip::kPlatform);
      for (const VersionStatus& one : service_.store().status(request.name())) {
        if (one.state == VersionState::kAvailable) {
          response.add_versions(std::to_string(one.number));
        }
      }
      for (const auto& [name, info] : signature.inputs) {
        write_tensor_metadata(name, info, *response.add_inputs());
      }
      for (const auto& [name, info] : signature.outputs) {
        write_tensor_metadata(name, info, *response.add_outputs());
      }
    });
  }
  Status model_infer(GrpcContext& context, const inference::ModelInferRequest& request,
                     inference::ModelInferResponse& response) {
    return checked(context, Role::kPredict,
                   [&] { infer(service_, request, deadline_of(context), response); });
  }
  Status model_statistics(GrpcContext& context, const inference::ModelStatisticsRequest& request,
                          inference::ModelStatisticsResponse& response) {
    return checked(context, Role::kPredict, [&] { write_statistics(request, response); });
  }
  Status repository_index(GrpcContext& context, const inference::RepositoryIndexRequest& request,
                          inference::RepositoryIndexResponse& response) {
    return checked(context, Role::kPredict, [&] { write_index(request.ready(), response); });
  }
  Status load_model(GrpcContext& context, const inference::RepositoryModelLoadRequest& request,
                    inference::RepositoryModelLoadResponse& response) {
    return checked(context, Role::kAdmin, [&] {
      const std::string& model = controlled_model(request);
      service_.load(model, deadline_of(context));
      // Triton's message has no fields, and its clients skip these.
      response.set_model_name(model);
      response.set_is_loaded(true);
    });
  }
  Status unload_model(GrpcContext& context, const inference::RepositoryModelUnloadRequest& request,
                      inference::RepositoryModelUnloadResponse& response) {
    return checked(context, Role::kAdmin, [&] {
      const std::string& model = controlled_model(request);
      service_.unload(model);
      response.set_model_name(model);
      response.set_is_unloaded(true);
    });
  }

  template <typename Act>
  Status checked(GrpcContext& context, Role role, Act&& act) {
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

/// ModelStreamInfer: a wrong request is told of, and the stream goes on.
class InferenceStream final : public GrpcStream {
 public:
  InferenceStream(GrpcCalls& calls, GrpcContext& context, server::Service& service)
      : GrpcStream(calls, context), service_(service) {}

 private:
  Status answer(const grpc::ByteBuffer& bytes, grpc::ByteBuffer& out) override {
    inference::ModelInferRequest request;
    grpc::ByteBuffer copy(bytes);
    const Status status =
        grpc::SerializationTraits<inference::ModelInferRequest>::Deserialize(&copy, &request);
    if (!status.ok()) return status;
    inference::ModelStreamInferResponse response;
    try {
      infer(service_, request, deadline_of(context()), *response.mutable_infer_response());
    } catch (...) {
      response.mutable_infer_response()->Clear();
      response.mutable_infer_response()->set_id(request.id());
      response.set_error_message(muster::describe(std::current_exception()).message);
    }
    bool is_own = false;
    return grpc::SerializationTraits<inference::ModelStreamInferResponse>::Serialize(response, &out,
                                                                                     &is_own);
  }

  server::Service& service_;
};

const std::vector<std::string>& service_names() {
  static const std::vector<std::string> kNames{
      "grpc.health.v1.Health", "grpc.reflection.v1alpha.ServerReflection",
      "inference.GRPCInferenceService", "tensorflow.serving.ModelService",
      "tensorflow.serving.PredictionService"};
  return kNames;
}

/// Streams, and calls of methods that there are not.
class OtherCalls final : public grpc::CallbackGenericService {
 public:
  OtherCalls(GrpcCalls& calls, server::Service& service, GrpcHealth& health, bool reflection)
      : calls_(calls), service_(service), health_(health), reflection_(reflection) {}

  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override {
    const std::string& method = context->method();
    if (method == "/inference.GRPCInferenceService/ModelStreamInfer") {
      const Status access =
          at_edge(*context, [&] { check_access(service_, *context, Role::kPredict); });
      if (!access.ok()) return ended_stream(calls_, *context, access);
      return new InferenceStream(calls_, *context, service_);
    }
    if (method == "/grpc.health.v1.Health/Watch") return health_.watch(*context);
    if (reflection_ && method == kReflectionMethod) {
      return reflection_stream(calls_, *context, service_names());
    }
    return ended_stream(calls_, *context, {grpc::StatusCode::UNIMPLEMENTED, ""});
  }

 private:
  GrpcCalls& calls_;
  server::Service& service_;
  GrpcHealth& health_;
  bool reflection_;
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

std::size_t most_streams(const GrpcServerOptions& options) {
  std::size_t most = kMostStreams;
  for (const auto& [name, value] : options.channel_arguments) {
    if (name == GRPC_ARG_MAX_CONCURRENT_STREAMS) {
      std::from_chars(value.data(), value.data() + value.size(), most);
    }
  }
  return most;
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
  GrpcCalls calls;
  PredictionServiceImpl prediction;
  ModelServiceImpl models;
  InferenceServiceImpl inference;
  GrpcHealth health;
  OtherCalls others;
  int port = 0;
  std::unique_ptr<grpc::Server> server{};

  Impl(Service& service, const GrpcServerOptions& options)
      : calls(threads_of(options), kCallsPerStream * most_streams(options)),
        prediction(calls, service, {options.raw_answers, options.max_message_bytes}),
        models(calls, service),
        inference(calls, service, options.repository_control),
        health(calls),
        others(calls, service, health, options.reflection) {}

  static std::size_t threads_of(const GrpcServerOptions& options) {
    return options.max_threads > 0 ? options.max_threads : 64 * ThreadPool::available_processors();
  }
};

GrpcServer::GrpcServer(Service& service, GrpcServerOptions options)
    : impl_(std::make_unique<Impl>(service, options)) {
  quiet_protobuf();
  grpc::EnableDefaultHealthCheckService(false);
  grpc::ServerBuilder builder;
  const auto credentials = credentials_of(options.tls);
  // Another server's port must be refused, not shared.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                             kLeastPingMilliseconds);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, static_cast<int>(kMostStreams));
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
  quota.Resize(options.max_total_bytes);
  service.limit_grpc_calls(Impl::threads_of(options));
  builder.SetResourceQuota(quota);
  builder.RegisterService(&impl_->prediction);
  builder.RegisterService(&impl_->models);
  builder.RegisterService(&impl_->inference);
  builder.RegisterService(&impl_->health);
  builder.RegisterCallbackGenericService(&impl_->others);
  impl_->server = builder.BuildAndStart();
  if (!impl_->server || impl_->port == 0) {
    throw Unavailable("cannot listen on {} for gRPC: the port may be taken", address);
  }
  impl_->calls.peers().set_port(port());
  set_serving(true);
}

GrpcServer::~GrpcServer() { drain(Deadline::after(std::chrono::seconds(0))); }

std::uint16_t GrpcServer::port() const { return static_cast<std::uint16_t>(impl_->port); }

void GrpcServer::set_serving(bool serving) {
  impl_->health.set("", serving);
  // TensorFlow Serving's short names, and the full ones.
  for (const char* name :
       {"PredictionService", "ModelService", "tensorflow.serving.PredictionService",
        "tensorflow.serving.ModelService", "inference.GRPCInferenceService"}) {
    impl_->health.set(name, serving);
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
