#include "muster/jobs/kubernetes_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

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

class StateReader {
 public:
  explicit StateReader(bool has_run) : has_run_(has_run) {}

  void add(const Json& item) {
    if (object_at(item, "metadata").contains("deletionTimestamp")) is_deleted_ = true;
    const std::string kind = text_at(item, "kind");
    if (kind == "Pod") {
      add_pod(item);
    } else if (kind == "Job" || kind == "JobSet" || kind == "TFJob") {
      add_job(item, kind);
    }
  }

  KubernetesState state() const {
    if (!failure_.empty()) return {State::kFailed, failure_};
    if (jobs_ > 0 && complete_ == jobs_) return {State::kSucceeded, ""};
    if (is_deleted_) return {State::kCancelling, note_};
    if (pods_ == 0 || is_suspended_) return {State::kQueued, note_};
    if (started_ == pods_ || (has_run_ && started_ > 0)) return {State::kRunning, note_};
    if (scheduled_ == 0) return {State::kQueued, note_};
    return {State::kPreparing, note_};
  }

 private:
  void add_job(const Json& job, const std::string& kind) {
    ++jobs_;
    if (condition(job, "Suspended") != nullptr) is_suspended_ = true;
    for (const char* type : {"Complete", "Completed", "Succeeded", "SuccessCriteriaMet"}) {
      if (condition(job, type) == nullptr) continue;
      ++complete_;
      break;
    }
    for (const char* type : {"Failed", "FailureTarget"}) {
      const Json* const failed = condition(job, type);
      if (failed == nullptr) continue;
      failure_ = fmt::format("{} {}: {}: {}", kind, name_at(job), text_at(*failed, "reason"),
                             text_at(*failed, "message"));
      break;
    }
  }

  void add_pod(const Json& pod) {
    const Json& status = object_at(pod, "status");
    const std::string phase = text_at(status, "phase");
    // A pod that failed has been replaced, or its job says why not.
    if (phase == "Failed") return add_failed_pod(pod);
    ++pods_;
    if (phase == "Running" || phase == "Succeeded") ++started_;
    if (phase != "Pending" || condition(pod, "PodScheduled") != nullptr) ++scheduled_;
    for (const Json& one : list_at(status, "conditions")) {
      if (text_at(one, "type") == "PodScheduled" && text_at(one, "status") == "False") {
        note(pod, text_at(one, "reason"), text_at(one, "message"));
      }
    }
    for (const char* list : {"initContainerStatuses", "containerStatuses"}) {
      for (const Json& container : list_at(status, list)) {
        const Json& waiting = object_at(object_at(container, "state"), "waiting");
        const std::string reason = text_at(waiting, "reason");
        if (is_stuck(reason) || reason == "CrashLoopBackOff") {
          note(pod, reason, text_at(waiting, "message"));
        }
      }
    }
  }

  void add_failed_pod(const Json& pod) {
    for (const Json& container : list_at(object_at(pod, "status"), "containerStatuses")) {
      const Json& ended = object_at(object_at(container, "state"), "terminated");
      if (text_at(ended, "reason") == "OOMKilled") {
        note(pod, "OOMKilled",
             "it took more memory than its machine type has; ask for a larger one");
      }
    }
  }

  void note(const Json& pod, const std::string& reason, const std::string& message) {
    if (!note_.empty()) return;
    note_ = fmt::format("{}: {}{}{}", name_at(pod), reason, message.empty() ? "" : ": ", message);
  }

  bool has_run_;
  int jobs_ = 0;
  int complete_ = 0;
  int pods_ = 0;
  int scheduled_ = 0;
  int started_ = 0;
  bool is_suspended_ = false;
  bool is_deleted_ = false;
  std::string failure_{};
  std::string note_{};
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
  return reader.state();
}

}  // namespace muster::jobs
