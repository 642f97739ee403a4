#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "muster/console/cluster_report.h"
#include "muster/orchestration/jobs/job_log.h"
#include "muster/orchestration/jobs/job_store.h"
#include "muster/serving/http/http_message.h"

namespace muster::console {

/// Requests of pages about the clusters that jobs run:
///   GET cluster/NAME    its tasks, generations, stalls and staleness, as its logs tell them
/// Logs are read once, and from there on what is new of them. Any thread may call.
class ClusterApi {
 public:
  /// The store outlives it.
  explicit ClusterApi(const jobs::JobStore& store) : store_(store) {}

  /// Throws NotFound.
  serving::HttpResponse show(const std::string& name);

 private:
  struct Followed {
    Followed(const jobs::JobStore& store, const std::string& name) : log(store, name, {}) {}

    std::mutex mutex{};
    jobs::JobLog log;
    ClusterReport report{};
  };

  std::shared_ptr<Followed> followed(const std::string& name);

  const jobs::JobStore& store_;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Followed>> followed_;
};

}  // namespace muster::console
