#pragma once

#include "muster/serving.pb.h"
#include "muster/serving/core/service.h"

/// TensorFlow Serving's calls on messages, without the transport. All throw in its words.
namespace muster::serving {

struct TensorFlowCallOptions {
  /// Answers with tensor_content instead of lists of values.
  bool raw_answers = false;
  std::size_t most_tensor_bytes = std::size_t{1} << 30;
  /// Whether a signature must have been made for the call that uses it.
  bool check_method_names = false;
};

/// Who asks, and how long the answer may take.
struct Caller {
  std::string_view entrypoint = "GRPC";
  Deadline deadline = Deadline::never();
  /// As VersionChoice has it.
  std::string_view key{};
};

/// Calls of models, on the bytes of both messages. None waits for its model: `done` is called once
/// with the answer or a failure, as Service::start says, and must not throw. `request` is not
/// needed after they return. They throw Internal for bytes that are no message, and what is wrong
/// with its ModelSpecs.
using AnswerDone = std::function<void(std::string answer, const std::exception_ptr& failure)>;
/// Most requests are read and answered without building messages (fast_predict_internal.h).
void start_predict(Service& service, std::string_view request, const Caller& caller,
                   const TensorFlowCallOptions& options, AnswerDone done);
/// The same for callers that wait: throws the failure.
std::string predict(Service& service, std::string_view request, const Caller& caller,
                    const TensorFlowCallOptions& options);
void start_classify(Service& service, std::string_view request, const Caller& caller,
                    const TensorFlowCallOptions& options, AnswerDone done);
void start_regress(Service& service, std::string_view request, const Caller& caller,
                   const TensorFlowCallOptions& options, AnswerDone done);
/// All tasks that ask for the same version are answered by one.
void start_multi_inference(Service& service, std::string_view request, const Caller& caller,
                           const TensorFlowCallOptions& options, AnswerDone done);

void model_metadata(Service& service, const tensorflow::serving::GetModelMetadataRequest& request,
                    tensorflow::serving::GetModelMetadataResponse& response);
void model_status(Service& service, const tensorflow::serving::GetModelStatusRequest& request,
                  tensorflow::serving::GetModelStatusResponse& response);
void reload_config(Service& service, const tensorflow::serving::ReloadConfigRequest& request,
                   const Caller& caller, tensorflow::serving::ReloadConfigResponse& response);

/// The inputs of a request to Predict. Throws InvalidArgument unless they are those of the
/// signature; defaults fill in what is missing.
Tensors predict_inputs(const tensorflow::serving::PredictRequest& request,
                       const graph::SignatureDef& signature, std::size_t most_tensor_bytes);
/// The serialised examples of a request.
std::vector<std::string> examples_of(const tensorflow::serving::Input& input);

}  // namespace muster::serving
