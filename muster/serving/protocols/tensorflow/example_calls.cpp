// TensorFlow Serving's Classify, Regress and MultiInference, on the messages of gRPC.
#include <set>

#include "muster/base/error.h"
#include "muster/serving/codec/example_request.h"
#include "muster/serving/protocols/message_of_internal.h"
#include "muster/serving/protocols/tensorflow/method_names_internal.h"
#include "muster/serving/protocols/tensorflow/model_spec_internal.h"
#include "muster/serving/protocols/tensorflow/tensorflow_calls_internal.h"

namespace muster::serving {

namespace wire = tensorflow::serving;

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

namespace {

constexpr const char* kNoSignature = "No signature was found with the name: ";
constexpr const char* kNoTaskSignature = "Requested signature not found in model graph: ";

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

/// The call that a signature is to answer.
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

}  // namespace muster::serving
