#include "muster/orchestration/jobs/kubernetes_pod.h"

#include <map>
#include <string>

#include "muster/base/error.h"

namespace muster::jobs {
namespace {

constexpr const char* kImage = "--image";
constexpr const char* kVolume = "--volume";
constexpr const char* kVariable = "--env";
constexpr const char* kVariableSecret = "--env-secret";
constexpr const char* kServiceAccount = "--kubernetes-service-account";
constexpr const char* kGpuResource = "--gpu-resource";
constexpr const char* kDefaultGpuResource = "nvidia.com/gpu";

// "CLAIM:/PATH".
std::vector<KubernetesVolume> parse_volumes(const std::vector<std::string>& words) {
  std::vector<KubernetesVolume> volumes;
  for (const std::string& word : words) {
    const std::size_t colon = word.find(':');
    if (colon == std::string::npos) {
      throw InvalidArgument("--volume is CLAIM:/PATH: \"{}\"", word);
    }
    volumes.push_back({word.substr(0, colon), word.substr(colon + 1)});
  }
  return volumes;
}

std::map<std::string, std::string> parse_variables(const std::vector<std::string>& words) {
  std::map<std::string, std::string> variables;
  for (const std::string& word : words) {
    const std::size_t equals = word.find('=');
    if (equals == 0 || equals == std::string::npos) {
      throw InvalidArgument("--env is NAME=VALUE: \"{}\"", word);
    }
    variables[word.substr(0, equals)] = word.substr(equals + 1);
  }
  return variables;
}

}  // namespace

std::vector<BackEndFlag> kubernetes_pod_flags() {
  return {{.name = kImage, .description = "The container image with the program"},
          {.name = kVolume,
           .description = "CLAIM:/PATH, a volume claim and where it is seen; may be repeated",
           .is_repeatable = true},
          {.name = kVariable,
           .description = "NAME=VALUE, a variable of every container; may be repeated",
           .is_repeatable = true},
          {.name = kVariableSecret,
           .description = "A Secret whose keys are variables of every container, such as a store's "
                          "AWS_ACCESS_KEY_ID; may be repeated",
           .is_repeatable = true},
          {.name = kServiceAccount, .description = "The account that pods run as"},
          {.name = kGpuResource,
           .description = "The resource that is a GPU there",
           .default_value = kDefaultGpuResource}};
}

KubernetesPod kubernetes_pod(const FlagValues& flags) {
  return {.image = flags.text(kImage),
          .environment = parse_variables(flags.all(kVariable)),
          .environment_secrets = flags.all(kVariableSecret),
          .volumes = parse_volumes(flags.all(kVolume)),
          .service_account = flags.text(kServiceAccount),
          .gpu_resource = flags.text(kGpuResource, kDefaultGpuResource)};
}

}  // namespace muster::jobs
