#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "muster/console/api_request.h"
#include "muster/console/file_watch.h"
#include "muster/console/live_updates.h"
#include "muster/orchestration/jobs/job_store.h"

namespace muster::console {

struct JobsOptions {
  /// The folder of the jobs; it need not be there yet.
  Path folder{};
  /// Starts a supervisor of the folder; empty: none is started.
  std::vector<std::string> supervise_command{};
};

/// Requests of pages about jobs:
///   GET jobs               all of them, newest first
///   GET jobs/NAME          one, with how far it has come
///   GET jobs/NAME/log      ?task=TASK: its lines as a stream, from the last ones on
///   POST jobs/NAME/cancel
///   POST jobs/NAME/resubmit
/// and the event that they are sent: `jobs` with the names of those that have changed.
class JobsApi {
 public:
  JobsApi(JobsOptions options, LiveUpdates& updates);
  ~JobsApi();

  serving::HttpResponse list() const;
  /// Throws NotFound.
  serving::HttpResponse show(const std::string& name) const;
  serving::HttpResponse follow_log(const std::string& name, const ApiRequest& request);
  serving::HttpResponse cancel(const std::string& name);
  serving::HttpResponse set_priority(const std::string& name, const ApiRequest& request);
  /// The same job once more, under the next free name.
  serving::HttpResponse resubmit(const std::string& name, const ApiRequest& request);
  const jobs::JobStore& store() const { return store_; }

  /// The folder that a job trains in; empty where it has none on this host.
  static Path folder_of(const jobs::Job& job);
  /// The newest job that trains in a folder; nothing where none does.
  std::optional<jobs::Job> job_of(const Path& job_dir) const;
  /// Submits a job once more, under the next free name and as `change` has changed it.
  jobs::Job submit_again(const jobs::Job& job, const std::function<void(jobs::Job&)>& change);
  /// Submits a new job, under its name or the next one that is free.
  jobs::Job submit_new(jobs::Job job, const std::vector<std::string>& environment);
  /// Ends all streams.
  void close();

 private:
  class Follower;

  void look(const std::stop_token& stop);
  void watch_folders();
  void feed(const std::set<std::string>& names);
  void add_follower(std::unique_ptr<Follower> follower);
  std::string name_of_folder(const Path& folder) const;

  JobsOptions options_;
  jobs::JobStore store_;
  LiveUpdates& updates_;
  std::mutex mutex_;
  std::condition_variable_any has_work_;
  std::set<std::string> changed_;
  std::mutex followers_mutex_;
  std::vector<std::unique_ptr<Follower>> followers_;
  bool is_closed_ = false;
  FileWatch watch_;
  std::jthread thread_;
};

}  // namespace muster::console
