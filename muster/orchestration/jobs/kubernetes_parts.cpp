#include <fmt/format.h>

#include <cctype>
#include <cmath>
#include <nlohmann/json.hpp>

#include "muster/base/error.h"
#include "muster/orchestration/jobs/kubernetes_parts_internal.h"
#include "muster/orchestration/jobs/yaml_internal.h"

namespace muster::jobs {
namespace {

constexpr int kUser = 1000;
constexpr std::size_t kMostLabelLength = 63;

// Kubernetes takes labels that begin and end with a letter or digit.
void check_label(const std::string& key, const std::string& value) {
  const auto is_alnum = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; };
  const auto fits = [&](const std::string& text) {
    return text.empty() ||
           (text.size() <= kMostLabelLength && is_alnum(text.front()) && is_alnum(text.back()));
  };
  if (!fits(key) || !fits(value)) {
    throw InvalidArgument(
        "label {}={}: Kubernetes takes keys and values that begin and end with a letter or a "
        "digit",
        key, value);
  }
}

// "7200M" of 7.2 GB.
std::string memory_text(double gigabytes) {
  return fmt::format("{}M", static_cast<std::int64_t>(std::ceil(gigabytes * 1000)));
}

// "500m" of half a processor.
std::string cpu_text(double cpus) {
  const auto thousandths = static_cast<std::int64_t>(std::ceil(cpus * 1000));
  return thousandths % 1000 == 0 ? std::to_string(thousandths / 1000)
                                 : fmt::format("{}m", thousandths);
}

// Memory cannot be taken back: a task that has more than its limit is ended, so both ends are the
// same. A processor can be shared.
Manifest resources_of(const Resources& each, const std::string& gpu_resource) {
  Manifest resources = Manifest::object();
  if (each.cpus > 0) resources["requests"]["cpu"] = cpu_text(each.cpus);
  if (each.memory_gb > 0) {
    resources["requests"]["memory"] = memory_text(each.memory_gb);
    resources["limits"]["memory"] = memory_text(each.memory_gb);
  }
  if (each.gpus > 0) resources["limits"][gpu_resource] = each.gpus;
  return resources;
}

std::string volume_name(std::size_t number) { return fmt::format("volume-{}", number); }

}  // namespace

void check_pod(const KubernetesPod& pod) {
  if (pod.image.empty()) {
    throw InvalidArgument("Kubernetes runs images: name one with the program in it, --image");
  }
  for (const auto& [key, value] : pod.labels) check_label(key, value);
  for (const KubernetesVolume& volume : pod.volumes) {
    if (volume.claim.empty() || !volume.mount_path.starts_with('/')) {
      throw InvalidArgument("a volume is CLAIM:/PATH: \"{}:{}\"", volume.claim, volume.mount_path);
    }
  }
}

Manifest labels_of(const KubernetesPod& pod, const std::string& instance) {
  Manifest labels;
  for (const auto& [key, value] : pod.labels) labels[key] = value;
  // Last, so that a user's label does not hide an object from our own commands.
  labels["app.kubernetes.io/managed-by"] = "muster";
  labels["app.kubernetes.io/instance"] = instance;
  return labels;
}

Manifest object_of(const char* version, const char* kind, const std::string& name,
                   const Manifest& labels) {
  return {
      {"apiVersion", version}, {"kind", kind}, {"metadata", {{"name", name}, {"labels", labels}}}};
}

Manifest variable_of(const std::string& name, const std::string& value) {
  return {{"name", name}, {"value", value}};
}

Manifest container_of(const KubernetesPod& pod, const std::string& name, const Resources& each) {
  Manifest mounts = Manifest::array({{{"name", "tmp"}, {"mountPath", "/tmp"}}});
  for (std::size_t i = 0; i < pod.volumes.size(); ++i) {
    mounts.push_back({{"name", volume_name(i)}, {"mountPath", pod.volumes[i].mount_path}});
  }
  Manifest container = {{"name", name}, {"image", pod.image}};
  if (Manifest resources = resources_of(each, pod.gpu_resource); !resources.empty()) {
    container["resources"] = resources;
  }
  container["securityContext"] = {{"allowPrivilegeEscalation", false},
                                  {"readOnlyRootFilesystem", true},
                                  {"capabilities", {{"drop", Manifest::array({"ALL"})}}}};
  container["volumeMounts"] = mounts;
  for (const auto& [key, value] : pod.environment) {
    container["env"].push_back(variable_of(key, value));
  }
  for (const std::string& secret : pod.environment_secrets) {
    container["envFrom"].push_back({{"secretRef", {{"name", secret}}}});
  }
  return container;
}

Manifest pod_spec_of(const KubernetesPod& pod, Manifest container) {
  Manifest volumes = Manifest::array({{{"name", "tmp"}, {"emptyDir", Manifest::object()}}});
  for (std::size_t i = 0; i < pod.volumes.size(); ++i) {
    volumes.push_back({{"name", volume_name(i)},
                       {"persistentVolumeClaim", {{"claimName", pod.volumes[i].claim}}}});
  }
  Manifest spec;
  if (!pod.service_account.empty()) spec["serviceAccountName"] = pod.service_account;
  spec["securityContext"] = {{"runAsNonRoot", true},
                             {"runAsUser", kUser},
                             {"fsGroup", kUser},
                             {"seccompProfile", {{"type", "RuntimeDefault"}}}};
  spec["containers"] = Manifest::array({std::move(container)});
  spec["volumes"] = volumes;
  return spec;
}

std::string yaml_of(const std::vector<Manifest>& documents) {
  std::string text;
  for (const Manifest& document : documents) {
    if (!text.empty()) text += "---\n";
    text += yaml_of_json(document.dump());
  }
  return text;
}

}  // namespace muster::jobs
