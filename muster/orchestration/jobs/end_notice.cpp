#include "muster/orchestration/jobs/end_notice.h"

#include <fmt/core.h>
#include <stdlib.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <nlohmann/json.hpp>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/base/printable.h"
#include "muster/orchestration/process/captured_process.h"

namespace muster::jobs {
namespace {

using nlohmann::ordered_json;

constexpr std::chrono::minutes kMostCommandTime{1};
constexpr std::size_t kMostNoticeBytes = 4096;
constexpr std::size_t kMostShownOutput = 500;

bool is_url(const std::string& notice) {
  return notice.starts_with("http://") || notice.starts_with("https://");
}

std::string lower_case(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](unsigned char c) { return std::tolower(c); });
  return out;
}

std::chrono::seconds duration_of(const Job& job) {
  if (!job.start_time || !job.end_time) return std::chrono::seconds(0);
  return std::chrono::duration_cast<std::chrono::seconds>(*job.end_time - *job.start_time);
}

// In the folder that the job was submitted from, whatever that of this process is.
void run_notice(const Job& job, const std::string& command, const std::string& json) {
  const std::string folder =
      job.local.working_directory.empty() ? "." : job.local.working_directory.string();
  const auto output = process::run_captured(
      {.command = {"/bin/sh", "-c", "cd \"$0\" && eval \"$1\"", folder, command},
       .input = json,
       .timeout = kMostCommandTime,
       .most_output_bytes = std::size_t{1} << 20});
  if (output.status == 0) return;
  throw Unavailable("it exited with status {}: {}", output.status,
                    printable(output.err.substr(0, kMostShownOutput)));
}

}  // namespace

void check_notice(const std::string& notice) {
  if (notice.empty() || notice.size() > kMostNoticeBytes || printable(notice) != notice) {
    throw InvalidArgument("--notify is a URL or a command of at most {} bytes: \"{}\"",
                          kMostNoticeBytes, printable(notice.substr(0, kMostShownOutput)));
  }
  const auto scheme = notice.find("://");
  if (scheme == notice.npos || is_url(notice) || notice.find_first_of(" \t'\"") < scheme) return;
  throw InvalidArgument("--notify: a URL begins with http:// or https://: {}", notice);
}

std::string notice_json(const Job& job) {
  const auto seconds = duration_of(job).count();
  std::string text =
      fmt::format("job {} {} after {} s", job.job_id, lower_case(name_of(job.state)), seconds);
  if (!job.error_message.empty()) text += ": " + job.error_message;
  ordered_json json{{"text", text},
                    {"job", job.job_id},
                    {"state", name_of(job.state)},
                    {"error", job.error_message},
                    {"seconds", seconds},
                    {"jobDir", job.training_input.job_dir},
                    {"labels", job.labels}};
  if (job.local.exit_status) json["exitStatus"] = *job.local.exit_status;
  return json.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

void tell_of_end(const Job& job, const PostNotice& post) {
  if (job.local.notices.empty()) return;
  const std::string json = notice_json(job);
  ::setenv("MUSTER_JOB_NAME", job.job_id.c_str(), 1);
  ::setenv("MUSTER_JOB_STATE", std::string(name_of(job.state)).c_str(), 1);
  ::setenv("MUSTER_JOB_ERROR", job.error_message.c_str(), 1);
  for (const std::string& notice : job.local.notices) {
    try {
      is_url(notice) ? post(notice, json) : run_notice(job, notice, json);
    } catch (const Error& error) {
      // A URL may hold a secret.
      log::warning("the notice that job {} has ended failed, by {}: {}", job.job_id,
                   is_url(notice) ? "its URL" : "the command " + printable(notice), error.what());
    }
  }
}

}  // namespace muster::jobs
