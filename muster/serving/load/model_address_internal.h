#pragma once

#include <fmt/core.h>

#include <charconv>
#include <string>
#include <string_view>
#include <system_error>

#include "muster/saved_model/graph/saved_model.h"
#include "muster/serving.pb.h"
#include "muster/serving/load/load_protocol.h"

/// How each protocol names a model.
namespace muster::serving {

inline std::string escaped_path_part(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                          (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.';
    out += is_plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return out;
}

inline std::string model_path(LoadProtocol protocol, const ModelAddress& model) {
  std::string path = protocol == LoadProtocol::kRest ? "/v1/models/" : "/v2/models/";
  path += escaped_path_part(model.name);
  if (model.version.empty()) return path;
  // TensorFlow Serving keeps numbers and labels apart.
  const bool is_label = protocol == LoadProtocol::kRest &&
                        model.version.find_first_not_of("0123456789") != std::string::npos;
  path += (is_label ? "/labels/" : "/versions/") + escaped_path_part(model.version);
  return path;
}

inline std::string signature_of(const ModelAddress& model) {
  return model.signature.empty() ? std::string(graph::kDefaultSignature) : model.signature;
}

inline void set_spec(const ModelAddress& model, tensorflow::serving::ModelSpec& spec) {
  spec.set_name(model.name);
  spec.clear_version_choice();
  if (model.version.empty()) return;
  std::int64_t number = 0;
  const char* const end = model.version.data() + model.version.size();
  const auto read = std::from_chars(model.version.data(), end, number);
  if (read.ec == std::errc() && read.ptr == end) {
    spec.mutable_version()->set_value(number);
  } else {
    spec.set_version_label(model.version);
  }
}

}  // namespace muster::serving
