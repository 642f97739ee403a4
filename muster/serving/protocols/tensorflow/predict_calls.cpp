// TensorFlow Serving's Predict, on the messages of gRPC.
#include <fmt/ranges.h>

#include <set>

#include "muster/base/error.h"
#include "muster/serving/codec/signature_defaults.h"
#include "muster/serving/protocols/message_of_internal.h"
#include "muster/serving/protocols/tensorflow/fast_predict_internal.h"
#include "muster/serving/protocols/tensorflow/method_names_internal.h"
#include "muster/serving/protocols/tensorflow/model_spec_internal.h"
#include "muster/serving/protocols/tensorflow/tensor_proto_internal.h"
#include "muster/serving/protocols/tensorflow/tensorflow_calls_internal.h"

namespace muster::serving {
namespace {

namespace wire = tensorflow::serving;

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

}  // namespace

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
    if (!signature.defaults.contains(name)) {
      throw InvalidArgument(
          "Signature input alias: {}(feed name: {}) not found in request and no default value "
          "provided. Inputs expected to be in the request {{{}}}, or default input alias set: {}",
          name, info.name, fmt::join(sorted_keys(signature.inputs), ","),
          fmt::join(sorted_keys(signature.defaults), ","));
    }
  }
  for (const auto& row : request.inputs()) {
    if (!signature.inputs.contains(row.first)) {
      throw InvalidArgument(
          "Inputs contains invalid name. Used request inputs: {}, request input: {}",
          fmt::join(sorted_keys(signature.inputs), ","), row.first);
    }
  }
  add_defaults(signature, inputs);
  return inputs;
}

namespace {

/// Parts of a Predict request needed when the model answers, and the bytes of the answer.
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
    call.version.key = caller.key;
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

}  // namespace muster::serving
