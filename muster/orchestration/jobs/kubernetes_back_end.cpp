// Jobs in a Kubernetes cluster, by way of kubectl.
//
// If an object cannot be made, those that were are deleted, or else named in the error. A look at
// one job reads the lines of its pods too, one at several does not; when a job has ended, all its
// lines are kept and what would continue without it is deleted. Cancelling deletes the Jobs, whose
// pods get SIGTERM and time to save; the Service by which tasks find each other goes when they are
// gone.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <memory>
#include <set>
#include <tuple>

#include "muster/base/error.h"
#include "muster/orchestration/jobs/back_end.h"
#include "muster/orchestration/jobs/kubectl_internal.h"
#include "muster/orchestration/jobs/kubernetes.h"
#include "muster/orchestration/jobs/kubernetes_logs_internal.h"
#include "muster/orchestration/jobs/kubernetes_pod.h"
#include "muster/orchestration/jobs/kubernetes_state.h"
#include "muster/orchestration/launch/secret.h"

namespace muster::jobs {
namespace {

using std::chrono::system_clock;

constexpr const char* kKind = "--kind";
constexpr const char* kDefaultKind = "jobs";
constexpr const char* kSecretName = "--secret-name";
constexpr const char* kDryRun = "--dry-run";
constexpr const char* kKubectl = "--kubectl";
constexpr const char* kContext = "--context";
constexpr const char* kNamespace = "--namespace";
constexpr std::size_t kRunIdDigits = 16;
// Between the record of a job and the lock of the process that submits it.
constexpr std::chrono::seconds kSubmitPatience{10};

// ---------------------------------------------------------------------------------------- looks

template <typename Change>
void change_kubernetes_run(Job& job, Change change) {
  KubernetesRun run = kubernetes_run(job);
  change(run);
  keep(job, run);
}

void end_job(Job& job, State state, const std::string& message, Time when) {
  job.state = state;
  job.end_time = std::chrono::time_point_cast<std::chrono::microseconds>(when);
  change_kubernetes_run(job, [](KubernetesRun& run) { run.note.clear(); });
  if (!message.empty()) job.error_message = message;
}

void take_open_state(Job& job, const KubernetesState& seen, Time now) {
  if (seen.state == State::kCancelling && job.error_message.empty()) {
    job.error_message = "The job was deleted from the cluster.";
  }
  job.state = seen.state;
  change_kubernetes_run(job, [&](KubernetesRun& run) {
    run.note = seen.note;
    if (seen.state == State::kRunning) run.has_run = true;
  });
  if (seen.state != State::kQueued && !job.start_time) {
    job.start_time = std::chrono::time_point_cast<std::chrono::microseconds>(now);
  }
}

void take_seen(Job& job, const KubernetesState& seen) {
  const Time now = system_clock::now();
  if (seen.is_gone) {
    if (job.state == State::kCancelling) return end_job(job, State::kCancelled, "", now);
    return end_job(job, State::kFailed,
                   "The cluster has no object of the job any more, and its end was not seen: they "
                   "were deleted, or removed a day after it.",
                   now);
  }
  // A job that ends while it is being cancelled counts as cancelled.
  if (job.state == State::kCancelling) {
    return change_kubernetes_run(job, [&](KubernetesRun& run) { run.note = seen.note; });
  }
  if (is_final(seen.state)) return end_job(job, seen.state, seen.note, seen.end_time.value_or(now));
  take_open_state(job, seen, now);
}

// A submit that was killed: nothing of it stays.
Job end_half_submitted(const JobStore& store, const Job& job) {
  const bool is_under_way = HeldLock::is_held(run_lock_of(store, job.job_id)) ||
                            system_clock::now() - job.create_time < kSubmitPatience;
  if (is_under_way) return job;
  delete_all(kubernetes_run(job), fmt::format("deleting what a submit of {} left", job.job_id));
  return store.change(job.job_id, [](Job& changed) {
    end_job(changed, State::kFailed, "The submit was killed before all objects were made.",
            system_clock::now());
  });
}

KubernetesState seen_of(const Job& job) {
  const KubernetesRun run = kubernetes_run(job);
  const std::string answer =
      kubectl(run, fmt::format("looking at the job {}", job.job_id),
              {"get", job_resource(run) + ",pods", selector_of(run), "--output=json"});
  return kubernetes_state(answer, run.has_run);
}

// Tasks that no other waits for would keep their machines.
void delete_unfinished(const std::string& name, const KubernetesRun& run,
                       const KubernetesState& seen) {
  if (seen.unfinished_jobs.empty()) return;
  Words words{"delete", job_resource(run)};
  words.insert(words.end(), seen.unfinished_jobs.begin(), seen.unfinished_jobs.end());
  words.insert(words.end(), {"--wait=false", "--ignore-not-found"});
  kubectl(run, fmt::format("deleting what is left of the job {}", name), words);
}

// Completes a cancel that was killed before the cluster knew, or that it did not answer; and
// deletes the resources that tasks needed until they had saved.
void delete_cancelled(const std::string& name, const KubernetesRun& run,
                      const KubernetesState& seen) {
  if (seen.is_gone) {
    delete_resources(run, helper_resources(run),
                     fmt::format("deleting what is left of the job {}", name));
  } else if (!seen.is_deleted) {
    delete_resources(run, job_resource(run), fmt::format("cancelling the job {}", name));
  }
}

void say_news(const JobStore& store, const Job& before, const Job& job) {
  const std::string note = kubernetes_run(job).note;
  if (job.state == before.state && note == kubernetes_run(before).note) return;
  const std::string& why = is_final(job.state) ? job.error_message : note;
  say(store, job.job_id, why.empty() ? 'I' : 'W',
      fmt::format("job {} is {}{}{}", job.job_id, name_of(job.state), why.empty() ? "" : ": ",
                  why));
}

Job look_at(const JobStore& store, const std::string& name, bool reads_logs) {
  Job job = store.read(name);
  if (is_final(job.state)) return job;
  const KubernetesRun run = kubernetes_run(job);
  if (!run.is_submitted) return end_half_submitted(store, job);
  const KubernetesState seen = seen_of(job);
  const bool has_ended = is_final(seen.state) && job.state != State::kCancelling;
  if ((reads_logs || has_ended) && !fetch_logs(store, job, seen, has_ended) && has_ended) {
    say(store, name, 'W', "the logs are not whole: some could not be read from the cluster");
  }
  if (has_ended) delete_unfinished(name, run, seen);
  if (job.state == State::kCancelling) delete_cancelled(name, run, seen);
  return store.change(name, [&](Job& changed) {
    if (is_final(changed.state)) return;
    const Job before = changed;
    take_seen(changed, seen);
    say_news(store, before, changed);
  });
}

// -------------------------------------------------------------------------------------- manifests

KubernetesJob manifest_job(const Submission& submission) {
  const Job& job = submission.job;
  const FlagValues& flags = submission.flags;
  KubernetesJob made{.job_id = job.job_id,
                     .command = job.local.command,
                     .pod = kubernetes_pod(flags),
                     .secret_name = flags.text(kSecretName),
                     .secret = launch::draw_secret(),
                     .max_running_time = job.training_input.max_running_time,
                     .most_restarts = job.local.most_restarts,
                     .kind = parse_manifest_kind(flags.text(kKind, kDefaultKind))};
  made.pod.labels = job.labels;
  // Tasks that have saved end before it; its default on this host is shorter than nodes need.
  made.grace = std::max(made.grace, std::chrono::ceil<std::chrono::seconds>(job.local.grace));
  for (const RoleTasks& role : submission.roles) {
    made.roles.push_back({role.type, role.count, role.each});
  }
  return made;
}

std::string manifests_to_submit(const Submission& submission) {
  KubernetesJob made = manifest_job(submission);
  made.pod.labels[kRunLabel] = kubernetes_run(submission.job).run_id;
  return kubernetes_manifests(made);
}

class KubernetesBackEnd final : public BackEnd {
 public:
  std::string name() const override { return "kubernetes"; }
  std::string summary() const override { return "a cluster that kubectl talks to"; }
  BackEndAbilities abilities() const override { return {.runs_image = true}; }
  std::vector<BackEndFlag> flags() const override {
    std::vector<BackEndFlag> flags = kubernetes_pod_flags();
    flags.insert(
        flags.end(),
        {{.name = kKind,
          .description = "In Kubernetes: jobs, jobset or tfjob",
          .default_value = kDefaultKind},
         {.name = kSecretName,
          .description =
              "A Secret of the cluster whose key secret proves that tasks belong to the run"},
         {.name = kDryRun,
          .description = "Print what Kubernetes is to run, and end",
          .is_switch = true},
         {.name = kKubectl,
          .description = "The program that talks to Kubernetes (MUSTER_KUBECTL; default: kubectl)"},
         {.name = kContext, .description = "The context of kubectl's configuration"},
         {.name = kNamespace, .description = "The namespace of the job's objects"}});
    for (BackEndFlag& flag : flags) flag.is_ignored_elsewhere = flag.name != kDryRun;
    return flags;
  }

