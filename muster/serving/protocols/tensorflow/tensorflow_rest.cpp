#include "muster/serving/protocols/tensorflow/tensorflow_rest_internal.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "muster/base/error.h"
#include "muster/serving/codec/example_request.h"
#include "muster/serving/codec/explain_request.h"
#include "muster/serving/codec/predict_request.h"
#include "muster/serving/protocols/tensorflow/method_names_internal.h"
#include "muster/serving/protocols/tensorflow/tensor_proto_internal.h"

namespace muster::serving {
namespace {

using ordered = nlohmann::ordered_json;
using serving::ExampleRequest;
using serving::PredictRequest;

[[noreturn]] void throw_malformed(const RestContext& context) {
  throw InvalidArgument("Malformed request: {} {}", context.request.method, context.path);
}

std::string status_body(const std::vector<VersionStatus>& all) {
  ordered list = ordered::array();
  for (const VersionStatus& one : all) {
    list.push_back(
        {{"version", std::to_string(one.number)},
         {"state", name_of(one.state)},
         {"status", {{"error_code", muster::name_of(one.code)}, {"error_message", one.message}}}});
  }
  return ordered{{"model_version_status", list}}.dump(1) + "\n";
}

HttpResponse model_status(RestContext& context, const ModelPath& path) {
  std::vector<VersionStatus> all = context.service.store().status(path.model);
  std::optional<std::int64_t> number = path.version.number;
  if (!path.version.label.empty()) {
    number = context.service.store().version_of_label(path.model, path.version.label);
  }
  if (number) {
    std::erase_if(all, [&](const VersionStatus& one) { return one.number != *number; });
    if (all.empty()) throw NotFound("Could not find version {} of model {}", *number, path.model);
  }
  return json_answer(status_body(all));
}

ordered tensor_info_json(const graph::TensorInfo& info) {
  ordered dims = ordered::array();
  for (const std::int64_t size : info.shape.dims) {
    dims.push_back({{"size", std::to_string(size)}, {"name", ""}});
  }
  ordered out{{"dtype", graph::name_of(info.dtype)},
              {"tensor_shape", {{"dim", dims}, {"unknown_rank", info.shape.unknown_rank}}}};
  if (info.sparse) {
    out["coo_sparse"] = {{"values_tensor_name", info.sparse->values},
                         {"indices_tensor_name", info.sparse->indices},
                         {"dense_shape_tensor_name", info.sparse->dense_shape}};
  } else {
    out["name"] = info.name;
  }
  return out;
}

ordered signature_json(const graph::SignatureDef& signature) {
  ordered inputs = ordered::object();
  ordered outputs = ordered::object();
  for (const auto& [name, info] : signature.inputs) inputs[name] = tensor_info_json(info);
  for (const auto& [name, info] : signature.outputs) outputs[name] = tensor_info_json(info);
  // Empty, too: TensorFlow Serving prints every field, and newer builds of it have this one.
  ordered defaults = ordered::object();
  for (const auto& [name, value] : signature.defaults) {
    defaults[name] = ordered::parse(tensor_proto_json(value));
  }
  return {{"inputs", inputs},
          {"outputs", outputs},
          {"method_name", signature.method_name},
          {"defaults", defaults}};
}

HttpResponse model_metadata(RestContext& context, const ModelPath& path) {
  const ModelVersionPtr version = context.service.store().find(path.model, context.choice(path));
  ordered signatures = ordered::object();
  for (const auto& [name, signature] : version->signatures()) {
    signatures[name] = signature_json(signature);
  }
  const ordered body{{"model_spec",
                      {{"name", path.model},
                       {"signature_name", ""},
                       {"version", std::to_string(version->number())}}},
                     {"metadata", {{"signature_def", {{"signature_def", signatures}}}}}};
  return json_answer(body.dump(1, ' ', false, ordered::error_handler_t::replace) + "\n");
}

class Predict final : public RestPrediction {
 public:
  Predict(const RestContext& context, Call call)
      : RestPrediction(std::move(call)),
        body_(context.request.body),
        check_method_(context.options.check_method_names) {}

  void prepare(Call& call) override {
    request_.emplace(PredictRequest::from_json(body_));
    call.signature = request_->signature_name();
  }
  void no_signature() override {
    throw InvalidArgument("Serving signature name: \"{}\" not found in signature def",
                          request_->signature_name());
  }
  Tensors inputs(const ModelVersion&, const graph::SignatureDef& signature) override {
    if (check_method_) check_predict_method(signature);
    Tensors tensors = request_->tensors(signature);
    is_row_form_ = request_->is_row_form();
    request_.reset();  // Its parser is for the next request.
    return tensors;
  }
  HttpResponse answer(const ModelVersion&, BatchAnswer result) override {
    return json_answer(serving::predict_answer(result.outputs, is_row_form_));
  }

