#include "muster/distribution/membership/task_address_internal.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <optional>

#include "muster/base/error.h"
#include "muster/platform/net/listener.h"

namespace muster::internal {
namespace {

bool is_local(const std::string& address) {
  const std::string host = address.substr(0, address.rfind(':'));
  return host == "localhost" || host.starts_with("127.") || host == "[::1]";
}

std::optional<TaskSpec> parse_task(std::string_view name) {
  const auto colon = name.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  TaskSpec task{std::string(name.substr(0, colon)), 0};
  const char* const end = name.data() + name.size();
  const auto [stopped, error] = std::from_chars(name.data() + colon + 1, end, task.index);
  if (error != std::errc() || stopped != end || task.name() != name) return std::nullopt;
  return task;
}

bool is_on_one_machine(const TaskEnvironment& environment) {
  for (const auto& [job, tasks] : environment.cluster.jobs()) {
    for (const auto& [index, address] : tasks) {
      if (!net::is_loopback(address)) return false;
    }
  }
  return true;
}

std::string own_address(const TaskEnvironment& environment, const Peer& chief) {
  if (environment.rendezvous) return chief.address;
  const auto address = environment.cluster.address(environment.task.type, environment.task.index);
  if (!address) {
    throw InvalidArgument("the cluster {} has no address for this task, {}",
                          environment.cluster.to_string(), environment.task.name());
  }
  return *address;
}

}  // namespace

Peer chief_of(const TaskEnvironment& environment) {
  if (environment.rendezvous) {
    if (environment.rendezvous->is_running) {
      throw Unimplemented(
          "{} names {}, where a store of another program runs already (torchrun's agent); start "
          "the tasks without it, with RANK, WORLD_SIZE, MASTER_ADDR and a free MASTER_PORT, or "
          "with TF_CONFIG",
          environment.source, environment.rendezvous->address);
    }
    return {{std::string(job::kChief), 0}, environment.rendezvous->address};
  }
  for (const std::string_view job : {job::kChief, job::kMaster, job::kWorker}) {
    if (const auto address = environment.cluster.address(job, 0)) {
      return {{std::string(job), 0}, *address};
    }
  }
  throw InvalidArgument("the cluster {} has neither chief nor master nor worker 0",
                        environment.cluster.to_string());
}

bool has_task(const TaskEnvironment& environment, std::string_view name) {
  const auto task = parse_task(name);
  if (!task || task->index < 0) return false;
  if (environment.rendezvous) {
    if (task->type == job::kChief) return task->index == 0;
    return task->type == job::kWorker && task->index < environment.num_worker_replicas - 1;
  }
  const ClusterSpec& cluster = environment.cluster;
  if (cluster.address(task->type, task->index)) return true;
  // A task that was told of itself alone in its job, as TF_CONFIG may do, knows of no others.
  const bool has_gaps = cluster.count(task->type) < cluster.index_end(task->type) ||
                        (task->type == environment.task.type && cluster.count(task->type) == 1);
  return !environment.is_chief && has_gaps;
}

std::string listening_address(const TaskEnvironment& environment, const Peer& chief, bool is_open) {
  const bool takes_any_port = environment.rendezvous && !environment.is_chief;
  const std::string address = own_address(environment, chief);
  if (is_local(address)) return takes_any_port ? "127.0.0.1:0" : address;
  // A name of this machine may be one that only others resolve to it: then all its addresses serve.
  if (is_open) return takes_any_port ? ":0" : address.substr(address.rfind(':'));
  // Many machines resolve their own name to a loopback address: then peers elsewhere would wait for
  // nothing.
  if (net::is_loopback(address) && is_on_one_machine(environment)) {
    return takes_any_port ? "127.0.0.1:0" : address;
  }
  throw FailedPrecondition(
      "{} at {} could be reached by other machines, and has no secret to tell the tasks of the run "
      "from strangers; set MUSTER_SECRET to the same long random text for all tasks, or, in a "
      "network where everybody may read and change the run, MUSTER_LISTEN_WITHOUT_SECRET=1",
      environment.task.name(), address);
}

std::string reached_at(const TaskEnvironment& environment, const std::string& listening) {
  if (const auto told =
          environment.cluster.address(environment.task.type, environment.task.index)) {
    return *told;
  }
  if (is_local(listening)) return listening;
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) {
    throw_errno(errno, "asking for the host's name");
  }
  return name.data() + listening.substr(listening.rfind(':'));
}

std::string at_home(const std::string& listening) {
  const auto colon = listening.rfind(':');
  const std::string host = listening.substr(0, colon);
  if (host.empty() || host == "0.0.0.0" || host == "[::]") {
    return "localhost" + listening.substr(colon);
  }
  return listening;
}

}  // namespace muster::internal
