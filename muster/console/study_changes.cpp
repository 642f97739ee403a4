#include "muster/console/study_changes.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/json_depth.h"
#include "muster/base/log.h"
#include "muster/orchestration/tuning/study.h"
#include "muster/orchestration/tuning/study_control.h"

namespace muster::console {
namespace {

using jobs::Job;
using nlohmann::json;

constexpr std::int64_t kMostNewTrials = 1000;
constexpr const char* kHyperparameters = "hyperparameters";
constexpr const char* kHyperparametersFlag = "--hyperparameters";

std::int64_t trials_in(const std::string& body) {
  const json wish = is_json_deeper_than(kMostJsonFileDepth, body)
                        ? json()
                        : json::parse(body, nullptr, /*allow_exceptions=*/false);
  const auto trials = wish.is_object() ? wish.find("trials") : wish.end();
  if (trials == wish.end() || !trials->is_number_integer() || *trials < 1 ||
      *trials > kMostNewTrials) {
    throw InvalidArgument("trials must be a whole number from 1 to {}", kMostNewTrials);
  }
  return trials->get<std::int64_t>();
}

// The command of a study is in its folder: what another user has written there is not run.
void check_owner(const Path& folder) {
  const Path file = folder / "study" / "study.json";
  struct stat status {};
  if (::lstat(file.c_str(), &status) != 0) throw NotFound("there is no file {}", file.string());
  if (S_ISREG(status.st_mode) && status.st_uid == ::geteuid()) return;
  throw FailedPrecondition(
      "{} belongs to another user, and the program that it names is not run for them; run `muster "
      "tune` instead",
      file.string());
}

// The block `hyperparameters` with more trials.
json with_more_trials(const tuning::StudySetup& setup, std::int64_t trials) {
  const auto spec = tuning::parse_hyperparameters(setup.hyperparameters);
  if (spec.population) {
    throw FailedPrecondition(
        "the rounds of a population divide its steps by the number of trials, which cannot change");
  }
  json block = json::parse(setup.hyperparameters);
  block["maxTrials"] = spec.max_trials + trials;
  return block;
}

void set_block(Job& job, const json& block) {
  std::vector<std::string>& command = job.local.command;
  const auto flag = std::ranges::find(command, kHyperparametersFlag);
  if (flag == command.end() || std::next(flag) == command.end()) {
    throw FailedPrecondition("the job {} runs no study that can be extended", job.job_id);
  }
  *std::next(flag) = block.dump();
  json fields = json::parse(job.training_input.cloud_fields);
  fields[kHyperparameters] = block;
  job.training_input.cloud_fields = fields.dump();
}

// Letters, digits and underscores after a letter.
std::string job_name_for(const Path& folder) {
  std::string name = "study_";
  for (const char c : folder.filename().string().substr(0, 80)) {
    const bool is_plain =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    name += is_plain ? c : '_';
  }
  return name;
}

std::vector<std::string> environment_of_console() {
  std::vector<std::string> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) variables.emplace_back(*entry);
  return variables;
}

// A job for a study that was begun by `muster tune` in a shell.
Job job_for(const Path& folder, const tuning::StudySetup& setup, const json& block,
            const std::vector<std::string>& supervise_command) {
  if (setup.working_directory.empty() || setup.command.empty() || supervise_command.empty()) {
    throw FailedPrecondition(
        "the folder of this study does not name the folder that it was begun in; run `muster tune` "
        "with a larger maxTrials");
  }
  Job job{.job_id = job_name_for(folder)};
  job.training_input.module_name = setup.command.front();
  job.training_input.args.assign(setup.command.begin() + 1, setup.command.end());
  job.training_input.job_dir = folder.string();
  job.training_input.cloud_fields = json{{kHyperparameters, block}}.dump();
  job.local.working_directory = setup.working_directory;
  job.local.needs.cpus = 1;
  job.local.command = {
      supervise_command.front(), "tune",   kHyperparametersFlag,       block.dump(), "--job-dir",
      folder.string(),           "--seed", std::to_string(setup.seed), "--"};
  job.local.command.insert(job.local.command.end(), setup.command.begin(), setup.command.end());
  return job;
}

serving::HttpResponse job_answer(const std::string& name) {
  return {.body = json{{"job", name}}.dump()};
}

}  // namespace

serving::HttpResponse StudyChanges::stop(const ApiRequest& request) {
  const StudiesApi::Place place = studies_.find(request.first("id").value_or(""));
  const auto job = jobs_.job_of(place.folder);
  if (job && !is_final(job->state)) {
    jobs_.cancel(job->job_id);
    return job_answer(job->job_id);
  }
  tuning::request_study_stop(place.folder);
  log::info("asked the study in {} to stop for a page", place.folder.string());
  return {.body = "{}"};
}

serving::HttpResponse StudyChanges::extend(const ApiRequest& request) {
  const std::int64_t trials = trials_in(request.body);
  const StudiesApi::Place place = studies_.find(request.first("id").value_or(""));
  const auto job = jobs_.job_of(place.folder);
  if (tuning::is_study_running(place.folder) || (job && !is_final(job->state))) {
    throw FailedPrecondition("the study runs: stop it before it is extended");
  }
  check_owner(place.folder);
  const tuning::StudySetup setup = tuning::read_study_setup(place.folder);
  const json block = with_more_trials(setup, trials);
  if (job) {
    const Job again = jobs_.submit_again(*job, [&](Job& changed) { set_block(changed, block); });
    return job_answer(again.job_id);
  }
  Job made = job_for(place.folder, setup, block, jobs_.store().supervise_command());
  return job_answer(jobs_.submit_new(std::move(made), environment_of_console()).job_id);
}

}  // namespace muster::console
