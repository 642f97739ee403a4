// Slurm's part of a job's state.
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "muster/orchestration/jobs/block_internal.h"
#include "muster/orchestration/jobs/slurm.h"

namespace muster::jobs {
namespace {

constexpr std::array<std::pair<std::string_view, State>, 25> kSlurmStates{{
    {"PENDING", State::kQueued},        {"REQUEUED", State::kQueued},
    {"REQUEUE_FED", State::kQueued},    {"REQUEUE_HOLD", State::kQueued},
    {"SPECIAL_EXIT", State::kQueued},   {"RESV_DEL_HOLD", State::kQueued},
    {"CONFIGURING", State::kPreparing}, {"STAGE_OUT", State::kRunning},
    {"RUNNING", State::kRunning},       {"COMPLETING", State::kRunning},
    {"SUSPENDED", State::kRunning},     {"STOPPED", State::kRunning},
    {"SIGNALING", State::kRunning},     {"RESIZING", State::kRunning},
    {"COMPLETED", State::kSucceeded},   {"FAILED", State::kFailed},
    {"BOOT_FAIL", State::kFailed},      {"OUT_OF_MEMORY", State::kFailed},
    {"NODE_FAIL", State::kFailed},      {"DEADLINE", State::kFailed},
    {"TIMEOUT", State::kFailed},        {"REVOKED", State::kFailed},
    {"PREEMPTED", State::kFailed},      {"LAUNCH_FAILED", State::kFailed},
    {"CANCELLED", State::kCancelled},
}};

}  // namespace

std::optional<State> state_of_slurm(std::string_view name) {
  // "CANCELLED by 1000".
  name = name.substr(0, name.find(' '));
  for (const auto& [known, state] : kSlurmStates) {
    if (known == name) return state;
  }
  return std::nullopt;
}

SlurmRun slurm_run(const Job& job) {
  return read_block(job, [](const nlohmann::ordered_json& json) {
    return SlurmRun{.id = json.at("jobId"),
                    .reason = json.value("reason", ""),
                    .options = json.value("options", std::vector<std::string>())};
  });
}

void keep(Job& job, const SlurmRun& run) {
  nlohmann::ordered_json json{{"jobId", run.id}};
  if (!run.reason.empty()) json["reason"] = run.reason;
  if (!run.options.empty()) json["options"] = run.options;
  job.block = block_of(json);
}

}  // namespace muster::jobs
