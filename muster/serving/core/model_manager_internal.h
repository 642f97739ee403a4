#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "muster/serving/core/model_store.h"
#include "muster/serving/core/model_table_internal.h"
#include "muster/serving/listener/blocking_pool.h"

namespace muster::serving {

/// Brings the versions of all models to what their folders and policies ask for, in a thread of its
/// own: now and then, and when it is asked to. Any thread may call it.
class ModelManager {
 public:
  /// The arguments outlive the manager.
  ModelManager(const StoreOptions& options, std::shared_ptr<ExecutionSlots> slots,
               ModelTable& table);
  ModelManager(const ModelManager&) = delete;
  ModelManager& operator=(const ModelManager&) = delete;

  /// Asks for one look at all folders that begins after this call; its number.
  std::uint64_t ask();
  /// Waits for the look of that number, with its loads and unloads.
  void wait_for(std::uint64_t look);
  /// Waits for all looks that were asked for. False when the time is over.
  bool wait_for_all(const Deadline& deadline);

 private:
  struct Job {
    std::int64_t number;
    Path dir;
  };

  void manage(const std::stop_token& stop);
  void look_at_all(const std::stop_token& stop);
  void look_at(const std::string& name, const std::stop_token& stop);
  std::optional<std::map<std::int64_t, Path>> list(const std::string& name, const Path& base_path);
  bool is_due(const VersionEntry& entry) const;
  std::vector<Job> jobs_of(const std::string& name, const std::map<std::int64_t, Path>& present);
  void load(const std::string& name, const Job& job);
  ModelVersionPtr loaded_beside(const std::string& name, const Job& job);
  ModelVersionPtr loaded(const std::string& name, const Job& job) const;

  const StoreOptions& options_;
  const std::shared_ptr<ExecutionSlots> slots_;
  ModelTable& table_;
  std::mutex mutex_{};
  std::condition_variable_any changed_{};
  // Looks at the folders: asked for, and done.
  std::uint64_t asked_ = 0;
  std::uint64_t done_ = 0;
  // Its thread has a lower priority, and so do those that it starts.
  BlockingPool loader_;
  // Last, so that it ends first.
  std::jthread thread_;
};

}  // namespace muster::serving
