#include "muster/serving/front/front_counts.h"

#include <fmt/format.h>

#include <iterator>
#include <utility>

namespace muster::serving {
namespace {

// The reasons are the front's own words, which have neither quotes nor backslashes.
template <typename Key, typename Value>
void write_family(const char* name, const char* type, const char* help, const char* label,
                  const std::map<Key, Value>& values, std::string& out) {
  fmt::format_to(std::back_inserter(out), "# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
  for (const auto& [key, value] : values) {
    fmt::format_to(std::back_inserter(out), "{}{{{}=\"{}\"}} {}\n", name, label, key, value);
  }
}

}  // namespace

void FrontCounts::answered(int status, std::chrono::nanoseconds taken) {
  const std::lock_guard lock(mutex_);
  ++statuses_[status];
  ++answers_;
  latencies_.add(taken);
}

LatencyBuckets FrontCounts::latencies() const {
  const std::lock_guard lock(mutex_);
  return latencies_;
}

std::uint64_t FrontCounts::answers() const {
  const std::lock_guard lock(mutex_);
  return answers_;
}

void FrontCounts::retried(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  ++retries_[reason];
}

void FrontCounts::node_ended(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  ++ends_[reason];
}

void FrontCounts::ejected(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  ++ejections_[reason];
}

void FrontCounts::set_waiting(std::size_t requests) {
  const std::lock_guard lock(mutex_);
  waiting_ = requests;
}

void FrontCounts::set_nodes(std::map<std::string, std::size_t> by_state) {
  const std::lock_guard lock(mutex_);
  nodes_ = std::move(by_state);
}

std::string FrontCounts::page() const {
  const std::lock_guard lock(mutex_);
  std::string out;
  write_family("muster_front_requests_total", "counter",
               "Requests that the front has answered, by HTTP status.", "status", statuses_, out);
  write_family("muster_front_retries_total", "counter",
               "Requests that were sent to another node, by reason.", "reason", retries_, out);
  write_family("muster_front_node_ends_total", "counter",
               "Processes of nodes that have ended, by reason.", "reason", ends_, out);
  write_family("muster_front_ejections_total", "counter",
               "Nodes that were kept from requests, by reason.", "reason", ejections_, out);
  write_family("muster_front_nodes", "gauge", "Nodes by state.", "state", nodes_, out);
  fmt::format_to(std::back_inserter(out),
                 "# HELP muster_front_requests_waiting Requests that wait for a node.\n"
                 "# TYPE muster_front_requests_waiting gauge\nmuster_front_requests_waiting {}\n",
                 waiting_);
  return out;
}

}  // namespace muster::serving
