#pragma once

#include <functional>
#include <string>

#include "muster/orchestration/jobs/job.h"

namespace muster::jobs {

/// Posts JSON to a URL. Throws where that fails.
using PostNotice = std::function<void(const std::string& url, const std::string& body)>;

/// Throws InvalidArgument unless it is an http:// or https:// URL or a command for a shell.
void check_notice(const std::string& notice);

/// {"text": "job census succeeded after 12 s", "job": "census", "state": "SUCCEEDED", ...}: the
/// text is what chats show.
std::string notice_json(const Job& job);

/// Tells of the end of a job as it was asked to (`LocalRun::notices`): URLs get notice_json() as a
/// POST, commands get it on their standard input, and MUSTER_JOB_NAME, MUSTER_JOB_STATE and
/// MUSTER_JOB_ERROR in their environment. A command is ended after a minute. Failures are logged.
/// Changes the environment of this process.
void tell_of_end(const Job& job, const PostNotice& post);

}  // namespace muster::jobs
