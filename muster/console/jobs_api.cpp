#include "muster/console/jobs_api.h"

#include <fmt/core.h>

#include <algorithm>
#include <deque>
#include <filesystem>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/json_depth.h"
#include "muster/base/log.h"
#include "muster/base/object_store.h"
#include "muster/base/printable.h"
#include "muster/orchestration/jobs/back_ends.h"
#include "muster/orchestration/jobs/job_log.h"
#include "muster/orchestration/jobs/job_text.h"
#include "muster/orchestration/jobs/progress.h"

namespace muster::console {
namespace {

namespace fs = std::filesystem;
using jobs::Job;
using nlohmann::json;

// Lines that a page shows when it begins to follow.
constexpr std::size_t kFirstLines = 1000;
constexpr std::size_t kMostLinesAtOnce = 500;
constexpr std::size_t kMostLineBytes = 4096;
constexpr std::size_t kMostFollowers = 50;
constexpr int kMostNames = 1000;
constexpr std::size_t kMostArguments = 10'000;
constexpr std::int64_t kMostPriority = 1000;

std::string json_text(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

json time_json(const std::optional<jobs::Time>& time) {
  if (!time) return nullptr;
  return std::chrono::duration<double>(time->time_since_epoch()).count();
}

json summary_json(const Job& job) {
  return {{"name", job.job_id},
          {"state", name_of(job.state)},
          {"isFinal", is_final(job.state)},
          {"created", time_json(job.create_time)},
          {"started", time_json(job.start_time)},
          {"ended", time_json(job.end_time)},
          {"backEnd", job.back_end},
          {"labels", job.labels},
          {"priority", job.training_input.priority},
          {"kind", job.prediction_input ? "prediction" : "training"},
          {"program", job.training_input.module_name},
          {"error", job.error_message}};
}

json progress_json(const Job& job, const Path& folder) {
  const auto progress = jobs::progress_of(job, folder);
  if (!progress) return nullptr;
  const auto number = [](const auto& value) { return value ? json(*value) : json(); };
  return {{"step", progress->step},
          {"loss", number(progress->loss)},
          {"stepsPerSecond", number(progress->steps_per_second)},
          {"maxSteps", number(progress->max_steps)},
          {"secondsLeft", number(progress->seconds_left())}};
}

json line_json(const jobs::LogLine& line) {
  return json::array(
      {line.severity, time_json(line.time), line.task, line.message.substr(0, kMostLineBytes)});
}

// census, census_2, census_3, ...: the first that is free.
std::string next_name(const jobs::JobStore& store, const std::string& name) {
  const auto underscore = name.rfind('_');
  const bool is_numbered = underscore != name.npos && underscore + 1 < name.size() &&
                           name.find_first_not_of("0123456789", underscore + 1) == name.npos;
  const std::string stem = is_numbered ? name.substr(0, underscore) : name;
  const auto names = store.names();
  for (int number = 2; number < kMostNames; ++number) {
    std::string candidate = fmt::format("{}_{}", stem, number);
    if (std::ranges::find(names, candidate) == names.end()) return candidate;
  }
  throw ResourceExhausted("there are too many jobs named like {}", name);
}

bool can_resubmit(const Job& job) {
  const jobs::BackEnds& back_ends = jobs::BackEnds::built_in();
  return back_ends.has(job.back_end) && back_ends.find(job.back_end).abilities().resubmits;
}

// The job as it was when it was submitted.
Job as_submitted(const Job& job, std::string name) {
  Job again = job;
  again.job_id = std::move(name);
  again.state = jobs::State::kQueued;
  again.create_time = std::chrono::system_clock::now();
  again.start_time.reset();
  again.end_time.reset();
  again.error_message.clear();
  again.local.gpus.clear();
  again.local.attempts = 0;
  again.local.retries = 0;
  again.local.exit_status.reset();
  return again;
}

json object_of(const std::string& body) {
  if (body.empty()) return json::object();
  json object = is_json_deeper_than(kMostJsonFileDepth, body)
                    ? json()
                    : json::parse(body, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) throw InvalidArgument("the body must be a JSON object");
  return object;
}

std::string text_in(const json& value, const char* name) {
  if (!value.is_string()) throw InvalidArgument("{} must be texts", name);
  auto text = value.get<std::string>();
  if (printable(text) != text) throw InvalidArgument("{} has what is no text", name);
  return text;
}

// The words of a command that are the arguments of the program: behind them stands its --job-dir
// alone, before them whatever starts it.
void replace_words(std::vector<std::string>& command, const std::vector<std::string>& old_words,
                   const std::vector<std::string>& words) {
  const auto found =
      std::find_end(command.begin(), command.end(), old_words.begin(), old_words.end());
  if (old_words.empty() || found == command.end()) {
    throw FailedPrecondition(
        "the arguments cannot be told apart in the command of this job: submit it by `muster jobs "
        "submit`");
  }
  const auto at = command.erase(found, found + static_cast<std::ptrdiff_t>(old_words.size()));
  command.insert(at, words.begin(), words.end());
}

/// Changes that a page wants in a job that it submits again: {"args": [...], "jobDir": "..."}.
void apply_changes(const json& changes, Job& job) {
  jobs::TrainingInput& input = job.training_input;
  std::vector<std::string>& command = job.local.command;
  if (const auto folder = changes.find("jobDir"); folder != changes.end()) {
    const std::string path = text_in(*folder, "jobDir");
    const auto flag = std::ranges::find(command, "--job-dir");
    if (path.empty() || flag == command.end() || std::next(flag) == command.end() ||
        *std::next(flag) != input.job_dir) {
      throw FailedPrecondition("this job has no --job-dir that could be changed");
    }
    *std::next(flag) = path;
    input.job_dir = path;
  }
  const auto args = changes.find("args");
  if (args == changes.end()) return;
  if (!args->is_array() || args->size() > kMostArguments) {
    throw InvalidArgument("args must be a list of at most {} texts", kMostArguments);
  }
  std::vector<std::string> words;
  for (const json& word : *args) words.push_back(text_in(word, "args"));
  if (words == input.args) return;
  replace_words(command, input.args, words);
  input.args = std::move(words);
}

}  // namespace

/// A page that follows the lines of a job.
class JobsApi::Follower {
 public:
  Follower(const jobs::JobStore& store, std::string name, std::optional<std::string> task,
           std::shared_ptr<serving::HttpStream> stream)
      : store_(store),
        name_(std::move(name)),
        log_(store, name_, std::move(task)),
        stream_(std::move(stream)) {}

