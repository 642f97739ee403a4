#include "muster/console/cluster_api.h"

#include <nlohmann/json.hpp>

#include "muster/orchestration/jobs/job_text.h"

namespace muster::console {
namespace {

using nlohmann::json;

constexpr std::size_t kMostFollowedJobs = 20;

double seconds_of(ReportTime time) {
  return std::chrono::duration<double>(time.time_since_epoch()).count();
}

json tasks_json(const ClusterReport& report) {
  json list = json::array();
  for (const auto& [name, task] : report.tasks()) {
    list.push_back({{"name", name},
                    {"lastTime", seconds_of(task.last_time)},
                    {"lastLine", task.last_line},
                    {"step", task.step ? json(*task.step) : json()},
                    {"gone", task.gone},
                    {"restarts", task.restarts}});
  }
  return list;
}

json generations_json(const ClusterReport& report) {
  json list = json::array();
  for (const auto& generation : report.generations()) {
    list.push_back({{"number", generation.number},
                    {"began", seconds_of(generation.began)},
                    {"members", generation.members},
                    {"seconds", generation.seconds ? json(*generation.seconds) : json()}});
  }
  return list;
}

json stalls_json(const ClusterReport& report) {
  json list = json::array();
  for (const auto& stall : report.stalls()) {
    list.push_back({{"began", seconds_of(stall.began)},
                    {"ended", stall.ended ? json(seconds_of(*stall.ended)) : json()},
                    {"task", stall.task},
                    {"reason", stall.reason}});
  }
  return list;
}

json staleness_json(const ClusterReport& report) {
  json list = json::array();
  for (const auto& one : report.staleness()) {
    list.push_back(
        {{"step", one.step}, {"time", seconds_of(one.time)}, {"mean", one.mean}, {"max", one.max}});
  }
  return list;
}

}  // namespace

std::shared_ptr<ClusterApi::Followed> ClusterApi::followed(const std::string& name) {
  const std::lock_guard lock(mutex_);
  auto found = followed_.find(name);
  if (found == followed_.end()) {
    // Any of them: one that is asked for again is read again.
    if (followed_.size() >= kMostFollowedJobs) followed_.erase(followed_.begin());
    found = followed_.emplace(name, std::make_shared<Followed>(store_, name)).first;
  }
  return found->second;
}

serving::HttpResponse ClusterApi::show(const std::string& name) {
  jobs::check_job_name(name);
  const jobs::Job job = store_.read(name);
  const std::shared_ptr<Followed> one = followed(name);
  const std::lock_guard lock(one->mutex);
  one->log.poll(
      [&](const jobs::LogLine& line) { one->report.take(line.task, line.time, line.message); },
      is_final(job.state));
  const json out{{"name", name},
                 {"state", jobs::name_of(job.state)},
                 {"isFinal", is_final(job.state)},
                 {"tasks", tasks_json(one->report)},
                 {"generations", generations_json(one->report)},
                 {"stalls", stalls_json(one->report)},
                 {"staleness", staleness_json(one->report)}};
  return {.body = out.dump(-1, ' ', false, json::error_handler_t::replace)};
}

}  // namespace muster::console
