// The two scripts of a job that Slurm runs.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "muster/base/error.h"
#include "muster/orchestration/jobs/slurm.h"

namespace muster::jobs {
namespace {

using std::chrono::seconds;

constexpr seconds kLeastWarning{60};
// Slurm looks about every half minute whether limits have been reached.
constexpr seconds kSlackOfLimits{60};
constexpr seconds kEvaluatorGrace{600};
constexpr std::int64_t kMostSlurmRetries = 3;

std::string in_shell_quotes(std::string_view word) {
  std::string quoted = "'";
  for (const char c : word) {
    if (c == '\'') {
      quoted += "'\\''";
    } else {
      quoted += c;
    }
  }
  return quoted + "'";
}

seconds grace_of(const Job& job) {
  return std::max(std::chrono::ceil<seconds>(job.local.grace), seconds(1));
}

// How long before its time limit a job is asked to save: at least as long as that may take.
seconds warning_before(seconds limit, seconds grace) {
  return std::min(std::max(kLeastWarning, 2 * grace + kSlackOfLimits), limit / 2);
}

std::string directives(const Submission& submission) {
  const Job& job = submission.job;
  const SlurmRequest request = slurm_request(submission.roles);
  std::string text = fmt::format(
      "#SBATCH --job-name={}\n#SBATCH --ntasks={}\n#SBATCH --cpus-per-task={}\n", job.job_id,
      std::max(request.tasks, submission.parallel_trials), request.cpus_per_task);
  if (request.memory_mb_per_cpu > 0) {
    text += fmt::format("#SBATCH --mem-per-cpu={}M\n", request.memory_mb_per_cpu);
  }
  if (request.gpus_per_task > 0) {
    text += fmt::format("#SBATCH --gpus-per-task={}\n", request.gpus_per_task);
  }
  const seconds least_limit{60};
  if (const auto asked = job.training_input.max_running_time) {
    const seconds limit = std::max(*asked, least_limit);
    text +=
        fmt::format("#SBATCH --time={}\n", std::chrono::ceil<std::chrono::minutes>(limit).count());
    text +=
        fmt::format("#SBATCH --signal=B:USR1@{}\n", warning_before(limit, grace_of(job)).count());
  } else {
    // A partition may have a limit of its own.
    text += fmt::format("#SBATCH --signal=B:USR1@{}\n",
                        warning_before(std::chrono::hours(1), grace_of(job)).count());
  }
  text += "#SBATCH --requeue\n#SBATCH --open-mode=append\n#SBATCH --export=ALL\n";
  for (const std::string& option : slurm_run(job).options) {
    if (option.empty() || option.front() != '-' || option.find('\n') != std::string::npos) {
      throw InvalidArgument(
          "--slurm-option takes an option of sbatch in one word, such as --partition=gpu: \"{}\"",
          option);
    }
    text += "#SBATCH " + option + "\n";
  }
  return text;
}

// The tasks in the order of SLURM_PROCID, as TYPE:INDEX and as the names of their files.
struct TaskNames {
  std::string tasks{};
  std::string files{};
};

TaskNames names_of(const std::vector<RoleTasks>& roles) {
  TaskNames names;
  for (const RoleTasks& role : roles) {
    const bool has_index = role.type == "worker" || role.count > 1;
    for (std::int64_t i = 0; i < role.count; ++i) {
      names.tasks += fmt::format(" {}:{}", role.type, i);
      names.files += has_index ? fmt::format(" {}{}", role.type, i) : " " + role.type;
    }
  }
  return {names.tasks.substr(1), names.files.substr(1)};
}

// A study takes nothing away from its trials, which are steps of their own.
const char* placement_of(const Submission& submission) {
  return submission.parallel_trials > 0 ? "--overlap --nodes=1" : "--distribution=block";
}

constexpr std::string_view kBatchBody = R"sh(
say() { printf '%s %s service %s\n' "$(date +%Y-%m-%dT%H:%M:%S.%3N)" "$1" "$2"; }

cd "$work" || exit 1
rm -f "$job/result"
mkdir -p "$job/attempts" || exit 1
attempt=$(($(ls "$job/attempts" | wc -l) + 1))
folder=$job/attempts/$attempt
mkdir "$folder" || exit 1

# Output of Slurm's commands gets a stamp too: without, it would seem as old as the line before.
stamp() {
  trap '' TERM USR1 USR2
  while IFS= read -r line || [ -n "$line" ]; do say W "$line"; done
}
mkfifo "$folder/said" || exit 1
stamp < "$folder/said" &
stamper=$!
exec 2> "$folder/said"
rm "$folder/said"
trap 'exec 2>&-; wait "$stamper"' EXIT

[ -n "$MUSTER_SECRET" ] || export MUSTER_SECRET="$(cat "$job/secret")"
# Where Slurm itself finds the nodes: their names need not resolve.
MUSTER_NODE_ADDRESSES=$(scontrol show node -o "$SLURM_JOB_NODELIST" |
  sed -n 's/^NodeName=\([^ ]*\) .* NodeAddr=\([^ ]*\) .*/\1=\2/p')
export MUSTER_NODE_ADDRESSES

# Why the tasks were asked to end, if they were. USR1: the time limit is near. USR2: `muster jobs
# cancel`. TERM: Slurm ends the job and has told the tasks itself.
why=
stop_tasks() { scancel --signal=USR2 "$SLURM_JOB_ID.0"; }
ask() {
  [ -z "$why" ] || return
  why=$1
  kill_at=$((SECONDS + 3 * grace))
  say I "asking the tasks to save and end: $2"
  stop_tasks
}
kill_at=
trap 'ask limit "the time limit is near"' USR1
trap 'ask cancel "the job is cancelled"' USR2
trap 'why=slurm' TERM

say I "job $name starts attempt=$attempt slurm_job=$SLURM_JOB_ID nodes=$SLURM_JOB_NODELIST"
srun $placement --ntasks="$tasks" --cpus-per-task="$cpus" --kill-on-bad-exit=0 --wait=0 \
  --input=none bash "$job/task.sh" "$folder" &
step=$!

status_of() { cat "$folder/$1.status" 2>/dev/null; }
# The task whose end is the end of the run: the chief, or a ps that failed for good.
ending_task() {
  [ -e "$folder/$chief.status" ] && echo "$chief" && return
  local file
  for file in "$folder"/ps*.status; do
    [ -e "$file" ] && [ "$(cat "$file")" != 0 ] && basename "$file" .status && return
  done
}

# When the run is over the others may end by themselves for a while; then they are asked, then
# killed.
asked=
ask_at=
while kill -0 "$step" 2>/dev/null; do
  sleep 0.5 &
  wait $!
  if [ -z "$ask_at" ] && last=$(ending_task) && [ -n "$last" ]; then
    ask_at=$((SECONDS + grace))
    [ -n "$kill_at" ] || kill_at=$((ask_at + 3 * grace))
    [ "$(status_of "$chief")" = 0 ] && kill_at=$((kill_at + evaluator_grace))
  fi
  if [ -n "$ask_at" ] && [ -z "$asked" ] && [ "$SECONDS" -ge "$ask_at" ]; then
    asked=1
    [ -n "$why" ] || stop_tasks
  fi
  if [ -n "$kill_at" ] && [ "$SECONDS" -ge "$kill_at" ]; then
    say W "killing tasks that have not ended"
    scancel --signal=KILL "$SLURM_JOB_ID.0"
    kill_at=$((SECONDS + grace))
  fi
done
wait "$step"
step_status=$?

last=$(ending_task)
status=$(status_of "${last:-$chief}")
# A chief that was killed with its shell left nothing.
[ -n "$status" ] || status=$step_status
[ -n "$last" ] || [ "$status" != 0 ] || status=1

record() {
  say I "the tasks have ended status=$status task=${last:-$chief}"
  printf 'status=%s task=%s\n' "$status" "${last:-$chief}" > "$job/result.new"
  mv "$job/result.new" "$job/result"
}
finish() {
  record
  exit "$status"
}
requeue() {
  say I "queued again status=$status: $1"
  # Slurm ends this script.
  if scontrol requeue "$SLURM_JOB_ID"; then
    sleep 60 &
    wait $!
    exit "$status"
  fi
  say E "Slurm does not queue the job again"
  finish
}

worth_another_try=
[ "$status" != 75 ] && [ "$status" -le 128 ] || worth_another_try=1
retries=$(cat "$job/retries" 2>/dev/null || echo 0)
case $why in
  slurm) finish ;;
  cancel)
    record
    scancel "$SLURM_JOB_ID"
    exit "$status" ;;
  limit) [ -z "$worth_another_try" ] || requeue "it goes on in another run" ;;
  *)
    if [ -n "$worth_another_try" ] && [ "$retries" -lt "$most_retries" ]; then
      echo $((retries + 1)) > "$job/retries"
      requeue "retry $((retries + 1)) of $most_retries"
    fi ;;