 private:
  const std::string& body_;
  bool check_method_;
  std::optional<PredictRequest> request_{};
  bool is_row_form_ = true;
};

class ClassifyOrRegress final : public RestPrediction {
 public:
  ClassifyOrRegress(const RestContext& context, Call call, bool classify)
      : RestPrediction(std::move(call)),
        body_(context.request.body),
        check_method_(context.options.check_method_names),
        classify_(classify) {}

  void prepare(Call& call) override {
    request_ = serving::example_request_from_json(body_, classify_ ? "classify" : "regress");
    call.signature = request_.signature_name;
    examples_ = static_cast<std::int64_t>(request_.examples.size());
  }
  void no_signature() override {
    throw InvalidArgument("No signature was found with the name: {}", request_.signature_name);
  }
  Tensors inputs(const ModelVersion&, const graph::SignatureDef& signature) override {
    if (check_method_) {
      classify_ ? check_classify_method(signature) : check_regress_method(signature);
    }
    return serving::example_inputs(signature, std::move(request_.examples));
  }
  HttpResponse answer(const ModelVersion&, BatchAnswer result) override {
    return json_answer(
        classify_ ? serving::classify_answer(serving::classifications_of(result.outputs, examples_))
                  : serving::regress_answer(serving::regressions_of(result.outputs, examples_)));
  }

 private:
  const std::string& body_;
  bool check_method_;
  bool classify_;
  ExampleRequest request_{};
  std::int64_t examples_ = 0;
};

RestResult begin_predict(RestContext& context, Call call) {
  return std::make_unique<Predict>(context, std::move(call));
}

RestResult begin_classify(RestContext& context, Call call) {
  call.method = "Classify";
  return std::make_unique<ClassifyOrRegress>(context, std::move(call), /*classify=*/true);
}

RestResult begin_regress(RestContext& context, Call call) {
  call.method = "Regress";
  return std::make_unique<ClassifyOrRegress>(context, std::move(call), /*classify=*/false);
}

// In the thread that has read the request: what takes this long needs no batch.
RestResult explain(RestContext& context, Call call) {
  const ExplainRequest request = ExplainRequest::from_json(context.request.body);
  call.method = "Explain";
  call.signature = request.signature_name();
  HttpResponse answer = json_answer(serving::explain_answer(
      context.service.explain(call, [&](const graph::SignatureDef& signature) {
        return Service::ExplainInputs{.inputs = request.inputs(signature),
                                      .options = request.options(),
                                      .baseline = request.baseline(signature)};
      })));
  answer.headers.emplace_back(kVersionHeader, std::to_string(call.found->number()));
  return answer;
}

/// A GET below /v1/models/MODEL.
struct ModelPage {
  // As ModelPath has them.
  char separator;
  const char* name;
  HttpResponse (*answer)(RestContext& context, const ModelPath& path);
};
constexpr ModelPage kModelPages[] = {
    {0, "", model_status},
    {'/', "metadata", model_metadata},
};

/// A POST to /v1/models/MODEL:NAME.
struct ModelCall {
  const char* name;
  RestResult (*begin)(RestContext& context, Call call);
};
constexpr ModelCall kModelCalls[] = {
    {"predict", begin_predict},
    {"classify", begin_classify},
    {"regress", begin_regress},
    {"explain", explain},
};

HttpResponse list_of_models(RestContext& context) {
  ordered names = ordered::array();
  for (const ModelConfig& model : context.service.store().models()) names.push_back(model.name);
  return json_answer(ordered{{"models", names}}.dump(1) + "\n");
}

}  // namespace

RestResult answer_tensorflow(RestContext& context) {
  context.check(Role::kPredict);
  constexpr std::string_view kModels = "/v1/models";
  if (!equal_ignoring_case(context.path.substr(0, kModels.size()), kModels)) {
    throw_malformed(context);
  }
  const std::string_view rest = context.path.substr(kModels.size());
  const bool is_get = context.request.method == "GET";
  if (rest.empty() || rest == "/") {
    if (!is_get) throw_malformed(context);
    return list_of_models(context);
  }
  if (rest.front() != '/') throw_malformed(context);
  const auto path = parse_model_path(rest.substr(1), /*numeric_versions=*/true);
  if (!path) throw_malformed(context);
  for (const ModelPage& page : kModelPages) {
    if (is_get && path->separator == page.separator && path->method == page.name) {
      return page.answer(context, *path);
    }
  }
  for (const ModelCall& call : kModelCalls) {
    if (context.request.method == "POST" && path->separator == ':' && path->method == call.name) {
      return call.begin(
          context,
          {.model = path->model, .version = context.choice(*path), .deadline = context.deadline()});
    }
  }
  throw_malformed(context);
}

}  // namespace muster::serving
