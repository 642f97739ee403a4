#pragma once

#include <string>
#include <string_view>

#include "muster/orchestration/jobs/job.h"
#include "muster/orchestration/jobs/machines.h"

namespace muster::jobs {

/// A job as job.json holds it: Cloud ML Engine's resource, and `local` beside it.
std::string to_json(const Job& job);
/// Throws DataLoss for what to_json() has not written.
Job job_from_json(std::string_view json);
/// The same for people. `training_output` is a JSON object that becomes the field of this name;
/// without one there is none.
std::string to_yaml(const Job& job, std::string_view training_output = {});

/// Reads a job written for Cloud ML Engine (--config): YAML or JSON with jobId, labels and
/// trainingInput. Adds to the submission what the file says, where each field stands, and warnings
/// for fields that have a meaning in a cloud alone. Throws InvalidArgument with file and line for a
/// field that is not known or a value that does not fit.
void read_job_file(const Path& file, Submission& submission);
/// The same of its text; `name` is what places say.
void read_job_text(std::string_view text, std::string_view name, Submission& submission);

/// "7200s", as durations are written. Throws InvalidArgument.
std::chrono::seconds parse_duration(std::string_view text);

}  // namespace muster::jobs
