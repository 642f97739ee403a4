// TensorFlow Serving's GetModelMetadata, GetModelStatus and HandleReloadConfigRequest, on the
// messages of gRPC.
#include <fmt/core.h>

#include "muster/base/error.h"
#include "muster/serving/core/model_config_list.h"
#include "muster/serving/protocols/tensorflow/model_spec_internal.h"
#include "muster/serving/protocols/tensorflow/tensor_proto_internal.h"
#include "muster/serving/protocols/tensorflow/tensorflow_calls_internal.h"

namespace muster::serving {
namespace {

namespace wire = tensorflow::serving;

// A list of models is loaded within this time, or the call says which are not.
constexpr std::chrono::minutes kReloadTime{10};

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
