#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/serving/core/model_store.h"

namespace muster::serving {

/// One number of a model, from when it was first wanted.
struct VersionEntry {
  Path dir{};
  VersionState state = VersionState::kStart;
  ErrorCode code = ErrorCode::kOk;
  std::string message{};
  ModelVersionPtr version{};
  int failures = 0;
  std::chrono::steady_clock::time_point retry_at{};
  std::string failed_fingerprint{};
  // Fingerprint of the files that were loaded.
  std::string loaded_fingerprint{};
  // The last failure that the log has, so that a copy that grows is not told of with each look.
  std::string logged{};
};

/// The configured models and the states of their versions. Reads no files and loads nothing. Any
/// thread may call it.
class ModelTable {
 public:
  /// The options outlive it.
  explicit ModelTable(const StoreOptions& options) : options_(options) {}
  ModelTable(const ModelTable&) = delete;
  ModelTable& operator=(const ModelTable&) = delete;

  /// Same as the functions of ModelStore with these names.
  void configure(std::vector<ModelConfig> models);
  std::vector<ModelConfig> models() const;
  void set_labels(const std::string& model,
                  std::map<std::string, std::int64_t, std::less<>> labels);
  ModelVersionPtr find(std::string_view model, const VersionChoice& choice,
                       std::optional<std::uint64_t> draw = std::nullopt) const;
  std::map<std::string, std::vector<std::pair<std::int64_t, double>>> shares() const;
  std::vector<VersionStatus> status(std::string_view model) const;
  std::vector<ModelVersionPtr> available() const;
  std::int64_t version_of_label(std::string_view model, const std::string& label) const;
  bool ready() const;

  std::vector<std::string> names() const;
  /// Nothing for a model that is not configured.
  std::optional<Path> base_path_of(const std::string& name) const;
  /// Notes why the folder of a model cannot be read, or that it can: empty. Logs each change once.
  void note_folder(const std::string& name, const std::string& complaint);
  /// The versions in a folder that the model's policy asks for, the newest first.
  std::vector<std::pair<std::int64_t, VersionEntry>> wanted(
      const std::string& name, const std::map<std::int64_t, Path>& present);
  /// Whether a version of any model answers.
  bool answers() const;

  /// A version that is available stays so while it is loaded again.
  void begin_load(const std::string& name, std::int64_t number);
  /// False when the model was taken out of the configuration meanwhile.
  bool publish(const std::string& name, std::int64_t number, ModelVersionPtr version,
               const std::string& fingerprint);
  void note_failure(const std::string& name, std::int64_t number, const Description& failure,
                    const std::string& fingerprint);
  /// Retires the versions that the policy does not ask for, but never the last one that answers if
  /// that is to be kept.
  void retire_unwanted(const std::string& name, const std::map<std::int64_t, Path>& present,
                       bool keep_last);
  /// Frees retired versions that no request holds any more.
  void drop_retired();
  bool has_retired() const;
  /// Forgets the oldest versions that were unloaded, beyond those that the status shows.
  void forget_old(const std::string& name);

 private:
  struct ModelEntry {
    ModelConfig config{};
    std::map<std::int64_t, VersionEntry> versions{};
    // The last complaint about its folder, so that it is not repeated with each look.
    std::string folder_error{};
  };
  // A version that gets no more requests, until its last one is answered.
  struct Retired {
    std::string model;
    std::int64_t number;
    ModelVersionPtr version;
  };

  static Answers answers_of(const ModelEntry& model);
  VersionEntry* entry_of(const std::string& name, std::int64_t number);
  void retire(const std::string& name, std::int64_t number, VersionEntry& entry);
  void end_unloading(const std::string& name, std::int64_t number);
  bool is_served(std::string_view name, std::int64_t number) const;
  void check_labels(const ModelConfig& config) const;

  const StoreOptions& options_;
  mutable std::mutex mutex_;
  // The rest is under the mutex.
  std::map<std::string, ModelEntry, std::less<>> models_;
  std::vector<Retired> retired_;
};

}  // namespace muster::serving
