#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "muster/orchestration/jobs/kubernetes.h"

/// Parts from which manifests of training and of serving are put together.
namespace muster::jobs {

using Manifest = nlohmann::ordered_json;

/// Throws InvalidArgument for what Kubernetes would refuse.
void check_pod(const KubernetesPod& pod);

/// The user's labels, and those by which we find the objects of `instance`.
Manifest labels_of(const KubernetesPod& pod, const std::string& instance);

/// "metadata" with them; `spec` is still to come.
Manifest object_of(const char* version, const char* kind, const std::string& name,
                   const Manifest& labels);

/// A container with image, resources, volumes and as few rights as a program needs.
Manifest container_of(const KubernetesPod& pod, const std::string& name, const Resources& each);

Manifest variable_of(const std::string& name, const std::string& value);

/// The spec of a pod with this container, without a restart policy.
Manifest pod_spec_of(const KubernetesPod& pod, Manifest container);

/// Several documents.
std::string yaml_of(const std::vector<Manifest>& documents);

}  // namespace muster::jobs
