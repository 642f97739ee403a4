#include "muster/orchestration/jobs/kubernetes_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <utility>

#include "muster/base/error.h"

namespace muster::jobs {
namespace {

using Json = nlohmann::ordered_json;

std::string text_at(const Json& object, const char* field) {
  const auto found = object.find(field);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

const Json& object_at(const Json& object, const char* field) {
  static const Json nothing = Json::object();
  const auto found = object.find(field);
  return found != object.end() && found->is_object() ? *found : nothing;
}

const Json& list_at(const Json& object, const char* field) {
  static const Json nothing = Json::array();
  const auto found = object.find(field);
  return found != object.end() && found->is_array() ? *found : nothing;
}

// A condition that holds, by its type.
const Json* condition(const Json& object, std::string_view type) {
  for (const Json& one : list_at(object_at(object, "status"), "conditions")) {
    if (one.is_object() && text_at(one, "type") == type && text_at(one, "status") == "True") {
      return &one;
    }
  }
  return nullptr;
}

std::string name_at(const Json& object) { return text_at(object_at(object, "metadata"), "name"); }

// Reasons of a container that waits for what does not come by itself.
bool is_stuck(const std::string& reason) {
  constexpr const char* kStuck[] = {
      "ErrImagePull",         "ImagePullBackOff", "CreateContainerConfigError",
      "CreateContainerError", "InvalidImageName", "ErrImageNeverPull"};
  return std::find(std::begin(kStuck), std::end(kStuck), reason) != std::end(kStuck);
}

constexpr const char* kComponentLabel = "app.kubernetes.io/component";
constexpr const char* kCompletionIndex = "batch.kubernetes.io/job-completion-index";
constexpr const char* kReplicaIndex = "training.kubeflow.org/replica-index";

std::string component_of(const Json& object) {
  return text_at(object_at(object_at(object, "metadata"), "labels"), kComponentLabel);
}

std::int64_t count_at(const Json& object, const char* field, std::int64_t otherwise) {
  const auto found = object.find(field);
  return found != object.end() && found->is_number_integer() ? found->get<std::int64_t>()
                                                             : otherwise;
}

// The number of a task, from annotation or label of its pod.
std::int64_t index_of(const Json& pod) {
  const Json& metadata = object_at(pod, "metadata");
  for (const char* place : {"annotations", "labels"}) {
    for (const char* key : {kCompletionIndex, kReplicaIndex}) {
      const std::string text = text_at(object_at(metadata, place), key);
      std::int64_t index = 0;
      const char* const end = text.data() + text.size();
      const auto [rest, error] = std::from_chars(text.data(), end, index);
      if (error == std::errc() && rest == end && index >= 0) return index;
    }
  }
  return 0;
}

// How many tasks an object is to have at a time; 0 where it does not say.
std::int64_t tasks_of(const Json& job, const std::string& kind) {
  const Json& spec = object_at(job, "spec");
  if (kind == "Job") return count_at(spec, "parallelism", 0);
  std::int64_t tasks = 0;
  for (const Json& role : list_at(spec, "replicatedJobs")) {
    if (!role.is_object()) continue;
    const Json& inner = object_at(object_at(role, "template"), "spec");
    tasks += count_at(role, "replicas", 1) * count_at(inner, "parallelism", 1);
  }
  for (const auto& [type, role] : object_at(spec, "tfReplicaSpecs").items()) {
    if (role.is_object()) tasks += count_at(role, "replicas", 1);
  }
  return tasks;
}

// "2026-03-01T10:04:11Z", as the API has it.
std::optional<Time> api_time(const std::string& text) {
  if (!text.ends_with('Z') || text.find('.') != std::string::npos) return std::nullopt;
  try {
    return parse_time(text.substr(0, text.size() - 1) + ".000000Z");
  } catch (const InvalidArgument&) {
    return std::nullopt;
  }
}

class StateReader {
 public:
  explicit StateReader(bool has_run) : has_run_(has_run) {}

  void add(const Json& item) {
    const std::string kind = text_at(item, "kind");
    const bool is_pod = kind == "Pod";
    if (!is_pod && kind != "Job" && kind != "JobSet" && kind != "TFJob") return;
    ++items_;
    // A pod alone is deleted when its node is drained, and replaced.
    if (!is_pod && object_at(item, "metadata").contains("deletionTimestamp")) ++deleted_jobs_;
    if (is_pod) {
      add_pod(item);
    } else {
      add_job(item, kind);
    }
  }

  KubernetesState state() && {
    KubernetesState all;
    all.state = summed_state();
    all.is_gone = items_ == 0;
    all.is_deleted = items_ > 0 && deleted_jobs_ == jobs_;
    all.note = all.state == State::kFailed ? failure_text() : note_;
    if (all.state == State::kSucceeded) all.note.clear();
    all.pods = std::move(task_pods_);
    all.unfinished_jobs = std::move(unfinished_);
    all.end_time = end_time_;
    return all;
  }

 private:
  State summed_state() const {
    // The chief decides; without one all have to.
    if (is_chief_complete_ || (jobs_ > 0 && complete_ == jobs_)) return State::kSucceeded;
    if (!failure_.empty()) return State::kFailed;
    // A Job that is deleted goes before its pods.
    if (deleted_jobs_ > 0 || (jobs_ == 0 && items_ > 0)) return State::kCancelling;
    if ((pods_ == 0 && failed_pods_ == 0) || is_suspended_) return State::kQueued;
    if (has_run_ && (started_ > 0 || failed_pods_ > 0)) return State::kRunning;
    if (started_ > 0 && started_ == pods_ && started_ >= tasks_) return State::kRunning;
    return scheduled_ == 0 && failed_pods_ == 0 ? State::kQueued : State::kPreparing;
  }

  std::string failure_text() const {
    return task_failure_.empty() ? failure_ : fmt::format("{} ({})", failure_, task_failure_);
  }

  void add_job(const Json& job, const std::string& kind) {
    ++jobs_;
    tasks_ += tasks_of(job, kind);
    if (condition(job, "Suspended") != nullptr) is_suspended_ = true;
    for (const char* type : {"Complete", "Completed", "Succeeded", "SuccessCriteriaMet"}) {
      const Json* const complete = condition(job, type);
      if (complete == nullptr) continue;
      ++complete_;
      end_time_ = api_time(text_at(*complete, "lastTransitionTime"));
      const std::string component = component_of(job);
      if (component == "master" || component == "chief") is_chief_complete_ = true;
      return;
    }
    for (const char* type : {"Failed", "FailureTarget"}) {
      const Json* const failed = condition(job, type);
      if (failed == nullptr) continue;
      failure_ = fmt::format("{} {}: {}: {}", kind, name_at(job), text_at(*failed, "reason"),
                             text_at(*failed, "message"));
      end_time_ = api_time(text_at(*failed, "lastTransitionTime"));
      return;
    }
    if (kind == "Job" && !name_at(job).empty()) unfinished_.push_back(name_at(job));
  }

  void add_pod(const Json& pod) {
    const Json& status = object_at(pod, "status");
    const std::string phase = text_at(status, "phase");
    const bool has_ended = phase == "Failed" || phase == "Succeeded";
    if (!component_of(pod).empty() && !name_at(pod).empty()) {
      task_pods_.push_back({.name = name_at(pod),
                            .type = component_of(pod),
                            .index = index_of(pod),
                            .has_log = has_ended || phase == "Running",
                            .is_over = has_ended});
    }
    // A pod that failed has been replaced, or its job says why not.
    if (phase == "Failed") return add_failed_pod(pod);
    ++pods_;
    if (phase == "Running" || phase == "Succeeded") ++started_;
    if (phase != "Pending" || condition(pod, "PodScheduled") != nullptr) ++scheduled_;
    if (phase == "Unknown") note(pod, "Unknown", "its node does not answer");
    for (const Json& one : list_at(status, "conditions")) {
      if (!one.is_object()) continue;
      if (text_at(one, "type") == "PodScheduled" && text_at(one, "status") == "False") {
        note(pod, text_at(one, "reason"), text_at(one, "message"));
      }
    }
    for (const char* list : {"initContainerStatuses", "containerStatuses"}) {
      for (const Json& container : list_at(status, list)) {
        if (!container.is_object()) continue;
        const Json& waiting = object_at(object_at(container, "state"), "waiting");
        const std::string reason = text_at(waiting, "reason");
        if (is_stuck(reason) || reason == "CrashLoopBackOff") {
          note(pod, reason, text_at(waiting, "message"));
        }
      }
    }
  }

  void add_failed_pod(const Json& pod) {
    ++failed_pods_;
    const Json& status = object_at(pod, "status");
    // Reason for the pod as a whole: Evicted, Preempting, NodeLost, DeadlineExceeded.
    const std::string reason = text_at(status, "reason");
    const Json* const disruption = condition(pod, "DisruptionTarget");
    if (!reason.empty()) {
      note(pod, reason, text_at(status, "message"));
    } else if (disruption != nullptr) {
      note(pod, text_at(*disruption, "reason"), text_at(*disruption, "message"));
    }
    for (const Json& container : list_at(status, "containerStatuses")) {
      if (!container.is_object()) continue;
      const Json& ended = object_at(object_at(container, "state"), "terminated");
      const std::int64_t exit_code = count_at(ended, "exitCode", 0);
      if (text_at(ended, "reason") == "OOMKilled") {
        const std::string why =
            "it took more memory than its machine type has; ask for a larger one";
        note(pod, "OOMKilled", why);
        task_failure_ = fmt::format("{}: OOMKilled: {}", who(pod), why);
      } else if (exit_code != 0) {
        note(pod, fmt::format("exited with status {}", exit_code), "");
        if (task_failure_.empty()) {
          task_failure_ = fmt::format("{} exited with status {}", who(pod), exit_code);
        }
      }
    }
    if (task_failure_.empty()) task_failure_ = note_;
  }

  // The replica, or the pod where nothing says which one it is.
  static std::string who(const Json& pod) {
    const std::string type = component_of(pod);
    return type.empty() ? name_at(pod) : fmt::format("{}-replica-{}", type, index_of(pod));
  }

  void note(const Json& pod, const std::string& reason, const std::string& message) {
    if (!note_.empty()) return;
    note_ = fmt::format("{}: {}{}{}", who(pod), reason, message.empty() ? "" : ": ", message);
  }

  bool has_run_;
  int items_ = 0;
  int deleted_jobs_ = 0;
  int jobs_ = 0;
  int complete_ = 0;
  std::int64_t tasks_ = 0;
  int pods_ = 0;
  int failed_pods_ = 0;
  int scheduled_ = 0;
  int started_ = 0;
  bool is_suspended_ = false;
  bool is_chief_complete_ = false;
  std::string failure_{};
  std::string task_failure_{};
  std::string note_{};
  std::vector<KubernetesTaskPod> task_pods_{};
  std::vector<std::string> unfinished_{};
  std::optional<Time> end_time_{};
};

}  // namespace

KubernetesState kubernetes_state(std::string_view kubectl_json, bool has_run) {
  const Json answer = Json::parse(kubectl_json, nullptr, /*allow_exceptions=*/false);
  if (!answer.is_object()) throw InvalidArgument("kubectl did not answer with a JSON object");
  StateReader reader(has_run);
  if (text_at(answer, "kind") != "List") {
    reader.add(answer);
  } else {
    for (const Json& item : list_at(answer, "items")) {
      if (item.is_object()) reader.add(item);
    }
  }
  return std::move(reader).state();
}

}  // namespace muster::jobs