esac
finish
)sh";

constexpr std::string_view kTaskBody = R"sh(
say() { printf '%s %s %s %s\n' "$(date +%Y-%m-%dT%H:%M:%S.%3N)" "$1" "$task" "$2" >> "$log"; }

folder=$1
task=${tasks[$SLURM_PROCID]}
file=${files[$SLURM_PROCID]}
type=${task%:*}
index=${task#*:}
log=$folder/$file.log

# The address of each task: its node's, and a port that follows from job and rank.
declare -A address_of
for entry in $MUSTER_NODE_ADDRESSES; do address_of[${entry%%=*}]=${entry#*=}; done
mapfile -t nodes < <(scontrol show hostnames "$SLURM_STEP_NODELIST")
counts=()
for part in ${SLURM_STEP_TASKS_PER_NODE//,/ }; do  # "2(x3),1" is 2 2 2 1
  times=1
  case $part in *x*) times=${part#*x} times=${times%)} ;; esac
  for ((i = 0; i < times; i++)); do counts+=("${part%%(*}"); done
done
port=${MUSTER_CLUSTER_PORT:-$((12000 + (SLURM_JOB_ID + 7 * ${SLURM_RESTART_COUNT:-0}) % 300 * 64))}
declare -A list_of
rank=0
for ((node = 0; node < ${#nodes[@]}; node++)); do
  for ((i = 0; i < counts[node]; i++)); do
    of=${tasks[rank]%:*}
    host=${address_of[${nodes[node]}]:-${nodes[node]}}
    list_of[$of]+="${list_of[$of]:+,}\"$host:$((port + rank))\""
    rank=$((rank + 1))
  done
done
unset TF_CONFIG
if [ "${#tasks[@]}" -gt 1 ]; then
  cluster=
  for of in chief master worker ps; do
    [ -z "${list_of[$of]}" ] || cluster+="${cluster:+,}\"$of\":[${list_of[$of]}]"
  done
  export TF_CONFIG="{\"cluster\":{$cluster},\"task\":{\"type\":\"$type\",\"index\":$index},\"environment\":\"cloud\"}"
fi
[ "$type" != ps ] || export CUDA_VISIBLE_DEVICES=
unset MUSTER_NODE_ADDRESSES
# For programs of muster TF_CONFIG decides; this lets SLURM_* say the same.
MUSTER_NUM_PS=0
for entry in "${tasks[@]}"; do case $entry in ps:*) MUSTER_NUM_PS=$((MUSTER_NUM_PS + 1)) ;; esac; done
export MUSTER_NUM_PS

# TERM comes from Slurm, to the program as well. USR2 comes from job.sbatch, and the program
# ignores it: it gets TERM from here, a ps when the others have ended and need it no more.
signals=0
stop=
child=
others_run() {
  local i
  for ((i = 0; i < ${#tasks[@]}; i++)); do
    case ${tasks[i]} in ps:*) continue ;; esac
    [ -e "$folder/${files[i]}.status" ] || return 0
  done
  return 1
}
end_child() {
  signals=$((signals + 1))
  # An evaluator may finish with the last checkpoint of a run that went well.
  [ "$type" = evaluator ] && [ "$(cat "$folder/$chief.status" 2>/dev/null)" = 0 ] && return
  [ -z "$stop" ] || return
  stop=1
  if [ "$type" = ps ]; then
    local until=$((SECONDS + 2 * grace))
    while others_run && [ "$SECONDS" -lt "$until" ]; do sleep 0.1; done
  fi
  [ -z "$child" ] || kill -TERM "$child" 2>/dev/null
}
trap end_child USR2
trap 'signals=$((signals + 1)); stop=1' TERM

restarts=0
while [ -z "$stop" ]; do
  (trap '' USR2; exec "${program[@]}") >> "$log" 2>&1 < /dev/null &
  child=$!
  while :; do
    before=$signals
    wait "$child"
    status=$?
    [ "$signals" != "$before" ] || break
  done
  child=
  # A task that was misused (2) would fail again.
  if [ "$status" = 0 ] || [ "$status" = 2 ] || [ -n "$stop" ]; then break; fi
  [ "$restarts" -lt "$most_restarts" ] && [ ! -e "$folder/$chief.status" ] || break
  restarts=$((restarts + 1))
  say W "exited with status $status: restart $restarts of $most_restarts"
  sleep $((1 << (restarts < 6 ? restarts - 1 : 5)))
done
printf '%s\n' "${status:=143}" > "$folder/$file.status.new"
mv "$folder/$file.status.new" "$folder/$file.status"
exit "$status"
)sh";

}  // namespace

SlurmRequest slurm_request(const std::vector<RoleTasks>& roles) {
  SlurmRequest request{.tasks = 0};
  double memory_gb = 0;
  for (const RoleTasks& role : roles) {
    request.tasks += role.count;
    if (role.count == 0) continue;
    request.cpus_per_task =
        std::max(request.cpus_per_task, static_cast<std::int64_t>(std::ceil(role.each.cpus)));
    request.gpus_per_task = std::max(request.gpus_per_task, role.each.gpus);
    memory_gb = std::max(memory_gb, role.each.memory_gb);
  }
  request.memory_mb_per_cpu = static_cast<std::int64_t>(
      std::ceil(memory_gb * 1024 / static_cast<double>(request.cpus_per_task)));
  return request;
}

std::string slurm_batch_script(const Submission& submission, const Path& folder) {
  const Job& job = submission.job;
  const SlurmRequest request = slurm_request(submission.roles);
  return fmt::format(
      "#!/bin/bash\n# The job {} of `muster jobs`: one task of srun for each task of the cluster, "
      "see task.sh.\n{}\n"
      "name={}\njob={}\nwork={}\nchief={}\ntasks={}\ncpus={}\nplacement='{}'\ngrace={}\n"
      "evaluator_grace={}\nmost_retries={}\n{}",
      job.job_id, directives(submission), job.job_id, in_shell_quotes(folder.string()),
      in_shell_quotes(job.local.working_directory.string()), submission.roles.at(0).type,
      request.tasks, request.cpus_per_task, placement_of(submission), grace_of(job).count(),
      job.local.evaluators > 0 ? kEvaluatorGrace.count() : 0, kMostSlurmRetries, kBatchBody);
}

std::string slurm_task_script(const Submission& submission, const Path& folder) {
  const Job& job = submission.job;
  const TaskNames names = names_of(submission.roles);
  std::string program;
  for (const std::string& word : job.local.command) {
    program += (program.empty() ? "" : " ") + in_shell_quotes(word);
  }
  return fmt::format(
      "#!/bin/bash\n# One task of the job {}, started by srun of {}: who it is follows from "
      "SLURM_PROCID.\nprogram=({})\ntasks=({})\nfiles=({})\nchief={}\ngrace={}\nmost_restarts={}\n"
      "{}",
      job.job_id, (folder / "job.sbatch").filename().string(), program, names.tasks, names.files,
      submission.roles.at(0).type, grace_of(job).count(), job.local.most_restarts, kTaskBody);
}

}  // namespace muster::jobs