  const std::string& name() const { return name_; }
  void close() { stream_->close(); }

  /// False when the stream has no reader any more, or the job is over.
  bool feed() {
    // Before its lines are read: those of a job that is over are all there then.
    const Job job = store_.read(name_);
    const bool is_last = is_final(job.state);
    std::deque<json> lines;
    log_.poll(
        [&](const jobs::LogLine& line) {
          lines.push_back(line_json(line));
          if (is_first_ && lines.size() > kFirstLines) lines.pop_front();
        },
        is_last);
    is_first_ = false;
    if (!send(lines)) return false;
    if (!is_last) return true;
    stream_->send(event_text("end", json_text({{"state", name_of(job.state)}})));
    stream_->close();
    return false;
  }

 private:
  bool send(std::deque<json>& lines) {
    while (!lines.empty()) {
      json piece = json::array();
      while (!lines.empty() && piece.size() < kMostLinesAtOnce) {
        piece.push_back(std::move(lines.front()));
        lines.pop_front();
      }
      if (!stream_->send(event_text("lines", json_text(piece)))) return false;
    }
    return true;
  }

  const jobs::JobStore& store_;
  std::string name_;
  jobs::JobLog log_;
  std::shared_ptr<serving::HttpStream> stream_;
  bool is_first_ = true;
};

JobsApi::JobsApi(JobsOptions options, LiveUpdates& updates)
    : options_(std::move(options)),
      store_([&] {
        std::error_code error;
        const Path folder = fs::weakly_canonical(options_.folder, error);
        return jobs::JobStore(error ? options_.folder : folder, options_.supervise_command);
      }()),
      updates_(updates),
      watch_([this](const std::set<Path>& folders) {
        const std::lock_guard lock(mutex_);
        for (const Path& folder : folders) changed_.insert(name_of_folder(folder));
        has_work_.notify_all();
      }) {
  watch_folders();
  thread_ = std::jthread([this](const std::stop_token& stop) { look(stop); });
}

JobsApi::~JobsApi() { close(); }

void JobsApi::close() {
  const std::lock_guard lock(followers_mutex_);
  is_closed_ = true;
  for (const auto& follower : followers_) follower->close();
  followers_.clear();
}

// The job that a folder belongs to; "" for the folder of all.
std::string JobsApi::name_of_folder(const Path& folder) const {
  const Path below = folder.lexically_relative(store_.folder());
  if (below.empty() || below == "." || *below.begin() == "..") return {};
  return below.begin()->string();
}

void JobsApi::watch_folders() {
  // One that is not there yet is seen to come by what is above it.
  std::error_code error;
  Path nearest = store_.folder();
  while (!fs::is_directory(nearest, error) && nearest.has_relative_path()) {
    nearest = nearest.parent_path();
  }
  watch_.add(nearest);
  for (const std::string& name : store_.names()) {
    const Path folder = store_.folder_of(name);
    watch_.add(folder);
    watch_.add(folder / "attempts");
    for (fs::directory_iterator it(folder / "attempts", error), end; !error && it != end;
         it.increment(error)) {
      watch_.add(it->path());
    }
  }
}

void JobsApi::look(const std::stop_token& stop) {
  for (;;) {
    std::set<std::string> names;
    {
      std::unique_lock lock(mutex_);
      if (!has_work_.wait(lock, stop, [&] { return !changed_.empty(); })) return;
      names = std::exchange(changed_, {});
    }
    watch_folders();
    feed(names);
    updates_.publish("jobs", json_text(json{{"jobs", names}}));
  }
}

void JobsApi::feed(const std::set<std::string>& names) {
  const std::lock_guard lock(followers_mutex_);
  std::erase_if(followers_, [&](const auto& follower) {
    if (!names.contains(follower->name())) return false;
    try {
      return !follower->feed();
    } catch (const Error& error) {
      log::warning("the log of {} is no longer followed: {}", follower->name(), error.what());
      follower->close();
      return true;
    }
  });
}

serving::HttpResponse JobsApi::list() const {
  json list = json::array();
  for (const Job& job : store_.list()) {
    list.push_back(summary_json(job));
    if (job.state == jobs::State::kRunning) {
      list.back()["progress"] = progress_json(job, store_.folder_of(job.job_id));
    }
  }
  return {.body = json_text(json{{"jobs", std::move(list)}})};
}

serving::HttpResponse JobsApi::show(const std::string& name) const {
  jobs::check_job_name(name);
  const Job job = store_.read(name);
  json out = summary_json(job);
  out["job"] = json::parse(jobs::to_json(job));
  // URLs of chats are secrets.
  if (json& local = out["job"]["local"]; local.contains("notify")) {
    local["notify"] = fmt::format("{} URLs or commands", local["notify"].size());
  }
  out["progress"] = progress_json(job, store_.folder_of(name));
  out["canResubmit"] = can_resubmit(job);
  return {.body = json_text(out)};
}

serving::HttpResponse JobsApi::follow_log(const std::string& name, const ApiRequest& request) {
  jobs::check_job_name(name);
  store_.read(name);
  std::optional<std::string> task;
  if (const auto word = request.first("task"); word && !word->empty())
    task = jobs::task_name(*word);
  return {.content_type = "text/event-stream",
          .headers = {{"Cache-Control", "no-store"}},
          .stream = [this, name, task](std::shared_ptr<serving::HttpStream> stream) {
            add_follower(std::make_unique<Follower>(store_, name, task, std::move(stream)));
          }};
}

void JobsApi::add_follower(std::unique_ptr<Follower> follower) {
  const std::string name = follower->name();
  {
    const std::lock_guard lock(followers_mutex_);
    if (is_closed_) return follower->close();
    if (followers_.size() >= kMostFollowers) {
      followers_.front()->close();
      followers_.erase(followers_.begin());
    }
    followers_.push_back(std::move(follower));
  }
  feed({name});
}

serving::HttpResponse JobsApi::cancel(const std::string& name) {
  jobs::check_job_name(name);
  constexpr const char* kReason = "The job was cancelled by the user.";
  const Job job = jobs::cancel_job(jobs::BackEnds::built_in(), store_, name, kReason);
  log::info("cancelled the job {} for a page", name);
  return {.body = json_text(summary_json(job))};
}

serving::HttpResponse JobsApi::set_priority(const std::string& name, const ApiRequest& request) {
  jobs::check_job_name(name);
  const json body = object_of(request.body);
  const auto priority = body.find("priority");
  if (priority == body.end() || !priority->is_number_integer() || *priority < 0 ||
      *priority > kMostPriority) {
    throw InvalidArgument("priority must be a whole number from 0 to {}", kMostPriority);
  }
  const Job job = store_.change(name, [&](Job& changed) {
    if (changed.state != jobs::State::kQueued || changed.back_end != jobs::kLocalBackEnd) {
      throw FailedPrecondition("the job {} waits for no turn on this host", name);
    }
    changed.training_input.priority = priority->get<std::int64_t>();
  });
  log::info("set the priority of the job {} to {} for a page", name, job.training_input.priority);
  return {.body = json_text(summary_json(job))};
}

serving::HttpResponse JobsApi::resubmit(const std::string& name, const ApiRequest& request) {
  jobs::check_job_name(name);
  const Job job = store_.read(name);
  if (!can_resubmit(job)) {
    throw Unimplemented("a job of {} is submitted again by `muster jobs submit`", job.back_end);
  }
  const json changes = object_of(request.body);
  const Job again = submit_again(job, [&](Job& changed) { apply_changes(changes, changed); });
  return {.body = json_text(summary_json(again))};
}

Job JobsApi::submit_again(const Job& job, const std::function<void(Job&)>& change) {
  Job again = as_submitted(job, next_name(store_, job.job_id));
  change(again);
  if (!job.local.program_from.empty()) store_.keep_program(again);
  jobs::submit_job(jobs::BackEnds::built_in(), store_, {.job = again},
                   store_.environment_of(job.job_id));
  log::info("submitted the job {} again as {} for a page", job.job_id, again.job_id);
  return again;
}

Job JobsApi::submit_new(Job job, const std::vector<std::string>& environment) {
  jobs::check_job_name(job.job_id);
  const auto names = store_.names();
  if (std::ranges::find(names, job.job_id) != names.end()) {
    job.job_id = next_name(store_, job.job_id);
  }
  job.create_time = std::chrono::system_clock::now();
  jobs::submit_job(jobs::BackEnds::built_in(), store_, {.job = job}, environment);
  log::info("submitted the job {} for a page", job.job_id);
  return job;
}

Path JobsApi::folder_of(const Job& job) {
  const std::string& own = job.training_input.job_dir;
  if (job.prediction_input || own.empty() || is_remote(own)) return {};
  std::error_code error;
  Path folder = fs::weakly_canonical(job.local.working_directory / strip_file_scheme(own), error);
  return error ? Path() : folder;
}

std::optional<Job> JobsApi::job_of(const Path& job_dir) const {
  for (Job& job : store_.list()) {
    if (folder_of(job) == job_dir) return std::move(job);
  }
  return std::nullopt;
}

}  // namespace muster::console
