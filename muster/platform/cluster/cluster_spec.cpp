#include "muster/platform/cluster/cluster_spec.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "muster/base/error.h"

namespace muster {
namespace {

constexpr int kMaxPort = 65535;

bool is_port(std::string_view text) {
  int port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  return error == std::errc() && end == text.data() + text.size() && port >= 0 && port <= kMaxPort;
}

bool is_address(std::string_view address) {
  const auto colon = address.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return false;
  const bool plain = std::none_of(address.begin(), address.end(), [](unsigned char c) {
    return c <= ' ' || c == 0x7f || c == '/' || c == '"';
  });
  return plain && is_port(address.substr(colon + 1));
}

void check_job(const std::string& job, const JobTasks& tasks) {
  if (job.empty()) throw InvalidArgument("a job of the cluster has an empty name");
  for (const auto& [index, address] : tasks) {
    if (index < 0) throw InvalidArgument("cluster.{}: index {} is negative", job, index);
    if (!is_address(address)) {
      throw InvalidArgument(
          "cluster.{}[{}]: \"{}\" is not an address; write it as host:port with a port up to {}",
          job, index, address, kMaxPort);
    }
  }
}

bool is_dense(const JobTasks& tasks) {
  return tasks.rbegin()->first == static_cast<std::int64_t>(tasks.size()) - 1;
}

std::string tasks_text(const JobTasks& tasks) {
  const bool dense = is_dense(tasks);
  std::string text;
  for (const auto& [index, address] : tasks) {
    if (!text.empty()) text += ", ";
    text += dense ? fmt::format("\"{}\"", address) : fmt::format("\"{}\": \"{}\"", index, address);
  }
  return dense ? "[" + text + "]" : "{" + text + "}";
}

}  // namespace

ClusterSpec::ClusterSpec(Jobs jobs) : jobs_(std::move(jobs)) {
  for (const auto& [job, tasks] : jobs_) check_job(job, tasks);
  std::erase_if(jobs_, [](const auto& job) { return job.second.empty(); });
}

std::int64_t ClusterSpec::count(std::string_view job) const {
  const auto found = jobs_.find(job);
  return found == jobs_.end() ? 0 : static_cast<std::int64_t>(found->second.size());
}

std::int64_t ClusterSpec::count() const {
  std::int64_t total = 0;
  for (const auto& [job, tasks] : jobs_) total += static_cast<std::int64_t>(tasks.size());
  return total;
}

std::int64_t ClusterSpec::index_end(std::string_view job) const {
  const auto found = jobs_.find(job);
  return found == jobs_.end() ? 0 : found->second.rbegin()->first + 1;
}

std::optional<std::string> ClusterSpec::address(std::string_view job, std::int64_t index) const {
  const auto found = jobs_.find(job);
  if (found == jobs_.end()) return std::nullopt;
  const auto task = found->second.find(index);
  if (task == found->second.end()) return std::nullopt;
  return task->second;
}

std::string ClusterSpec::to_string() const {
  std::string text;
  for (const auto& [job, tasks] : jobs_) {
    text += fmt::format("{}\"{}\": {}", text.empty() ? "" : ", ", job, tasks_text(tasks));
  }
  return "{" + text + "}";
}

}  // namespace muster
