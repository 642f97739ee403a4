#include "muster/orchestration/jobs/kubernetes_client.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <exception>
#include <set>
#include <tuple>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/lines.h"
#include "muster/base/local_time.h"
#include "muster/base/log.h"
#include "muster/base/open_file.h"
#include "muster/base/printable.h"
#include "muster/base/wait.h"
#include "muster/orchestration/jobs/job_log.h"
#include "muster/orchestration/jobs/kubernetes.h"
#include "muster/orchestration/jobs/kubernetes_state.h"
#include "muster/orchestration/jobs/supervisor.h"
#include "muster/orchestration/launch/captured_process.h"

namespace muster::jobs {
namespace {

using Words = std::vector<std::string>;
using std::chrono::system_clock;

// kubectl gives up before we do, and says why.
constexpr const char* kRequestTimeout = "--request-timeout=20s";
constexpr std::chrono::seconds kKubectlTimeout{60};
constexpr std::size_t kMostWordsBytes = 1000;
constexpr std::uint64_t kMostLogFetchBytes = std::uint64_t{64} << 20;
constexpr std::uint64_t kFirstTailBytes = std::uint64_t{1} << 16;
// Between the record of a job and the lock of the process that submits it.
constexpr std::chrono::seconds kSubmitPatience{10};
constexpr std::chrono::seconds kLogLockPatience{60};

// -------------------------------------------------------------------------------------- kubectl

bool has_any(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::any_of(words.begin(), words.end(),
                     [&](std::string_view word) { return text.find(word) != text.npos; });
}

// What kubectl said, on one line.
std::string words_of(const launch::CapturedOutput& output) {
  const std::string& said = output.err.empty() ? output.out : output.err;
  std::string words;
  for (const std::string_view line : lines_of(said)) {
    if (line.empty()) continue;
    if (!words.empty()) words += "; ";
    words += printable(line);
    if (words.size() > kMostWordsBytes) break;
  }
  if (words.size() > kMostWordsBytes) words.resize(kMostWordsBytes);
  return words.empty() ? fmt::format("nothing, and exited with status {}", output.status) : words;
}

// No connection to the cluster: nothing of the call has reached it.
const std::initializer_list<std::string_view> kNoConnection{
    "connection refused", "was refused", "no such host",           "failed to download openapi",
    "no route to host",   "dial tcp",    "network is unreachable", "server misbehaving"};
// The cluster does not answer, or not in time.
const std::initializer_list<std::string_view> kNoAnswer{"Unable to connect to the server",
                                                        "i/o timeout",
                                                        "TLS handshake timeout",
                                                        "(ServiceUnavailable)",
                                                        "(Timeout)",
                                                        "context deadline",
                                                        "Client.Timeout exceeded",
                                                        "(TooManyRequests)",
                                                        "etcdserver",
                                                        "connection reset"};

[[noreturn]] void throw_kubectl(const launch::CapturedOutput& output, const std::string& doing) {
  const std::string words = words_of(output);
  if (has_any(words, {"(AlreadyExists)"})) {
    throw AlreadyExists("{}: the cluster has an object of that name; choose another name: {}",
                        doing, words);
  }
  if (has_any(words, {"(Forbidden)", "is forbidden"})) {
    throw PermissionDenied("{}: the cluster does not allow it; ask who runs it for the right: {}",
                           doing, words);
  }
  if (has_any(words, {"Unauthorized", "must be logged in", "provide credentials"})) {
    throw PermissionDenied("{}: the cluster does not know you; log in to it: {}", doing, words);
  }
  if (has_any(words, kNoConnection) || has_any(words, kNoAnswer)) {
    throw Unavailable("{}: the cluster cannot be reached: {}", doing, words);
  }
  if (has_any(words, {"the server doesn't have a resource type", "no matches for kind"})) {
    throw FailedPrecondition(
        "{}: the cluster has no such kind of object; have its controller installed, or submit with "
        "--kind jobs: {}",
        doing, words);
  }
  if (has_any(words, {"(NotFound)"})) throw NotFound("{}: kubectl says: {}", doing, words);
  throw FailedPrecondition("{}: kubectl says: {}", doing, words);
}

std::string program_of(const KubernetesRun& run) {
  if (!run.kubectl.empty()) return run.kubectl;
  const char* const variable = std::getenv("MUSTER_KUBECTL");
  return variable == nullptr || *variable == '\0' ? "kubectl" : variable;
}

launch::CapturedOutput call_kubectl(const KubernetesRun& run, const Words& words,
                                    const std::string& input = "") {
  const std::string program = program_of(run);
  launch::CapturedProcess process{.command = {program}, .input = input, .timeout = kKubectlTimeout};
  if (!run.context.empty()) process.command.push_back("--context=" + run.context);
  if (!run.name_space.empty()) process.command.push_back("--namespace=" + run.name_space);
  process.command.emplace_back(kRequestTimeout);
  process.command.insert(process.command.end(), words.begin(), words.end());
  try {
    return launch::run_captured(process);
  } catch (const NotFound&) {
    throw NotFound(
        "there is no program {}, which talks to Kubernetes: install kubectl, or name it with "
        "--kubectl or MUSTER_KUBECTL",
        program);
  } catch (const DeadlineExceeded& error) {
    throw Unavailable("the cluster cannot be reached: {}", error.message());
  }
}

std::string kubectl(const KubernetesRun& run, const std::string& doing, const Words& words,
                    const std::string& input = "") {
  launch::CapturedOutput output = call_kubectl(run, words, input);
  if (output.status != 0) throw_kubectl(output, doing);
  return std::move(output.out);
}

std::string job_resource(const KubernetesRun& run) {
  if (run.kind == "jobset") return "jobsets.jobset.x-k8s.io";
  if (run.kind == "tfjob") return "tfjobs.kubeflow.org";
  return "jobs.batch";
}

std::string selector_of(const KubernetesRun& run) {
  return fmt::format("--selector={}={}", kRunLabel, run.run_id);
}

// What tasks need until they have saved.
std::string helper_resources(const KubernetesRun& run) {
  std::string resources = run.has_service ? "services" : "";
  if (run.has_secret) resources += resources.empty() ? "secrets" : ",secrets";
  return resources;
}

void delete_resources(const KubernetesRun& run, const std::string& resources,
                      const std::string& doing) {
  if (resources.empty()) return;
  kubectl(run, doing,
          {"delete", resources, selector_of(run), "--wait=false", "--ignore-not-found"});
}

void delete_all(const KubernetesRun& run, const std::string& doing) {
  delete_resources(run, job_resource(run), doing);
  delete_resources(run, helper_resources(run), doing);
}

// How a user does the same.
std::string delete_command(const KubernetesRun& run) {
  const std::string helpers = helper_resources(run);
  return fmt::format("{} delete {}{}{} {}", program_of(run), job_resource(run),
                     helpers.empty() ? "" : ",", helpers, selector_of(run));
}

// ----------------------------------------------------------------------------------------- logs

void append_to(const Path& path, std::string_view text) {
  OpenFile(path, O_WRONLY | O_CREAT | O_APPEND, 0600).write(text);
}

// A line of the job's own log, as muster's logger writes them.
void say(const JobStore& store, const std::string& name, char level, const std::string& text) {
  const auto now = system_clock::now();
  const auto millis =
      std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count() % 1000;
  const std::string line =
      fmt::format("{}.{:03} {} service {}\n", local_time(now), millis, level, printable(text));
  append_to(store.folder_of(name) / "service.log", line);
}

// Up to where a log is kept: the time of its last line, and how many lines have it.
struct LogPosition {
  std::chrono::nanoseconds time{};
  std::int64_t lines = 0;
};

std::string tail_of(const Path& path, std::uint64_t bytes, std::uint64_t size) {
  const auto file = file_system_for(path).open(path);
  file->seek(size > bytes ? size - bytes : 0);
  std::string tail(std::min(bytes, size), '\0');
  tail.resize(file->read(tail));
  return tail;
}

std::optional<LogPosition> log_position(const Path& path) {
  const auto status = file_system_for(path).status(path);
  if (!status || status->size_bytes == 0) return std::nullopt;
  for (std::uint64_t bytes = kFirstTailBytes;; bytes *= 2) {
    const std::string tail = tail_of(path, bytes, status->size_bytes);
    std::optional<LogPosition> last;
    for (const std::string_view line : lines_of(tail)) {
      const auto stamp = kubectl_stamp(line);
      if (!stamp) continue;
      if (!last || last->time != stamp->since_epoch) last = LogPosition{stamp->since_epoch, 0};
      ++last->lines;
    }
    if (last || bytes >= status->size_bytes) return last;
  }
}

// Seconds are what the API takes; they are cut off, never rounded up.
std::string since_time(std::chrono::nanoseconds time) {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(time);
  std::string text = to_text(Time(std::chrono::duration_cast<Time::duration>(seconds)));
  return text.substr(0, text.find('.')) + "Z";
}

// The lines behind `position`, each whole.
std::string new_lines(const std::string& text, std::optional<LogPosition> position, bool is_over) {
  std::string lines;
  std::int64_t to_skip = position ? position->lines : 0;
  bool is_new = !position;
  for (std::size_t begin = 0; begin < text.size();) {
    const auto found = text.find('\n', begin);
    // One that is still being written is read by the next look.
    if (found == std::string::npos && !is_over) break;
    const auto end = std::min(found, text.size());
    const std::string_view line(text.data() + begin, end - begin);
    begin = end + 1;
    if (const auto stamp = kubectl_stamp(line); stamp && position) {
      is_new = stamp->since_epoch > position->time ||
               (stamp->since_epoch == position->time && --to_skip < 0);
    }
    if (is_new) lines.append(line).push_back('\n');
  }
  return lines;
}

Path pod_log(const JobStore& store, const Job& job, const KubernetesTaskPod& pod) {
  return store.folder_of(job.job_id) / "attempts" / pod.name /
         fmt::format("{}{}.log", pod.type, pod.index);
}

// Names of folders come from the cluster.
bool is_file_name(const std::string& name) {
  return !name.empty() && name.front() != '.' && name.find('/') == std::string::npos;
}

// Once all of a pod that is over is kept.
Path whole_mark(const Path& log) { return log.parent_path() / "whole"; }

void fetch_log(const JobStore& store, const Job& job, const KubernetesTaskPod& pod) {
  const Path path = pod_log(store, job, pod);
  if (file_exists(whole_mark(path))) return;
  const KubernetesRun& run = *job.kubernetes;
  const auto position = log_position(path);
  Words words{"logs", pod.name,
              run.kind == "tfjob" ? "--container=tensorflow" : "--container=program",
              "--timestamps", fmt::format("--limit-bytes={}", kMostLogFetchBytes)};
  if (position) words.push_back("--since-time=" + since_time(position->time));
  const launch::CapturedOutput output = call_kubectl(run, words);
  if (output.status != 0) {
    // Not started yet, or gone with its node: what is kept of it is all there is.
    if (has_any(output.err, {"(NotFound)", "(BadRequest)", "not found"})) return;
    throw_kubectl(output, fmt::format("reading the log of {}", pod.name));
  }
  const bool is_cut = output.out.size() >= kMostLogFetchBytes;
  file_system_for(path).create_directories(path.parent_path());
  append_to(path, new_lines(output.out, position, pod.is_over && !is_cut));
  trim_file(path, job.local.log_bytes);
  if (pod.is_over && !is_cut) append_to(whole_mark(path), "");
}

// Whether all was read.
bool fetch_logs_alone(const JobStore& store, const Job& job, const KubernetesState& seen) {
  bool is_all = true;
  for (const KubernetesTaskPod& pod : seen.pods) {
    if (!pod.has_log || !is_file_name(pod.name) || !is_file_name(pod.type)) continue;
    try {
      fetch_log(store, job, pod);
    } catch (const Error& error) {
      is_all = false;
      log::warning("the log of {} could not be read: {}", pod.name, error.what());
    }
  }
  return is_all;
}

// Two that read at once would keep lines twice: one that need not read them all lets the other.
bool fetch_logs(const JobStore& store, const Job& job, const KubernetesState& seen, bool must_end) {
  const Deadline deadline = Deadline::after(must_end ? kLogLockPatience : std::chrono::seconds(0));
  do {
    const auto lock = HeldLock::take(store.folder_of(job.job_id) / "logs.lock");
    if (lock) return fetch_logs_alone(store, job, seen);
  } while (!deadline.expired());
  return false;
}

// ---------------------------------------------------------------------------------------- looks

void end_job(Job& job, State state, const std::string& message, Time when) {
  job.state = state;
  job.end_time = std::chrono::time_point_cast<std::chrono::microseconds>(when);
  job.kubernetes->note.clear();
  if (!message.empty()) job.error_message = message;
}

void take_seen(Job& job, const KubernetesState& seen) {
  KubernetesRun& run = *job.kubernetes;
  const Time now = system_clock::now();
  if (seen.is_gone) {
    if (job.state == State::kCancelling) return end_job(job, State::kCancelled, "", now);
    return end_job(job, State::kFailed,
                   "The cluster has no object of the job any more, and nobody has seen its end: "
                   "somebody deleted them, or they were removed a day after it.",
                   now);
  }
  // What ends while it is asked to end was cancelled.
  if (job.state == State::kCancelling) {
    run.note = seen.note;
    return;
  }
  if (is_final(seen.state)) return end_job(job, seen.state, seen.note, seen.end_time.value_or(now));
  if (seen.state == State::kCancelling && job.error_message.empty()) {
    job.error_message = "The job was deleted from the cluster.";
  }
  job.state = seen.state;
  run.note = seen.note;
  if (seen.state == State::kRunning) run.has_run = true;
  if (seen.state != State::kQueued && !job.start_time) {
    job.start_time = std::chrono::time_point_cast<std::chrono::microseconds>(now);
  }
}

// A submit that was killed: nothing of it stays.
Job end_half_submitted(const JobStore& store, const Job& job) {
  const bool is_under_way = HeldLock::is_held(run_lock_of(store, job.job_id)) ||
                            system_clock::now() - job.create_time < kSubmitPatience;
  if (is_under_way) return job;
  delete_all(*job.kubernetes, fmt::format("deleting what a submit of {} left", job.job_id));
  return store.change(job.job_id, [](Job& changed) {
    end_job(changed, State::kFailed, "The submit was killed before all objects were made.",
            system_clock::now());
  });
}

KubernetesState seen_of(const Job& job) {
  const KubernetesRun& run = *job.kubernetes;
  const std::string answer =
      kubectl(run, fmt::format("looking at the job {}", job.job_id),
              {"get", job_resource(run) + ",pods", selector_of(run), "--output=json"});
  return kubernetes_state(answer, run.has_run);
}

// Tasks that nobody waits for would keep their machines.
void delete_unfinished(const Job& job, const KubernetesState& seen) {
  if (seen.unfinished_jobs.empty()) return;
  Words words{"delete", job_resource(*job.kubernetes)};
  words.insert(words.end(), seen.unfinished_jobs.begin(), seen.unfinished_jobs.end());
  words.insert(words.end(), {"--wait=false", "--ignore-not-found"});
  kubectl(*job.kubernetes, fmt::format("deleting what is left of the job {}", job.job_id), words);
}

Job look_at(const JobStore& store, const std::string& name, bool reads_logs) {
  Job job = store.read(name);
  if (!job.kubernetes) throw Internal("the job {} has no place in a cluster", name);
  if (is_final(job.state)) return job;
  if (!job.kubernetes->is_submitted) return end_half_submitted(store, job);
  const KubernetesState seen = seen_of(job);
  const bool has_ended = is_final(seen.state) && job.state != State::kCancelling;
  if ((reads_logs || has_ended) && !fetch_logs(store, job, seen, has_ended) && has_ended) {
    say(store, name, 'W', "the logs are not whole: some could not be read from the cluster");
  }
  if (has_ended) delete_unfinished(job, seen);
  // Of a cancel that was killed before the cluster knew, or that it did not answer.
  if (job.state == State::kCancelling && !seen.is_gone && !seen.is_deleted) {
    delete_resources(*job.kubernetes, job_resource(*job.kubernetes),
                     fmt::format("cancelling the job {}", name));
  }
  if (job.state == State::kCancelling && seen.is_gone) {
    delete_resources(*job.kubernetes, helper_resources(*job.kubernetes),
                     fmt::format("deleting what is left of the job {}", name));
  }
  return store.change(name, [&](Job& changed) {
    if (is_final(changed.state)) return;
    const Job before = changed;
    take_seen(changed, seen);
    const std::string& why =
        is_final(changed.state) ? changed.error_message : changed.kubernetes->note;
    const bool is_news =
        changed.state != before.state || changed.kubernetes->note != before.kubernetes->note;
    if (!is_news) return;
    say(store, name, why.empty() ? 'I' : 'W',
        fmt::format("job {} is {}{}{}", name, name_of(changed.state), why.empty() ? "" : ": ",
                    why));
  });
}

class KubernetesBackEnd final : public BackEnd {
 public:
  explicit KubernetesBackEnd(std::string manifests) : manifests_(std::move(manifests)) {}

