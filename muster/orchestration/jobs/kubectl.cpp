// kubectl, and what its answers mean.
#include "muster/orchestration/jobs/kubectl_internal.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <initializer_list>
#include <string_view>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/lines.h"
#include "muster/base/printable.h"

namespace muster::jobs {
namespace {

// kubectl gives up before we do, and says why.
constexpr const char* kRequestTimeout = "--request-timeout=20s";
constexpr std::chrono::seconds kKubectlTimeout{60};
constexpr std::size_t kMostWordsBytes = 1000;

bool has_any(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::any_of(words.begin(), words.end(),
                     [&](std::string_view word) { return text.find(word) != text.npos; });
}

// Messages of kubectl, on one line.
std::string words_of(const process::CapturedOutput& output) {
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

std::string program_of(const KubernetesRun& run) {
  if (!run.kubectl.empty()) return run.kubectl;
  const char* const variable = std::getenv("MUSTER_KUBECTL");
  return variable == nullptr || *variable == '\0' ? "kubectl" : variable;
}

}  // namespace

void throw_kubectl(const process::CapturedOutput& output, const std::string& doing) {
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

process::CapturedOutput call_kubectl(const KubernetesRun& run, const Words& words,
                                     const std::string& input) {
  const std::string program = program_of(run);
  process::CapturedProcess process{
      .command = {program}, .input = input, .timeout = kKubectlTimeout};
  if (!run.context.empty()) process.command.push_back("--context=" + run.context);
  if (!run.name_space.empty()) process.command.push_back("--namespace=" + run.name_space);
  process.command.emplace_back(kRequestTimeout);
  process.command.insert(process.command.end(), words.begin(), words.end());
  try {
    return process::run_captured(process);
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
                    const std::string& input) {
  process::CapturedOutput output = call_kubectl(run, words, input);
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

std::string delete_command(const KubernetesRun& run) {
  const std::string helpers = helper_resources(run);
  return fmt::format("{} delete {}{}{} {}", program_of(run), job_resource(run),
                     helpers.empty() ? "" : ",", helpers, selector_of(run));
}

bool has_reached_nothing(const process::CapturedOutput& output) {
  return has_any(output.err, kNoConnection) && output.out.find(" created") == std::string::npos;
}

bool has_no_log(const process::CapturedOutput& output) {
  return has_any(output.err, {"(NotFound)", "(BadRequest)", "not found"});
}

}  // namespace muster::jobs
