// The Open Inference Protocol (KServe v2, Triton).
#include "muster/serving/protocols/open_inference/grpc_inference_internal.h"
#include "muster/serving/protocols/open_inference/inference_rest_internal.h"
#include "muster/serving/protocols/protocol_internal.h"

namespace muster::serving {

Protocol open_inference_protocol() {
  return {.rest = {{.prefix = "/v2",
                    .answer = answer_open_inference,
                    .prediction_endings = {"/infer"}}},
          .grpc_services = {{kInferenceService}},
          .add_grpc_methods = [](Service& service, const GrpcServerOptions& options,
                                 GrpcMethods& methods) {
            add_inference_methods(service, options.repository_control, methods);
          }};
}

}  // namespace muster::serving
