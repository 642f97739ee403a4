#include "muster/orchestration/jobs/back_ends.h"

#include <algorithm>
#include <map>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/base/printable.h"
#include "muster/orchestration/jobs/block_internal.h"

namespace muster::jobs {

/// In the source that CMake writes from the list of back ends.
std::vector<std::shared_ptr<const BackEnd>> built_in_back_ends();

namespace {

// Keys of job.json beside the block of the back end.
constexpr std::string_view kKeysOfJobs[] = {"labels", "state"};

void check_back_end_name(const std::string& name) {
  const bool is_key =
      !name.empty() &&
      name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_-") == std::string::npos;
  if (!is_key || std::ranges::find(kKeysOfJobs, name) != std::end(kKeysOfJobs)) {
    throw InvalidArgument(
        "a back end cannot be called \"{}\": its name has lower-case letters, digits, '_' and '-', "
        "and is no field of a job",
        printable(name));
  }
}

}  // namespace

const BackEnds& BackEnds::built_in() {
  static const BackEnds table = [] {
    BackEnds back_ends;
    for (auto& back_end : built_in_back_ends()) back_ends.add(std::move(back_end));
    return back_ends;
  }();
  return table;
}

void BackEnds::add(std::shared_ptr<const BackEnd> back_end) {
  const std::string name = back_end->name();
  check_back_end_name(name);
  if (has(name)) throw InvalidArgument("duplicate back end {}", name);
  all_.push_back(std::move(back_end));
}

bool BackEnds::has(std::string_view name) const {
  return std::ranges::any_of(all_, [&](const auto& one) { return one->name() == name; });
}

const BackEnd& BackEnds::find(std::string_view name) const {
  for (const auto& one : all_) {
    if (one->name() == name) return *one;
  }
  throw InvalidArgument("there is no back end \"{}\" in this version; there are {}",
                        printable(name), names_text());
}

std::string BackEnds::names_text() const {
  std::string text;
  for (std::size_t i = 0; i < all_.size(); ++i) {
    if (i > 0) text += i + 1 < all_.size() ? ", " : " and ";
    text += all_[i]->name();
  }
  return text;
}

void submit_job(const BackEnds& back_ends, const JobStore& store, const Submission& submission,
                const std::vector<std::string>& environment) {
  const BackEnd& back_end = back_ends.find(submission.job.back_end);
  store.create(submission.job, environment);
  const std::string& name = submission.job.job_id;
  try {
    back_end.submit(store, submission);
  } catch (...) {
    // No other process has it: a job that is over may be removed.
    store.change(name, [](Job& job) { job.state = State::kFailed; });
    store.remove(name);
    throw;
  }
}

bool refresh_or_warn(const BackEnd& back_end, const JobStore& store, const std::vector<Job>& jobs) {
  try {
    back_end.refresh(store, jobs);
    return true;
  } catch (const Error& error) {
    log::warning("the states of jobs of {} are as they were last seen: {}", back_end.name(),
                 error.what());
    return false;
  }
}

bool refresh_jobs(const BackEnds& back_ends, const JobStore& store, const std::vector<Job>& jobs) {
  std::map<std::string, std::vector<Job>> open;
  for (const Job& job : jobs) {
    if (!is_final(job.state)) open[job.back_end].push_back(job);
  }
  bool has_answered = true;
  for (const auto& [name, of_one] : open) {
    if (back_ends.has(name)) {
      has_answered = refresh_or_warn(back_ends.find(name), store, of_one) && has_answered;
      continue;
    }
    has_answered = false;
    log::warning(
        "the states of jobs of {0} are as they were last seen: there is no back end \"{0}\" in "
        "this version",
        printable(name));
  }
  return has_answered;
}

Job cancel_job(const BackEnds& back_ends, const JobStore& store, const std::string& name,
               const std::string& reason) {
  return back_ends.find(store.read(name).back_end).cancel(store, name, reason);
}

void remove_job(const BackEnds& back_ends, const JobStore& store, const std::string& name) {
  refresh_jobs(back_ends, store, {store.read(name)});
  const Job job = store.read(name);
  if (is_final(job.state)) back_ends.find(job.back_end).remove(store, job);
  store.remove(name);
}

}  // namespace muster::jobs
