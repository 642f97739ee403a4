// In the place of yaml.cpp where yaml-cpp is not installed.
#include <nlohmann/json.hpp>

#include "muster/base/error.h"
#include "muster/orchestration/jobs/yaml_internal.h"

namespace muster::jobs {

YamlValue parse_yaml(std::string_view, std::string_view name) {
  throw Unimplemented(
      "{}: this muster was built without yaml-cpp and reads no files of jobs; install "
      "libyaml-cpp-dev and build it again",
      name);
}

// JSON is YAML too.
std::string yaml_of_json(std::string_view json) {
  const auto value = nlohmann::ordered_json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (value.is_discarded()) throw InvalidArgument("no JSON");
  return value.dump(2) + "\n";
}

}  // namespace muster::jobs
