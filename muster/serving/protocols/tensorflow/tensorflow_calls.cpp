// TensorFlow Serving's calls, on the messages of gRPC.
#include <fmt/ranges.h>

#include <set>

#include "muster/base/error.h"
#include "muster/serving/codec/example_request.h"
#include "muster/serving/core/model_config_list.h"
#include "muster/serving/protocols/message_of_internal.h"
#include "muster/serving/protocols/tensorflow/fast_predict_internal.h"
#include "muster/serving/protocols/tensorflow/method_names_internal.h"
#include "muster/serving/protocols/tensorflow/tensor_proto_internal.h"
#include "muster/serving/protocols/tensorflow/tensorflow_calls_internal.h"

namespace muster::serving {
namespace {

namespace wire = tensorflow::serving;

// A list of models is loaded within this time, or the call says which are not.
constexpr std::chrono::minutes kReloadTime{10};

Call call_of(const wire::ModelSpec& spec, bool given, const Caller& caller) {
  if (!given) throw InvalidArgument("Missing ModelSpec");
  if (spec.name().empty()) throw InvalidArgument("ModelSpec has no name specified.");
  Call call{.model = spec.name(), .entrypoint = caller.entrypoint, .deadline = caller.deadline};
  if (spec.has_version()) call.version.number = spec.version().value();
  if (spec.version_choice_case() == wire::ModelSpec::kVersionLabel) {
    call.version.label = spec.version_label();
  }
  if (!spec.signature_name().empty()) call.signature = spec.signature_name();
  return call;
}

void write_spec(const ModelVersion& version, const std::string& signature, wire::ModelSpec& out) {
  out.set_name(version.model());
  out.mutable_version()->set_value(version.number());
  out.set_signature_name(signature);
}

template <typename Map>
std::vector<std::string> sorted_keys(const Map& map) {
  std::set<std::string> keys;
  for (const auto& row : map) keys.insert(row.first);
  return {keys.begin(), keys.end()};
}

[[noreturn]] void throw_wrong_count(const wire::PredictRequest& request,
                                    const graph::SignatureDef& signature) {
  const auto sent = sorted_keys(request.inputs());
  const auto wanted = sorted_keys(signature.inputs);
  std::vector<std::string> extra;
  std::vector<std::string> missing;
  std::ranges::set_difference(sent, wanted, std::back_inserter(extra));
  std::ranges::set_difference(wanted, sent, std::back_inserter(missing));
  throw InvalidArgument(
      "input size does not match signature: {}!={} len({{{}}}) != len({{{}}}). Sent extra: {{{}}}. "
      "Missing but required: {{{}}}.",
      sent.size(), wanted.size(), fmt::join(sent, ","), fmt::join(wanted, ","),
      fmt::join(extra, ","), fmt::join(missing, ","));
}

// The names that are asked for; all when none is.
template <typename Names>
std::set<std::string, std::less<>> wanted_outputs(const Names& filter,
                                                  const graph::SignatureDef& signature) {
  std::set<std::string, std::less<>> wanted;
  for (const auto& name : filter) {
    if (!signature.outputs.contains(name)) {
      throw InvalidArgument(
          "output tensor alias not found in signature: {} Outputs expected to be in the set "
          "{{{}}}.",
          name, fmt::join(sorted_keys(signature.outputs), ","));
    }
    if (!wanted.emplace(name).second) {
      throw InvalidArgument("duplicate output tensor alias: {}", name);
    }
  }
  return wanted;
}

void write_result(const Tensors& outputs, std::int64_t count, wire::ClassificationResult& out) {
  for (const auto& result : serving::classifications_of(outputs, count)) {
    auto* const classes = out.add_classifications();
    for (const serving::ClassScore& one : result) {
      auto* const made = classes->add_classes();
      made->set_label(one.label);
      made->set_score(one.score);
    }
  }
}

void write_result(const Tensors& outputs, std::int64_t count, wire::RegressionResult& out) {
  for (const float value : serving::regressions_of(outputs, count)) {
    out.add_regressions()->set_value(value);
  }
}

constexpr const char* kNoSignature = "No signature was found with the name: ";
constexpr const char* kNoTaskSignature = "Requested signature not found in model graph: ";

void write_info(const graph::TensorInfo& info, muster::proto::TensorInfo& out) {
  out.set_dtype(static_cast<muster::proto::DataType>(info.dtype));
  auto* const shape = out.mutable_tensor_shape();
  shape->set_unknown_rank(info.shape.unknown_rank);
  for (const std::int64_t size : info.shape.dims) shape->add_dim()->set_size(size);
  if (info.sparse) {
    auto* const sparse = out.mutable_coo_sparse();
    sparse->set_values_tensor_name(info.sparse->values);
    sparse->set_indices_tensor_name(info.sparse->indices);
    sparse->set_dense_shape_tensor_name(info.sparse->dense_shape);
  } else {
    out.set_name(info.name);
  }
}

}  // namespace

std::vector<std::string> examples_of(const wire::Input& input) {
  std::vector<std::string> examples;
  const auto add = [&](const auto& list, const std::string& context) {
    for (const auto& example : list) examples.push_back(context + example.SerializeAsString());
  };
  if (input.has_example_list()) add(input.example_list().examples(), "");
  if (input.has_example_list_with_context()) {
    const auto& list = input.example_list_with_context();
    add(list.examples(), list.context().SerializeAsString());
  }
  if (examples.empty()) throw InvalidArgument("Input is empty.");
  return examples;
}

Tensors predict_inputs(const wire::PredictRequest& request, const graph::SignatureDef& signature,
                       std::size_t most_tensor_bytes) {
  if (static_cast<std::size_t>(request.inputs_size()) != signature.inputs.size() &&
      signature.defaults.empty()) {
    throw_wrong_count(request, signature);
  }
  Tensors inputs;
  inputs.reserve(signature.inputs.size());
  for (const auto& [name, info] : signature.inputs) {
    const auto given = request.inputs().find(name);
    if (given != request.inputs().end()) {
      inputs.emplace(name, tensor_of(given->second, name, most_tensor_bytes));
      continue;
    }
    const auto value = signature.defaults.find(name);
    if (value == signature.defaults.end()) {
      throw InvalidArgument(
          "Signature input alias: {}(feed name: {}) not found in request and no default value "
          "provided. Inputs expected to be in the request {{{}}}, or default input alias set: {}",
          name, info.name, fmt::join(sorted_keys(signature.inputs), ","),
          fmt::join(sorted_keys(signature.defaults), ","));
    }
    inputs.emplace(name, value->second);
  }
  for (const auto& row : request.inputs()) {
    if (!signature.inputs.contains(row.first)) {
      throw InvalidArgument(
          "Inputs contains invalid name. Used request inputs: {}, request input: {}",
          fmt::join(sorted_keys(signature.inputs), ","), row.first);
    }
  }
  return inputs;
}

namespace {

/// What is left of a Predict when the model answers, and the bytes of the answer.
struct PredictRest {
  std::string signature{};
  std::set<std::string, std::less<>> wanted{};
  std::string answer{};
};

/// Has `act` run a Predict by its bytes: calls act(call, steps), whose steps write to `rest`. Only
/// the answer is made when this has returned.
template <typename Act>
void with_predict(std::string_view request, const Caller& caller,
                  const TensorFlowCallOptions& options, const std::shared_ptr<PredictRest>& rest,
                  const Act& act) {
  const auto fast = FastPredict::parse(request);
  std::optional<wire::PredictRequest> message;
  if (!fast) message = message_of<wire::PredictRequest>(request);
  Call call;
  if (fast) {
    call.model = fast->model();
    call.version = fast->version();
    call.entrypoint = caller.entrypoint;
    call.deadline = caller.deadline;
    if (!fast->signature_name().empty()) call.signature = fast->signature_name();
  } else {
    call = call_of(message->model_spec(), message->has_model_spec(), caller);
  }
  rest->signature = call.signature;
  const auto inputs = [&](const ModelVersion&, const graph::SignatureDef& signature) {
    if (options.check_method_names) check_predict_method(signature);
    if (!fast) {
      rest->wanted = wanted_outputs(message->output_filter(), signature);
      return predict_inputs(*message, signature, options.most_tensor_bytes);
    }
    rest->wanted = wanted_outputs(fast->output_filter(), signature);
    auto tensors = fast->tensors(signature, options.most_tensor_bytes);
    if (tensors) return std::move(*tensors);
    return predict_inputs(message_of<wire::PredictRequest>(request), signature,
                          options.most_tensor_bytes);
  };
  act(std::move(call),
      Service::Steps{.no_signature =
                         [rest](const ModelVersion&) {
                           throw FailedPrecondition("Serving signature key \"{}\" not found.",
                                                    rest->signature);
                         },
                     .inputs = inputs,
                     .answer =
                         [rest, raw = options.raw_answers](const ModelVersion& version,
                                                           const BatchAnswer& result) {
                           PredictResponseWriter writer(version, rest->signature, raw);
                           for (const auto& [name, tensor] : result.outputs) {
                             if (rest->wanted.empty() || rest->wanted.contains(name)) {
                               writer.add(name, tensor);
                             }
                           }
                           rest->answer = std::move(writer).bytes();
                         }});
}

}  // namespace

std::string predict(Service& service, std::string_view request, const Caller& caller,
                    const TensorFlowCallOptions& options) {
  const auto rest = std::make_shared<PredictRest>();
  with_predict(request, caller, options, rest,
               [&](Call call, const Service::Steps& steps) { service.run(call, {}, steps); });
  return std::move(rest->answer);
}

void start_predict(Service& service, std::string_view request, const Caller& caller,
                   const TensorFlowCallOptions& options, AnswerDone done) {
  const auto rest = std::make_shared<PredictRest>();
  with_predict(request, caller, options, rest, [&](Call call, Service::Steps steps) {
    service.start(std::move(call), {}, std::move(steps),
                  [rest, done = std::move(done)](const std::exception_ptr& failure) {
                    done(std::move(rest->answer), failure);
                  });
  });
}

namespace {

/// What a signature is asked for.
enum class ExampleCall { kClassify, kRegress };

void check_method(ExampleCall call, const graph::SignatureDef& signature) {
  call == ExampleCall::kClassify ? check_classify_method(signature)
                                 : check_regress_method(signature);
}

/// Throws for a signature that is not meant for the call, if anything.
using CheckSignature = std::function<void(const graph::SignatureDef& signature)>;

CheckSignature check_of(ExampleCall call, const TensorFlowCallOptions& options) {
  if (!options.check_method_names) return [](const graph::SignatureDef&) {};
  return [call](const graph::SignatureDef& signature) { check_method(call, signature); };
}

/// Classification and regression differ in what is made of the outputs, by
/// use(version, signature, outputs, count of examples). The input is not needed once the inputs of
/// the model are made.
template <typename Use>
Service::Steps example_steps(const Call& call, const wire::Input& input, const char* no_signature,
                             CheckSignature check, Use use) {
  struct Rest {
    std::string signature;
    std::int64_t count = 0;
  };
  const auto rest = std::make_shared<Rest>(Rest{call.signature});
  return {.no_signature =
              [rest, no_signature](const ModelVersion&) {
                throw InvalidArgument("{}{}", no_signature, rest->signature);
              },
          .inputs =
              [rest, &input, check = std::move(check)](const ModelVersion&,
                                                       const graph::SignatureDef& signature) {
                check(signature);
                auto examples = examples_of(input);
                rest->count = static_cast<std::int64_t>(examples.size());
                return serving::example_inputs(signature, std::move(examples));
              },
          .answer =
              [rest, use = std::move(use)](const ModelVersion& version, const BatchAnswer& answer) {
                use(version, rest->signature, answer.outputs, rest->count);
              }};
}

template <typename Request, typename Response>
void start_examples(Service& service, std::string_view bytes, std::string_view method,
                    const Caller& caller, CheckSignature check, AnswerDone done) {
  const auto request = message_of<Request>(bytes);
  Call call = call_of(request.model_spec(), request.has_model_spec(), caller);
  call.method = method;
  const auto answer = std::make_shared<std::string>();
  auto steps = example_steps(call, request.input(), kNoSignature, std::move(check),
                             [answer](const ModelVersion& version, const std::string& signature,
                                      const Tensors& outputs, std::int64_t count) {
                               Response response;
                               write_result(outputs, count, *response.mutable_result());
                               write_spec(version, signature, *response.mutable_model_spec());
                               *answer = response.SerializeAsString();
                             });
  service.start(std::move(call), {}, std::move(steps),
                [answer, done = std::move(done)](const std::exception_ptr& failure) {
                  done(std::move(*answer), failure);
                });
}

/// A MultiInference on its way.
struct MultiInference {
  Service& service;
  wire::MultiInferenceRequest request;
  TensorFlowCallOptions options;
  AnswerDone done;
  // One per task.
  std::vector<Call> calls{};
  // That of the first task.
  ModelVersionPtr version{};
  wire::MultiInferenceResponse response{};
  std::string answer{};
};

bool is_classification(const wire::InferenceTask& task) {
  return task.method_name() == graph::kClassifyMethod;
}

ExampleCall call_in(const wire::InferenceTask& task) {
  return is_classification(task) ? ExampleCall::kClassify : ExampleCall::kRegress;
}

// Throws what is wrong with the tasks.
std::vector<Call> calls_of(const wire::MultiInferenceRequest& request, const Caller& caller) {
  if (request.tasks().empty()) throw InvalidArgument("Inference request with no tasks");
  std::set<std::string> signatures;
  std::vector<Call> calls;
  for (const wire::InferenceTask& task : request.tasks()) {
    Call& call = calls.emplace_back(call_of(task.model_spec(), task.has_model_spec(), caller));
    call.method = "MultiInference";
    if (call.model != calls.front().model) {
      throw InvalidArgument(
          "All ModelSpecs in a MultiInferenceRequest must access the same model "
          "name.");
    }
    if (!signatures.insert(call.signature).second) {
      throw InvalidArgument("Duplicate evaluation of signature: {}", call.signature);
    }
    if (!is_classification(task) && task.method_name() != graph::kRegressMethod) {
      throw Unimplemented("Unsupported signature method_name: {}", task.method_name());
    }
  }
  return calls;
}

void write_task(const ModelVersion& version, const std::string& signature, const Tensors& outputs,
                std::int64_t count, bool is_classification, wire::InferenceResult& out) {
  if (is_classification) {
    write_result(outputs, count, *out.mutable_classification_result());
  } else {
    write_result(outputs, count, *out.mutable_regression_result());
  }
  write_spec(version, signature, *out.mutable_model_spec());
}

// One task after the other, up to the first that fails: together they would take several of the
// calls that a model may have at one time. What asks for the same version as the first has the
// same one, whatever is loaded meanwhile.
void start_task(const std::shared_ptr<MultiInference>& all, std::size_t index) {
  Call call = all->calls[index];
  if (call.version == all->calls.front().version) call.found = all->version;
  const bool is_last = index + 1 == all->calls.size();
  const wire::InferenceTask& task = all->request.tasks(static_cast<int>(index));
  auto steps = example_steps(
      call, all->request.input(), kNoTaskSignature, check_of(call_in(task), all->options),
      [all, index, is_last](const ModelVersion& version, const std::string& signature,
                            const Tensors& outputs, std::int64_t count) {
        if (index == 0) all->version = version.shared_from_this();
        write_task(version, signature, outputs, count,
                   is_classification(all->request.tasks(static_cast<int>(index))),
                   *all->response.add_results());
        if (is_last) all->answer = all->response.SerializeAsString();
      });
  all->service.start(std::move(call), {}, std::move(steps),
                     [all, index, is_last](const std::exception_ptr& failure) {
                       if (!failure && !is_last) return start_task(all, index + 1);
                       all->version.reset();  // It may be unloaded once this call is answered.
                       all->done(std::move(all->answer), failure);
                     });
}

}  // namespace

void start_classify(Service& service, std::string_view request, const Caller& caller,
                    const TensorFlowCallOptions& options, AnswerDone done) {
  start_examples<wire::ClassificationRequest, wire::ClassificationResponse>(
      service, request, "Classify", caller, check_of(ExampleCall::kClassify, options),
      std::move(done));
}

void start_regress(Service& service, std::string_view request, const Caller& caller,
                   const TensorFlowCallOptions& options, AnswerDone done) {
  start_examples<wire::RegressionRequest, wire::RegressionResponse>(
      service, request, "Regress", caller, check_of(ExampleCall::kRegress, options),
      std::move(done));
}

void start_multi_inference(Service& service, std::string_view request, const Caller& caller,
                           const TensorFlowCallOptions& options, AnswerDone done) {
  const auto all = std::make_shared<MultiInference>(MultiInference{
      service, message_of<wire::MultiInferenceRequest>(request), options, std::move(done)});
  all->calls = calls_of(all->request, caller);
  start_task(all, 0);
}

void model_metadata(Service& service, const wire::GetModelMetadataRequest& request,
                    wire::GetModelMetadataResponse& response) {
  if (request.metadata_field().empty()) {
    throw InvalidArgument("GetModelMetadataRequest must specify at least one metadata_field");
  }
  for (const std::string& field : request.metadata_field()) {
    if (field != "signature_def")
      throw InvalidArgument("Metadata field {} is not supported", field);
  }
  const Call call = call_of(request.model_spec(), request.has_model_spec(), {});
  const ModelVersionPtr version = service.store().find(call.model, call.version);
  wire::SignatureDefMap map;
  for (const auto& [name, signature] : version->signatures()) {
    auto& out = (*map.mutable_signature_def())[name];
    out.set_method_name(signature.method_name);
    for (const auto& [key, info] : signature.inputs) write_info(info, (*out.mutable_inputs())[key]);
    for (const auto& [key, info] : signature.outputs) {
      write_info(info, (*out.mutable_outputs())[key]);
    }
    for (const auto& [key, value] : signature.defaults) {
      write_tensor(value, /*raw=*/false, (*out.mutable_defaults())[key]);
    }
  }
  (*response.mutable_metadata())["signature_def"].PackFrom(map);
  response.mutable_model_spec()->set_name(call.model);
  response.mutable_model_spec()->mutable_version()->set_value(version->number());
}

void model_status(Service& service, const wire::GetModelStatusRequest& request,
                  wire::GetModelStatusResponse& response) {
  const Call call = call_of(request.model_spec(), request.has_model_spec(), {});
  std::optional<std::int64_t> number = call.version.number;
  if (!call.version.label.empty()) {
    number = service.store().version_of_label(call.model, call.version.label);
  }
  for (const VersionStatus& status : service.store().status(call.model)) {
    if (number && status.number != *number) continue;
    auto* const out = response.add_model_version_status();
    out->set_version(status.number);
    out->set_state(static_cast<wire::ModelVersionStatus::State>(status.state));
    out->mutable_status()->set_error_code(static_cast<int>(status.code));
    out->mutable_status()->set_error_message(status.message);
  }
  if (number && response.model_version_status().empty()) {
    throw NotFound("Could not find version {} of model {}", *number, call.model);
  }
}

void reload_config(Service& service, const wire::ReloadConfigRequest& request, const Caller& caller,
                   wire::ReloadConfigResponse& response) {
  if (!request.config().has_model_config_list()) {
    throw InvalidArgument(
        "ServerModelConfig type not supported by HandleReloadConfigRequest. Only ModelConfigList "
        "is "
        "currently supported");
  }
  std::vector<ModelConfig> models = models_of(request.config());
  std::vector<std::string> names;
  names.reserve(models.size());
  for (const ModelConfig& model : models) names.push_back(model.name);
  service.configure(std::move(models));
  const Deadline limit = Deadline::after(kReloadTime);
  service.store().wait_until_settled(caller.deadline.time() < limit.time() ? caller.deadline
                                                                           : limit);
  std::string failures;
  std::size_t count = 0;
  for (const std::string& name : names) {
    std::string why = "no version was found";
    bool answers = false;
    std::int64_t number = 0;
    try {
      for (const VersionStatus& status : service.store().status(name)) {
        answers = answers || status.state == VersionState::kAvailable;
        if (!status.message.empty()) {
          why = status.message;
          number = status.number;
        }
      }
    } catch (const NotFound& error) {
      why = error.message();
    }
    if (answers) continue;
    ++count;
    failures += fmt::format("{{name: {} version: {}}} due to error: {}, ", name, number, why);
  }
  if (count > 0) {
    throw Error(ErrorCode::kUnknown,
                fmt::format("{} model(s) did not become available: {{{}}}", count, failures));
  }
  response.mutable_status()->set_error_code(0);
}

}  // namespace muster::serving
