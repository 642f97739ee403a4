#include "muster/orchestration/jobs/kubernetes_run.h"

#include <nlohmann/json.hpp>

#include "muster/orchestration/jobs/block_internal.h"

namespace muster::jobs {

KubernetesRun kubernetes_run(const Job& job) {
  return read_block(job, [](const nlohmann::ordered_json& json) {
    KubernetesRun run;
    run.name = json.at("name");
    run.run_id = json.at("runId");
    run.kind = json.at("kind");
    run.kubectl = json.value("kubectl", "");
    run.context = json.value("context", "");
    run.name_space = json.value("namespace", "");
    run.has_service = json.at("service");
    run.has_secret = json.at("secret");
    run.is_submitted = json.at("submitted");
    run.has_run = json.at("hasRun");
    run.note = json.value("note", "");
    return run;
  });
}

void keep(Job& job, const KubernetesRun& run) {
  nlohmann::ordered_json json{{"name", run.name}, {"runId", run.run_id}, {"kind", run.kind}};
  const auto put_if = [&](const char* key, const std::string& text) {
    if (!text.empty()) json[key] = text;
  };
  put_if("kubectl", run.kubectl);
  put_if("context", run.context);
  put_if("namespace", run.name_space);
  json["service"] = run.has_service;
  json["secret"] = run.has_secret;
  json["submitted"] = run.is_submitted;
  json["hasRun"] = run.has_run;
  put_if("note", run.note);
  job.block = block_of(json);
}

}  // namespace muster::jobs
