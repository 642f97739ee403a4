// Jobs that Slurm runs, in one allocation for all tasks of a job: what is asked of sbatch, squeue,
// scontrol, scancel and sacct, and what their answers mean. The folder of jobs must be one that all
// nodes see.
//
//     JOBS/NAME/job.sbatch, task.sh    what Slurm runs, and what each task of it does
//               secret                 proves that tasks belong to the run; its owner's alone
//               result                 how the job ended, by job.sbatch
//               retries                how often job.sbatch has queued it again
//               attempts/N/TASK.log, TASK.status
#include "muster/orchestration/jobs/slurm.h"

#include <fmt/core.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <map>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/lines.h"
#include "muster/base/log.h"
#include "muster/base/open_file.h"
#include "muster/base/printable.h"
#include "muster/orchestration/jobs/back_end.h"
#include "muster/orchestration/jobs/job_log.h"
#include "muster/orchestration/jobs/job_runner.h"
#include "muster/orchestration/launch/secret.h"
#include "muster/orchestration/process/captured_process.h"

namespace muster::jobs {
namespace {

constexpr const char* kSlurmOption = "--slurm-option";
constexpr std::chrono::seconds kSlurmPatience{60};
constexpr std::size_t kMostLinesSaid = 2;
constexpr std::uint64_t kMostResultBytes = 4096;
constexpr std::size_t kMostAnswerBytes = std::size_t{64} << 20;
// A submit that was killed between sbatch and its note of the number.
constexpr std::chrono::minutes kHandOverPatience{2};

// Why a job waits that no end of other jobs lets start.
constexpr std::array<std::string_view, 4> kLastingReasons{"PartitionConfig", "PartitionTimeLimit",
                                                          "PartitionNodeLimit", "BadConstraints"};

// State of a job as Slurm reports it.
struct SlurmView {
  std::string id{};
  std::string state{};
  std::string reason{};
  std::optional<Time> start{};
  std::optional<Time> end{};
  std::string comment{};
};

// How job.sbatch says that the job ended.
struct SlurmResult {
  int status = 0;
  /// "worker-replica-1".
  std::string task{};
};

// The last lines of what a command of Slurm says, as one: the last says what failed, those before
// it often why.
std::string in_short(const std::string& text) {
  std::string said;
  auto lines = lines_of(text);
  std::erase_if(lines, [](std::string_view line) { return line.empty(); });
  const std::size_t first = lines.size() > kMostLinesSaid ? lines.size() - kMostLinesSaid : 0;
  for (std::size_t i = first; i < lines.size(); ++i) {
    said += (said.empty() ? "" : "; ") + printable(lines[i]);
  }
  return said.empty() ? "it says nothing" : said;
}

process::CapturedOutput ask_slurm(std::vector<std::string> command) {
  const std::string program = command.front();
  try {
    return process::run_captured({.command = std::move(command),
                                  .timeout = kSlurmPatience,
                                  .most_output_bytes = kMostAnswerBytes});
  } catch (const NotFound&) {
    throw FailedPrecondition(
        "there is no program {} on the PATH: jobs are handed to Slurm where its commands are "
        "installed, such as on a login node",
        program);
  } catch (const DeadlineExceeded& error) {
    throw Unavailable("Slurm does not answer: {}", error.message());
  }
}

std::string answer_of(std::vector<std::string> command) {
  const std::string program = command.front();
  const process::CapturedOutput answer = ask_slurm(std::move(command));
  if (answer.status == 0) return answer.out;
  throw Unavailable("{} exited with status {}: {}", program, answer.status, in_short(answer.err));
}

std::string comment_of(const Path& folder) { return "muster " + folder.string(); }

// ------------------------------------------------------------------------------------- answers

// Slurm prints local time without a zone.
std::optional<Time> slurm_time(std::string_view text) {
  tm parts{};
  const std::string copy(text);
  const char* const end = ::strptime(copy.c_str(), "%Y-%m-%dT%H:%M:%S", &parts);
  if (end == nullptr || *end != '\0') return std::nullopt;
  parts.tm_isdst = -1;
  const time_t seconds = ::mktime(&parts);
  if (seconds == -1) return std::nullopt;
  return std::chrono::system_clock::from_time_t(seconds);
}

std::vector<std::string> fields_of(std::string_view line, std::size_t most) {
  std::vector<std::string> fields;
  while (fields.size() + 1 < most) {
    const auto bar = line.find('|');
    if (bar == std::string_view::npos) break;
    fields.emplace_back(line.substr(0, bar));
    line.remove_prefix(bar + 1);
  }
  fields.emplace_back(line);
  return fields;
}

// One call for all jobs of this user: Slurm keeps those that are over for some minutes.
std::vector<SlurmView> slurm_views() {
  const std::string text =
      answer_of({"squeue", "--me", "--noheader", "--states=all", "--format=%i|%T|%r|%S|%e|%k"});
  std::vector<SlurmView> views;
  for (const std::string_view line : lines_of(text)) {
    const auto fields = fields_of(line, 6);
    if (fields.size() < 6) continue;
    views.push_back({.id = fields[0],
                     .state = fields[1],
                     .reason = fields[2],
                     .start = slurm_time(fields[3]),
                     .end = slurm_time(fields[4]),
                     .comment = fields[5]});
  }
  return views;
}

// Where accounting is on, it remembers what squeue has forgotten.
std::optional<SlurmView> accounted_view(const std::string& id) {
  const process::CapturedOutput answer =
      ask_slurm({"sacct", "--allocations", "--noheader", "--parsable2", "--jobs=" + id,
                 "--format=JobID,State,Start,End"});
  if (answer.status != 0) return std::nullopt;
  std::optional<SlurmView> last;  // One that was queued again has a line for each run.
  for (const std::string_view line : lines_of(answer.out)) {
    const auto fields = fields_of(line, 4);
    if (fields.size() < 4 || fields[0] != id) continue;
    last = SlurmView{
        .id = id, .state = fields[1], .start = slurm_time(fields[2]), .end = slurm_time(fields[3])};
  }
  return last;
}

std::string value_behind(std::string_view text, std::string_view key) {
  const auto place = text.find(key);
  if (place == std::string_view::npos) return "";
  text.remove_prefix(place + key.size());
  return std::string(text.substr(0, text.find_first_of(" \n")));
}

std::optional<int> whole_number(std::string_view text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::optional<SlurmResult> read_result(const Path& folder) {
  if (!file_exists(folder / "result")) return std::nullopt;
  const std::string text = read_file(folder / "result", kMostResultBytes);
  const auto status = whole_number(value_behind(text, "status="));
  if (!status) {
    log::warning("{} does not say a status", (folder / "result").string());
    return std::nullopt;
  }
  return SlurmResult{*status, value_behind(text, "task=")};
}

std::string failure_of(const SlurmResult& result) {
  try {
    // "worker1" is "worker-replica-1".
    const std::string task = task_name(result.task);
    const auto dash = task.find("-replica-");
    const auto index = whole_number(std::string_view(task).substr(dash + 9));
    return failure_text(task.substr(0, dash), index.value_or(0), result.status);
  } catch (const InvalidArgument&) {
    return fmt::format("The job exited with status {}.", result.status);
  }
}

// Why a job FAILED, for states that say it themselves.
std::string failure_of(const std::string& state, const std::string& reason) {
  if (state == "TIMEOUT") return "The job ran for longer than its time limit in Slurm.";
  if (state == "NODE_FAIL") return "A node of the job failed.";
  if (state == "OUT_OF_MEMORY") return "A task needed more memory than Slurm gave it.";
  if (state == "PREEMPTED") return "Slurm gave the nodes of the job to another one.";
  return fmt::format("Slurm says that the job is {}, reason {}.", state, reason);
}

std::int64_t count_attempts(const Path& folder) {
  const Path attempts = folder / "attempts";
  if (!file_exists(attempts)) return 0;
  return static_cast<std::int64_t>(file_system_for(attempts).list(attempts).size());
}

std::int64_t count_retries(const Path& folder) {
  if (!file_exists(folder / "retries")) return 0;
  std::string text = read_file(folder / "retries", kMostResultBytes);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return whole_number(text).value_or(0);
}

// -------------------------------------------------------------------------------------- states

template <typename Change>
void change_slurm_run(Job& job, Change change) {
  SlurmRun run = slurm_run(job);
  change(run);
  keep(job, run);
}

void end_slurm_job(Job& job, State state, const std::string& message, std::optional<Time> end) {
  job.state = job.state == State::kCancelling ? State::kCancelled : state;
  job.end_time = end.value_or(
      std::chrono::time_point_cast<std::chrono::microseconds>(std::chrono::system_clock::now()));
  change_slurm_run(job, [](SlurmRun& run) { run.reason.clear(); });
  // The message that the user got when it was cancelled stays.
  if (job.error_message.empty()) job.error_message = message;
}

void take_result(Job& job, const std::optional<SlurmResult>& result) {
  if (result) job.local.exit_status = result->status;
}

void take_view(Job& job, const SlurmView& view, State state,
               const std::optional<SlurmResult>& result) {
  if (!job.start_time && state != State::kQueued) job.start_time = view.start;
  if (!is_final(state)) {
    if (job.state != State::kCancelling) job.state = state;
    change_slurm_run(job,
                     [&](SlurmRun& run) { run.reason = view.reason == "None" ? "" : view.reason; });
    return;
  }
  take_result(job, result);
  std::string message;
  if (state == State::kCancelled) message = "The job was cancelled in Slurm.";
  if (state == State::kFailed) {
    const bool is_own_end = view.state == "FAILED" && result && result->status != 0;
    message = is_own_end ? failure_of(*result) : failure_of(view.state, view.reason);
  }
  end_slurm_job(job, state, message, view.end);
}

// Ends a job that Slurm has forgotten.
void take_last_record(Job& job, const std::optional<SlurmResult>& result) {
  take_result(job, result);
  if (!result) {
    return end_slurm_job(
        job, State::kFailed,
        fmt::format("Slurm no longer knows the job {}, and it left no record of its "
                    "end: see service.log.",
                    slurm_run(job).id),
        std::nullopt);
  }
  const bool succeeded = result->status == 0;
  end_slurm_job(job, succeeded ? State::kSucceeded : State::kFailed,
                succeeded ? "" : failure_of(*result), std::nullopt);
}

class SlurmBackEnd final : public BackEnd {
 public:
  std::string name() const override { return "slurm"; }
  std::string summary() const override { return "its queue"; }
  BackEndAbilities abilities() const override { return {.has_job_steps = true}; }
  std::vector<BackEndFlag> flags() const override {
    return {{.name = kSlurmOption,
             .description = "An option of sbatch in one word, as in "
                            "--slurm-option=--partition=gpu; may be repeated",
             .is_repeatable = true}};
  }

  void prepare(Submission& submission) const override {
    keep(submission.job, SlurmRun{.options = submission.flags.all(kSlurmOption)});
    const TrainingInput& input = submission.job.training_input;
    if (input.priority != 0) {
      submission.warnings.emplace_back("scheduling.priority has no meaning in Slurm");
    }
    if (input.max_wait_time) {
      submission.warnings.emplace_back("scheduling.maxWaitTime has no meaning in Slurm");
    }
  }

  void submit(const JobStore& store, const Submission& submission) const override {
    const std::string& name = submission.job.job_id;
    const Path folder = store.folder_of(name);
    write_private(folder / "secret", launch::draw_secret());
    write_private(folder / "task.sh", slurm_task_script(submission, folder));
    write_private(folder / "job.sbatch", slurm_batch_script(submission, folder));
    const std::string refusal = refusal_of_a_test(submission.job, folder);
    const std::string id = hand_over(submission.job, folder);
    warn_if_it_cannot_start(submission.job, id, refusal);
    try {
      store.change(name,
                   [&](Job& job) { change_slurm_run(job, [&](SlurmRun& run) { run.id = id; }); });
    } catch (const Error&) {
      ask_slurm({"scancel", id});
      throw;
    }
  }

  void refresh(const JobStore& store, const std::vector<Job>& jobs) const override {
    const auto views = slurm_views();
    for (const Job& job : jobs) {
      try {
        refresh_one(store, job, views);
      } catch (const DataLoss& error) {
        log::error("skipping the job {}: {}", job.job_id, error.what());
      }
    }
  }

 protected:
  void end(const JobStore&, const Job& job) const override {
    const std::string id = slurm_run(job).id;
    // Not handed over yet, or its number is not known: the next look finds out.
    if (id.empty()) return;
    ask_slurm({"scancel", "--state=PENDING", id});
    // job.sbatch asks its tasks to save.
    const process::CapturedOutput answer = ask_slurm({"scancel", "--batch", "--signal=USR2", id});
    if (answer.status == 0 || is_of_a_job_that_ended(answer.err)) return;
    throw Unavailable("the job {} could not be cancelled in Slurm: {}", job.job_id,
                      in_short(answer.err));
  }

 private:
  static void write_private(const Path& path, const std::string& text) {
    OpenFile(path, O_WRONLY | O_CREAT | O_TRUNC, 0600).write(text);
  }

  static bool is_of_a_job_that_ended(const std::string& error) {
    return error.find("Invalid job id") != std::string::npos ||
           error.find("already completing or completed") != std::string::npos ||
           error.find("Job/step already completing") != std::string::npos;
  }

  static bool is_of_no_controller(const std::string& error) {
    return error.find("Unable to contact slurm controller") != std::string::npos ||
           error.find("Socket timed out") != std::string::npos;
  }

  // Paths are words of their own: a line of the script would be cut at spaces.
  static std::vector<std::string> sbatch_of(const char* how, const Job& job, const Path& folder) {
    std::string log = (folder / "service.log").string();
    for (std::size_t i = 0; (i = log.find('%', i)) != std::string::npos; i += 2)
      log.insert(i, 1, '%');
    return {"sbatch",
            how,
            "--output=" + log,
            "--comment=" + comment_of(folder),
            "--chdir=" + job.local.working_directory.string(),
            (folder / "job.sbatch").string()};
  }

  // sbatch takes jobs that no node or partition will ever have room for, and lets them wait. Empty
  // where it sees when the job might start.
  static std::string refusal_of_a_test(const Job& job, const Path& folder) {
    const process::CapturedOutput answer = ask_slurm(sbatch_of("--test-only", job, folder));
    return answer.status == 0 ? "" : in_short(answer.err);
  }

  // Reasons that the test does not cover come from the queue.
  static void warn_if_it_cannot_start(const Job& job, const std::string& id, std::string refusal) {
    const process::CapturedOutput answer =
        ask_slurm({"squeue", "--noheader", "--jobs=" + id, "--format=%r"});
    const std::string reason = answer.out.substr(0, answer.out.find('\n'));
    const bool is_for_good =
        std::find(kLastingReasons.begin(), kLastingReasons.end(), reason) != kLastingReasons.end();
    if (is_for_good) refusal += (refusal.empty() ? "reason " : "; reason ") + reason;
    if (refusal.empty()) return;
    log::warning(
        "Slurm took the job {}, but it cannot start with the nodes and partitions that there are "
        "({}): ask for less, or choose another partition with --slurm-option=--partition=NAME",
        job.job_id, refusal);
  }

  static std::string hand_over(const Job& job, const Path& folder) {
    const process::CapturedOutput answer = ask_slurm(sbatch_of("--parsable", job, folder));
    if (answer.status != 0) {
      const std::string reason = in_short(answer.err);
      if (is_of_no_controller(answer.err)) {
        throw Unavailable("Slurm did not take the job: {}", reason);
      }
      throw FailedPrecondition("Slurm did not take the job: {}", reason);
    }
    const std::string id = answer.out.substr(0, answer.out.find_first_of(";\n"));
    if (id.empty() || id.find_first_not_of("0123456789") != std::string::npos) {
      throw Unavailable("sbatch did not tell the number of the job, but \"{}\"",
                        in_short(answer.out));
    }
    return id;
  }

  static void refresh_one(const JobStore& store, const Job& job,
                          const std::vector<SlurmView>& views) {
    const Path folder = store.folder_of(job.job_id);
    const std::string id = slurm_run(job).id;
    const auto found = std::find_if(views.begin(), views.end(), [&](const SlurmView& view) {
      return id.empty() ? view.comment == comment_of(folder) : view.id == id;
    });
    std::optional<SlurmView> view;
    if (found != views.end()) {
      view = *found;
    } else if (id.empty()) {
      return refresh_unknown(store, job);
    }
    const auto result = read_result(folder);
    if (!view && !result) view = accounted_view(id);
    const auto state = view ? state_of_slurm(view->state) : std::nullopt;
    if (view && !state) {
      log::warning("job {}: Slurm has a state {} that is not known here", job.job_id, view->state);
      return;
    }
    // It came back to the queue while it was being cancelled.
    if (job.state == State::kCancelling && state == State::kQueued) {
      ask_slurm({"scancel", view->id});
    }
    store.change(job.job_id, [&](Job& changed) {
      if (is_final(changed.state)) return;
      changed.local.attempts = count_attempts(folder);
      changed.local.retries = count_retries(folder);
      if (!view) return take_last_record(changed, result);
      change_slurm_run(changed, [&](SlurmRun& run) { run.id = view->id; });
      take_view(changed, *view, *state, result);
    });
  }

  // A submit that has not told its number: under way, or killed.
  static void refresh_unknown(const JobStore& store, const Job& job) {
    if (std::chrono::system_clock::now() - job.create_time < kHandOverPatience) return;
    store.change(job.job_id, [](Job& changed) {
      if (is_final(changed.state) || !slurm_run(changed).id.empty()) return;
      end_slurm_job(changed, State::kFailed, "The job was never handed to Slurm: submit it again.",
                    std::nullopt);
    });
  }
};

}  // namespace

std::shared_ptr<const BackEnd> slurm_back_end() { return std::make_shared<SlurmBackEnd>(); }

}  // namespace muster::jobs