  void prepare(Submission& submission) const override {
    const FlagValues& flags = submission.flags;
    const std::string kind = flags.text(kKind, kDefaultKind);
    const bool is_cluster = submission.roles.size() > 1 || submission.roles.front().count > 1;
    keep(
        submission.job,
        KubernetesRun{.name = kubernetes_name(submission.job.job_id),
                      .run_id = launch::draw_secret().substr(0, kRunIdDigits),
                      .kind = kind,
                      .kubectl = flags.text(kKubectl),
                      .context = flags.text(kContext),
                      .name_space = flags.text(kNamespace),
                      .has_service = is_cluster && parse_manifest_kind(kind) == ManifestKind::kJobs,
                      .has_secret = is_cluster && flags.text(kSecretName).empty()});
  }

  std::optional<std::string> preview(const Submission& submission) const override {
    if (!submission.flags.has(kDryRun)) return std::nullopt;
    for (const char* flag : {kKubectl, kContext, kNamespace}) {
      if (submission.flags.text(flag).empty()) continue;
      throw InvalidArgument(
          "--kubectl, --context and --namespace do nothing with --dry-run: give them to the "
          "kubectl that applies the manifests");
    }
    return kubernetes_manifests(manifest_job(submission));
  }

  void submit(const JobStore& store, const Submission& submission) const override {
    const std::string& name = submission.job.job_id;
    const KubernetesRun run = kubernetes_run(submission.job);
    const std::string manifests = manifests_to_submit(submission);
    // Who looks meanwhile leaves it alone.
    const auto lock = HeldLock::take(run_lock_of(store, name));
    bool may_be_there = true;
    try {
      const auto output = call_kubectl(run, {"create", "--filename=-"}, manifests);
      may_be_there = output.status == 0 || !has_reached_nothing(output);
      if (output.status != 0) throw_kubectl(output, fmt::format("submitting the job {}", name));
      store.change(name, [](Job& made) {
        change_kubernetes_run(made, [](KubernetesRun& kept) { kept.is_submitted = true; });
      });
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
      std::optional<std::tuple<std::string, std::string, std::string>> cluster;
      try {
        const KubernetesRun run = kubernetes_run(job);
        cluster = std::tuple(run.kubectl, run.context, run.name_space);
        // One that does not answer would let each of its jobs wait.
        if (silent.contains(*cluster)) continue;
        look_at(store, job.job_id, /*reads_logs=*/jobs.size() == 1);
      } catch (const Error&) {
        if (cluster) silent.insert(*cluster);
        failure = std::current_exception();
      }
    }
    if (failure) std::rethrow_exception(failure);
  }

  void remove(const JobStore& /*store*/, const Job& job) const override {
    delete_all(kubernetes_run(job),
               fmt::format("deleting the job {} from the cluster", job.job_id));
  }

  std::string note(const Job& job) const override { return kubernetes_run(job).note; }

 protected:
  void end(const JobStore& store, const Job& job) const override {
    const KubernetesRun run = kubernetes_run(job);
    delete_resources(run, job_resource(run), fmt::format("cancelling the job {}", job.job_id));
    say(store, job.job_id, 'I', fmt::format("job {} is CANCELLING", job.job_id));
  }

 private:
  static void take_back(const KubernetesRun& run, Error& error) {
    try {
      delete_all(run, "deleting what was made");
    } catch (const Error& second) {
      error.add_context(
          fmt::format("what was made of the job could not be deleted ({}); delete it with `{}`",
                      second.message(), delete_command(run)));
    }
  }
};

}  // namespace

std::shared_ptr<const BackEnd> kubernetes_back_end() {
  return std::make_shared<KubernetesBackEnd>();
}

}  // namespace muster::jobs
