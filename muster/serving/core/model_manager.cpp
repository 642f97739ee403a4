#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <future>
#include <utility>

#include "muster/base/log.h"
#include "muster/base/object_store.h"
#include "muster/serving/core/model_manager_internal.h"
#include "muster/serving/core/version_folders.h"

namespace muster::serving {
namespace {

using Clock = std::chrono::steady_clock;

// How often retired versions are looked at.
constexpr std::chrono::milliseconds kRetiredInterval{20};
// Requests are to preempt the thread that loads. It gets a tenth of a processor at least that both
// want, so that a version is loaded under any load.
constexpr int kLoadNiceness = 10;

// A version that is served, of which files came or went after it was loaded. What is in a store
// is written as a whole, and asking for it costs requests. A warm-up file that comes later changes
// nothing.
bool has_changed(const VersionEntry& entry) {
  if (is_remote(entry.dir)) return false;
  const std::string now = version_fingerprint(entry.dir);
  return !now.empty() && now != entry.failed_fingerprint &&
         without_warm_up(now) != without_warm_up(entry.loaded_fingerprint);
}

}  // namespace

ModelManager::ModelManager(const StoreOptions& options, std::shared_ptr<ExecutionSlots> slots,
                           ModelTable& table)
    : options_(options),
      slots_(std::move(slots)),
      table_(table),
      loader_({.threads = 1, .waiting = 1, .niceness = kLoadNiceness}),
      thread_([this](const std::stop_token& stop) { manage(stop); }) {}

std::uint64_t ModelManager::ask() {
  const std::lock_guard lock(mutex_);
  changed_.notify_all();
  return ++asked_;
}

void ModelManager::wait_for(std::uint64_t look) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return done_ >= look; });
}

bool ModelManager::wait_for_all(const Deadline& deadline) {
  std::unique_lock lock(mutex_);
  const auto settled = [&] { return done_ >= asked_; };
  if (!deadline.is_never()) return changed_.wait_until(lock, deadline.time(), settled);
  changed_.wait(lock, settled);
  return true;
}

void ModelManager::manage(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    std::uint64_t round = 0;
    {
      const std::lock_guard lock(mutex_);
      round = asked_;
    }
    look_at_all(stop);
    // Retired versions are looked after often: they are memory that is no longer needed.
    const bool has_retired = table_.has_retired();
    std::unique_lock lock(mutex_);
    done_ = std::max(done_, round);
    changed_.notify_all();
    const auto again = [&] { return asked_ > done_; };
    if (has_retired) {
      changed_.wait_for(lock, stop, kRetiredInterval, again);
    } else if (options_.poll_interval.count() > 0) {
      changed_.wait_for(lock, stop, options_.poll_interval, again);
    } else {
      changed_.wait(lock, stop, again);
    }
  }
}

void ModelManager::look_at_all(const std::stop_token& stop) {
  for (const std::string& name : table_.names()) {
    if (stop.stop_requested()) return;
    look_at(name, stop);
  }
  table_.drop_retired();
}

// Versions in a folder; nothing, with one complaint, when it cannot be read.
std::optional<std::map<std::int64_t, Path>> ModelManager::list(const std::string& name,
                                                               const Path& base_path) {
  std::string complaint;
  try {
    auto present = versions_in(base_path);
    if (!present.empty()) {
      table_.note_folder(name, "");
      return present;
    }
    complaint = fmt::format(
        "No versions of servable {} found under base path {}. Did you forget to name your leaf "
        "directory as a number (eg. '/1/')?",
        name, base_path.string());
  } catch (const std::exception&) {
    complaint = muster::describe(std::current_exception()).message;
  }
  table_.note_folder(name, complaint);
  return std::nullopt;
}

// Brings one model to what its folder and policy ask for.
void ModelManager::look_at(const std::string& name, const std::stop_token& stop) {
  const auto base_path = table_.base_path_of(name);
  if (!base_path) return;
  const auto present = list(name, *base_path);
  if (!present) return;
  if (options_.resource_preserving) table_.retire_unwanted(name, *present, /*keep_last=*/false);
  for (const Job& job : jobs_of(name, *present)) {
    if (stop.stop_requested()) return;
    load(name, job);
  }
  table_.retire_unwanted(name, *present, /*keep_last=*/true);
  table_.forget_old(name);
}

bool ModelManager::is_due(const VersionEntry& entry) const {
  if (entry.state == VersionState::kStart) return true;
  if (entry.state == VersionState::kAvailable) return has_changed(entry);
  if (entry.state != VersionState::kEnd) return false;
  if (entry.failures == 0) return true;  // It was unloaded, and is wanted again.
  if (entry.failures <= options_.max_load_retries && Clock::now() >= entry.retry_at) return true;
  return version_fingerprint(entry.dir) != entry.failed_fingerprint;
}

// Versions to load, the newest first. Files may be looked at.
std::vector<ModelManager::Job> ModelManager::jobs_of(const std::string& name,
                                                     const std::map<std::int64_t, Path>& present) {
  std::vector<Job> jobs;
  for (const auto& [number, entry] : table_.wanted(name, present)) {
    if (is_due(entry)) jobs.push_back({number, entry.dir});
  }
  return jobs;
}

// Beside requests, which go first; at once where none can be answered anyway.
ModelVersionPtr ModelManager::loaded_beside(const std::string& name, const Job& job) {
  if (!table_.answers()) return loaded(name, job);
  const auto task =
      std::make_shared<std::packaged_task<ModelVersionPtr()>>([&] { return loaded(name, job); });
  loader_.run([task] { (*task)(); });
  return task->get_future().get();
}

ModelVersionPtr ModelManager::loaded(const std::string& name, const Job& job) const {
  auto version = std::make_shared<ModelVersion>(name, job.number, options_.load(job.dir), slots_,
                                                options_.batching, options_.cache);
  if (options_.warm_up) options_.warm_up(*version, job.dir);
  return version;
}

void ModelManager::load(const std::string& name, const Job& job) {
  const std::string before = version_fingerprint(job.dir);
  table_.begin_load(name, job.number);
  const auto begin = Clock::now();
  try {
    ModelVersionPtr version = loaded_beside(name, job);
    const std::chrono::duration<double> seconds = Clock::now() - begin;
    if (!table_.publish(name, job.number, std::move(version), before)) return;
    log::info("serving model={} version={} path={} seconds={:.2f}", name, job.number,
              job.dir.string(), seconds.count());
  } catch (const std::exception&) {
    table_.note_failure(name, job.number, muster::describe(std::current_exception()), before);
  }
}

}  // namespace muster::serving
