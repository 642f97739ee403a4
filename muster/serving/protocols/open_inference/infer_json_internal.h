#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "muster/serving/core/servable.h"
#include "muster/serving/core/service.h"
#include "muster/serving/http/http_message.h"

/// Bodies of the Open Inference Protocol over REST, with the extension for binary tensors.
namespace muster::serving::oip {

inline constexpr std::string_view kHeaderLength = "Inference-Header-Content-Length";

/// A request's JSON and the bytes that follow it.
struct InferBody {
  nlohmann::json request{};
  std::string_view binary{};
};

/// Reads a body, which must outlive the result. Throws InvalidArgument for wrong JSON and for a
/// wrong length in the header.
InferBody infer_body(const HttpRequest& http);

/// Parses a JSON object. Throws InvalidArgument for anything else.
nlohmann::json parse_request(std::string_view text);

/// A member of the object's "parameters"; null where there is none.
const nlohmann::json* parameter(const nlohmann::json& object, const char* key);
bool is_true(const nlohmann::json* value);

/// Input tensors of a request. Throws InvalidArgument, naming the input and the model.
Tensors infer_inputs(const InferBody& body, const std::string& model);

/// Outputs that a request asks for, and which of them as bytes.
struct OutputWishes {
  std::vector<std::string> names{};
  std::map<std::string, bool, std::less<>> binary{};
  bool all_binary = false;

  bool is_binary(const std::string& name) const {
    const auto found = binary.find(name);
    return found == binary.end() ? all_binary : found->second;
  }
};
OutputWishes wishes_of(const nlohmann::json& request);

HttpResponse infer_answer(const nlohmann::json& request, const ModelVersion& version,
                          const Tensors& outputs, const OutputWishes& wishes);

}  // namespace muster::serving::oip
