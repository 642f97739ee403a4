#include "muster/serving/protocols/open_inference/grpc_inference_internal.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <exception>
#include <memory>

#include "muster/base/error.h"
#include "muster/inference.pb.h"
#include "muster/serving/codec/signature_choice.h"
#include "muster/serving/codec/signature_defaults.h"
#include "muster/serving/protocols/grpc_services_internal.h"
#include "muster/serving/protocols/open_inference/inference_words.h"

namespace muster::serving {
namespace {

using graph::DataType;
using graph::TensorValue;

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

void write_infer_answer(const inference::ModelInferRequest& request, const ModelVersion& version,
                        const Tensors& outputs, inference::ModelInferResponse& response) {
  response.set_model_name(version.model());
  response.set_model_version(std::to_string(version.number()));
  response.set_id(request.id());
  for (const auto& [name, tensor] : outputs) {
    auto* const out = response.add_outputs();
    out->set_name(name);
    out->set_datatype(std::string(oip::datatype_of(tensor.dtype)));
    for (const std::int64_t size : tensor.shape) out->add_shape(size);
    // As Triton: its clients read no other contents, however they asked.
    response.add_raw_output_contents(oip::raw_bytes(tensor));
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

template <typename Find>
ModelVersionPtr found_inference_version(const std::string& model, const VersionChoice& choice,
                                        const Find& find) {
  try {
    return find();
  } catch (const NotFound&) {
    if (choice.number) {
      throw NotFound("Request for unknown model: '{}' version {} is not found", model,
                     *choice.number);
    }
    throw NotFound("Request for unknown model: '{}' is not found", model);
  }
}

ModelVersionPtr find_inference_version(Service& service, const std::string& model,
                                       const std::string& version) {
  const VersionChoice choice = inference_version(version);
  return found_inference_version(model, choice,
                                 [&] { return service.store().find(model, choice); });
}

ModelVersionPtr draw_inference_version(Service& service,
                                       const inference::ModelInferRequest& request,
                                       const GrpcContext& context) {
  VersionChoice choice = inference_version(request.model_version());
  choice.key = context.key;
  return found_inference_version(request.model_name(), choice, [&] {
    return service.store().draw(request.model_name(), choice);
  });
}

std::string inference_signature(const ModelVersion& version, const std::string& wish) {
  graph::MetaGraph meta;
  meta.signatures = version.signatures();
  return serving::choose_signature(meta, wish);
}

/// A request, its version and its answer; as long as it is computed.
struct Inference {
  inference::ModelInferRequest request{};
  ModelVersionPtr version{};
  inference::ModelInferResponse response{};
};

Call call_of(const Inference& one, const Deadline& deadline) {
  return {.model = one.request.model_name(),
          .found = one.version,
          .entrypoint = "GRPC",
          .deadline = deadline_with_timeout(one.request, deadline),
          .priority = number_parameter(one.request, "priority")};
}

void choose_signature(const Inference& one, Call& call) {
  call.signature =
      inference_signature(*one.version, string_parameter(one.request, "signature_name"));
}

Service::Steps steps_of(const std::shared_ptr<Inference>& one) {
  return {.inputs =
              [one](const ModelVersion&, const graph::SignatureDef& signature) {
                Tensors inputs = infer_inputs_of(one->request);
                oip::check_inputs(one->request.model_name(), signature, inputs);
                add_defaults(signature, inputs);
                return inputs;
              },
          .answer =
              [one](const ModelVersion&, BatchAnswer answer) {
                std::vector<std::string> wanted;
                for (const auto& output : one->request.outputs()) wanted.push_back(output.name());
                oip::select_outputs(one->request.model_name(), wanted, answer.outputs);
                write_infer_answer(one->request, *one->version, answer.outputs, one->response);
              }};
}

std::shared_ptr<Inference> inference_of(std::string_view bytes) {
  auto one = std::make_shared<Inference>();
  one->request = message_of<inference::ModelInferRequest>(bytes);
  return one;
}

void start_inference(Service& service, const std::shared_ptr<Inference>& one,
                     const GrpcContext& context, Service::Done done) {
  one->version = draw_inference_version(service, one->request, context);
  service.start(
      call_of(*one, context.deadline), [&](Call& prepared) { choose_signature(*one, prepared); },
      steps_of(one), std::move(done));
}

// Its thread goes on before it is answered.
void start_infer(Service& service, const GrpcCallPtr& call) {
  check_access(service, call->context(), Role::kPredict);
  const auto one = inference_of(call->request());
  start_inference(service, one, call->context(), [one, call](const std::exception_ptr& failure) {
    if (failure) return call->finish(status_of(failure));
    call->answer(one->response.SerializeAsString());
  });
}

// A wrong request is told of, and the stream continues.
std::string stream_answer(Inference& one, const std::exception_ptr& failure) {
  inference::ModelStreamInferResponse response;
  if (failure) {
    response.mutable_infer_response()->set_id(one.request.id());
    response.set_error_message(muster::describe(failure).message);
  } else {
    *response.mutable_infer_response() = std::move(one.response);
  }
  return response.SerializeAsString();
}

void start_stream_infer(Service& service, const GrpcContext& context, std::string_view message,
                        const GrpcReply& reply) {
  const auto one = inference_of(message);
  const auto end = [one, reply](const std::exception_ptr& failure) {
    reply(stream_answer(*one, failure), nullptr);
  };
  try {
    start_inference(service, one, context, end);
  } catch (...) {
    end(std::current_exception());
  }
}

void write_tensor_metadata(const std::string& name, const graph::TensorInfo& info,
                           inference::ModelMetadataResponse::TensorMetadata& out) {
  out.set_name(name);
  out.set_datatype(std::string(oip::datatype_of(info.dtype)));
  for (const std::int64_t size : oip::shape_of(info)) out.add_shape(size);
}

void server_metadata(inference::ServerMetadataResponse& response) {
  response.set_name(oip::kServerName);
  response.set_version(std::string(server_version()));
  for (const char* name : {"model_repository", "statistics", "schedule_policy", "parameters"}) {
    response.add_extensions(name);
  }
}

void model_metadata(Service& service, const inference::ModelMetadataRequest& request,
                    inference::ModelMetadataResponse& response) {
  const auto version = find_inference_version(service, request.name(), request.version());
  const auto& signature = *version->find_signature(inference_signature(*version, ""));
  response.set_name(request.name());
  response.set_platform(std::string(version->platform()));
  for (const VersionStatus& one : service.store().status(request.name())) {
    if (one.state == VersionState::kAvailable) response.add_versions(std::to_string(one.number));
  }
  for (const auto& [name, info] : signature.inputs) {
    write_tensor_metadata(name, info, *response.add_inputs());
  }
  for (const auto& [name, info] : signature.outputs) {
    write_tensor_metadata(name, info, *response.add_outputs());
  }
}

bool is_model_ready(Service& service, const inference::ModelReadyRequest& request) {
  try {
    service.store().find(request.name(), inference_version(request.version()));
    return true;
  } catch (const NotFound&) {
    return false;
  }
}

void write_statistics(Service& service, const inference::ModelStatisticsRequest& request,
                      inference::ModelStatisticsResponse& response) {
  if (!request.name().empty()) {
    find_inference_version(service, request.name(), request.version());
  }
  for (const ModelVersionPtr& version : service.store().available()) {
    if (!request.name().empty() && version->model() != request.name()) continue;
    if (!request.version().empty() && std::to_string(version->number()) != request.version()) {
      continue;
    }
    const VersionCounts counts = service.statistics().counts(version->model(), version->number());
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

void write_index(Service& service, bool only_ready, inference::RepositoryIndexResponse& response) {
  for (const oip::IndexEntry& entry : oip::repository_index(service, only_ready)) {
    auto* const out = response.add_models();
    out->set_name(entry.name);
    out->set_version(entry.version);
    out->set_state(std::string(entry.state));
    out->set_reason(entry.reason);
  }
}

template <typename Request>
const std::string& controlled_model(const Request& request, bool is_allowed) {
  if (!is_allowed) {
    throw Unavailable("explicit model load / unload is not allowed if polling is enabled");
  }
  return request.model_name().empty() ? request.repository_name() : request.model_name();
}

void check_load_parameters(const std::string& model,
                           const inference::RepositoryModelLoadRequest& request) {
  for (const auto& [name, value] : request.parameters()) {
    oip::check_load_parameter(model, name, value.string_param());
  }
}

}  // namespace

void add_inference_methods(Service& service, bool repository_control, GrpcMethods& methods) {
  using namespace inference;
  GuardedMethods all(kInferenceService, service, methods);
  // Open to callers without a token.
  all.add("ServerLive",
          message_method<ServerLiveRequest, ServerLiveResponse>(
              GrpcWork::kShort, [](const auto&, const auto&, auto& out) { out.set_live(true); }));
  all.add("ServerReady", message_method<ServerReadyRequest, ServerReadyResponse>(
                             GrpcWork::kShort, [&service](const auto&, const auto&, auto& out) {
                               out.set_ready(service.ready());
                             }));
  all.add<ModelReadyRequest, ModelReadyResponse>(
      "ModelReady", GrpcWork::kShort, Role::kPredict,
      [&service](const auto&, const auto& in, auto& out) {
        out.set_ready(is_model_ready(service, in));
      });
  all.add<ServerMetadataRequest, ServerMetadataResponse>(
      "ServerMetadata", GrpcWork::kShort, Role::kPredict,
      [](const auto&, const auto&, auto& out) { server_metadata(out); });
  all.add<ModelMetadataRequest, ModelMetadataResponse>(
      "ModelMetadata", GrpcWork::kShort, Role::kPredict,
      [&service](const auto&, const auto& in, auto& out) { model_metadata(service, in, out); });
  all.add("ModelInfer", {.work = GrpcWork::kBySize, .handle = [&service](const GrpcCallPtr& call) {
                           start_infer(service, call);
                         }});
  all.add<ModelStatisticsRequest, ModelStatisticsResponse>(
      "ModelStatistics", GrpcWork::kShort, Role::kPredict,
      [&service](const auto&, const auto& in, auto& out) { write_statistics(service, in, out); });
  all.add<RepositoryIndexRequest, RepositoryIndexResponse>(
      "RepositoryIndex", GrpcWork::kLong, Role::kPredict,
      [&service](const auto&, const auto& in, auto& out) {
        write_index(service, in.ready(), out);
      });
  all.add<RepositoryModelLoadRequest, RepositoryModelLoadResponse>(
      "RepositoryModelLoad", GrpcWork::kLong, Role::kAdmin,
      [&service, repository_control](const GrpcContext& context, const auto& in, auto& out) {
        const std::string& model = controlled_model(in, repository_control);
        check_load_parameters(model, in);
        service.load(model, context.deadline);
        // Triton's message has no fields, and its clients skip these.
        out.set_model_name(model);
        out.set_is_loaded(true);
      });
  all.add<RepositoryModelUnloadRequest, RepositoryModelUnloadResponse>(
      "RepositoryModelUnload", GrpcWork::kLong, Role::kAdmin,
      [&service, repository_control](const auto&, const auto& in, auto& out) {
        const std::string& model = controlled_model(in, repository_control);
        service.unload(model);
        out.set_model_name(model);
        out.set_is_unloaded(true);
      });
  all.add("ModelStreamInfer", {.work = GrpcWork::kShort,
                               .converse =
                                   [&service](const GrpcContext& context, std::string_view message,
                                              const GrpcReply& reply) {
                                     start_stream_infer(service, context, message, reply);
                                   },
                               .check =
                                   [&service](const GrpcContext& context) {
                                     check_access(service, context, Role::kPredict);
                                   }});
}

}  // namespace muster::serving
