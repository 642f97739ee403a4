// TensorFlow Serving: its REST API, PredictionService and ModelService.
#include <utility>

#include "muster/serving/protocols/grpc_services_internal.h"
#include "muster/serving/protocols/protocol_internal.h"
#include "muster/serving/protocols/tensorflow/tensorflow_calls_internal.h"
#include "muster/serving/protocols/tensorflow/tensorflow_rest_internal.h"

namespace muster::serving {
namespace {

constexpr const char* kPredictionService = "tensorflow.serving.PredictionService";
constexpr const char* kModelService = "tensorflow.serving.ModelService";

Caller caller_of(const GrpcContext& context) {
  return {.deadline = context.deadline, .key = context.key};
}

/// A call that `start(service, request, caller, options, done)` begins: its thread goes on before
/// it is answered.
template <typename Start>
GrpcMethod started_method(Service& service, const TensorFlowCallOptions& options, Start* start) {
  return {.work = GrpcWork::kBySize, .handle = [&service, options, start](const GrpcCallPtr& call) {
            check_access(service, call->context(), Role::kPredict);
            start(service, call->request(), caller_of(call->context()), options,
                  [call](std::string answer, const std::exception_ptr& failure) {
                    if (failure) return call->finish(status_of(failure));
                    call->answer(std::move(answer));
                  });
          }};
}

void add_tensorflow_methods(Service& service, const GrpcServerOptions& given,
                            GrpcMethods& methods) {
  using namespace tensorflow::serving;
  const TensorFlowCallOptions options{.raw_answers = given.raw_answers,
                                      .most_tensor_bytes = given.max_message_bytes,
                                      .check_method_names = given.check_method_names};
  GuardedMethods prediction(kPredictionService, service, methods);
  prediction.add("Predict", started_method(service, options, start_predict));
  prediction.add("Classify", started_method(service, options, start_classify));
  prediction.add("Regress", started_method(service, options, start_regress));
  prediction.add("MultiInference", started_method(service, options, start_multi_inference));
  prediction.add<GetModelMetadataRequest, GetModelMetadataResponse>(
      "GetModelMetadata", GrpcWork::kShort, Role::kPredict,
      [&service](const auto&, const auto& in, auto& out) { model_metadata(service, in, out); });
  GuardedMethods model(kModelService, service, methods);
  model.add<GetModelStatusRequest, GetModelStatusResponse>(
      "GetModelStatus", GrpcWork::kShort, Role::kPredict,
      [&service](const auto&, const auto& in, auto& out) { model_status(service, in, out); });
  model.add<ReloadConfigRequest, ReloadConfigResponse>(
      "HandleReloadConfigRequest", GrpcWork::kLong, Role::kAdmin,
      [&service](const GrpcContext& context, const auto& in, auto& out) {
        reload_config(service, in, caller_of(context), out);
      });
}

}  // namespace

Protocol tensorflow_protocol() {
  return {
      .rest = {{.prefix = "/v1/",
                .answer = answer_tensorflow,
                .prediction_endings = {":predict", ":classify", ":regress"},
                .ignores_case = true}},
      .grpc_services = {{kPredictionService, "PredictionService"}, {kModelService, "ModelService"}},
      .add_grpc_methods = add_tensorflow_methods};
}

}  // namespace muster::serving