  void submit(const JobStore& store, const Submission& submission) const override {
    const std::string& name = submission.job.job_id;
    const KubernetesRun& run = *submission.job.kubernetes;
    // Who looks meanwhile leaves it alone.
    const auto lock = HeldLock::take(run_lock_of(store, name));
    bool may_be_there = true;
    try {
      const auto output = call_kubectl(run, {"create", "--filename=-"}, manifests_);
      may_be_there = output.status == 0 || !has_reached_nothing(output);
      if (output.status != 0) throw_kubectl(output, fmt::format("submitting the job {}", name));
      store.change(name, [](Job& made) { made.kubernetes->is_submitted = true; });
      say(store, name, 'I', fmt::format("job {} is QUEUED in the cluster", name));
    } catch (Error& error) {
      // Without the program, the namespace or a connection nothing was made.
      if (error.code() != ErrorCode::kNotFound && may_be_there) take_back(run, error);
      throw;
    }
  }

  void refresh(const JobStore& store, const std::vector<Job>& jobs) const override {
    std::set<std::tuple<std::string, std::string, std::string>> silent;
    std::exception_ptr failure;
    for (const Job& job : jobs) {
      if (!job.kubernetes) throw Internal("the job {} has no place in a cluster", job.job_id);
      const KubernetesRun& run = *job.kubernetes;
      const auto cluster = std::tuple(run.kubectl, run.context, run.name_space);
      // One that does not answer would let each of its jobs wait.
      if (silent.contains(cluster)) continue;
      try {
        look_at(store, job.job_id, /*reads_logs=*/jobs.size() == 1);
      } catch (const Error&) {
        silent.insert(cluster);
        failure = std::current_exception();
      }
    }
    if (failure) std::rethrow_exception(failure);
  }

  void cancel(const JobStore& store, const Job& job) const override {
    delete_resources(*job.kubernetes, job_resource(*job.kubernetes),
                     fmt::format("cancelling the job {}", job.job_id));
    say(store, job.job_id, 'I', fmt::format("job {} is CANCELLING", job.job_id));
  }

  void remove(const JobStore& /*store*/, const Job& job) const override {
    delete_all(*job.kubernetes, fmt::format("deleting the job {} from the cluster", job.job_id));
  }

 private:
  // kubectl names each object that it has made.
  static bool has_reached_nothing(const launch::CapturedOutput& output) {
    return has_any(output.err, kNoConnection) && output.out.find(" created") == std::string::npos;
  }

  static void take_back(const KubernetesRun& run, Error& error) {
    try {
      delete_all(run, "deleting what was made");
    } catch (const Error& second) {
      error.add_context(
          fmt::format("what was made of the job could not be deleted ({}); delete it with `{}`",
                      second.message(), delete_command(run)));
    }
  }

  std::string manifests_;
};

}  // namespace

std::unique_ptr<BackEnd> make_kubernetes_back_end(std::string manifests) {
  return std::make_unique<KubernetesBackEnd>(std::move(manifests));
}

}  // namespace muster::jobs
