#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/wait.h"
#include "muster/serving/core/batch_queue.h"
#include "muster/serving/core/model_config.h"
#include "muster/serving/core/model_version.h"
#include "muster/serving/core/response_cache.h"
#include "muster/serving/core/servable.h"
#include "muster/serving/core/version_rule.h"

namespace muster::serving {

/// The numbers are those of TensorFlow Serving's ModelVersionStatus.
enum class VersionState {
  kUnknown = 0,
  kStart = 10,
  kLoading = 20,
  kAvailable = 30,
  kUnloading = 40,
  kEnd = 50
};

/// "AVAILABLE".
std::string_view name_of(VersionState state);

struct VersionStatus {
  std::int64_t number = 0;
  VersionState state = VersionState::kUnknown;
  ErrorCode code = ErrorCode::kOk;
  std::string message{};
};

struct StoreOptions {
  LoadServable load{};
  /// Called with a version before it gets requests; what it throws is a failed load.
  std::function<void(const ModelVersion& version, const Path& dir)> warm_up{};
  BatchOptions batching{};
  /// Where answers are kept for requests that come again; none: they are not.
  std::shared_ptr<ResponseCache> cache{};
  /// Batches that are computed at one time; zero: one per processor.
  std::size_t slots = 0;
  /// For kernels with threads of their own: how a batch gets its part of the processors.
  ExecutionSlots::Divide divide{};
  /// How models in demand share slots and processors. A name may be of a model that comes later.
  ModelWeights weights{};
  /// Whose threads compute. None: one that the store makes, with a thread more than there are
  /// slots.
  std::shared_ptr<EventLoop> loop{};
  /// How often folders are looked at; zero: only when told.
  std::chrono::milliseconds poll_interval{1000};
  /// How often a load that failed is tried again. After that, only when its files change.
  int max_load_retries = 5;
  std::chrono::milliseconds load_retry_interval{60'000};
  /// Whether a new label may name a version that is not loaded.
  bool allow_labels_for_unavailable = false;
  /// Whether the old version goes before the new one is loaded. Uses less memory, and there is a
  /// gap.
  bool resource_preserving = false;
};

/// The models of a server and their versions, loaded and replaced by a thread of its own. All
/// functions may be called from any thread.
///
/// A new version is loaded and warmed up before it gets requests; only then does the old one go,
/// after its last request. One that fails to load is tried again, and takes no good one down. A
/// folder that is gone or empty takes nothing down either.
class ModelStore {
 public:
  explicit ModelStore(StoreOptions options);
  ~ModelStore();
  ModelStore(const ModelStore&) = delete;
  ModelStore& operator=(const ModelStore&) = delete;

  /// Serves exactly these from now on, and unloads the others. Throws InvalidArgument for a wrong
  /// list, FailedPrecondition for a label that a served model would move to a version that is not
  /// available, and changes nothing then.
  void configure(std::vector<ModelConfig> models);
  /// The configured models, by name.
  std::vector<ModelConfig> models() const;

  /// Sets the labels of a model. Throws NotFound, and as configure().
  void set_labels(const std::string& model,
                  std::map<std::string, std::int64_t, std::less<>> labels);

  /// Waits until every configured version is available or has failed. False when the time is over.
  bool wait_until_settled(const Deadline& deadline) const;
  /// Waits for one look at all folders that begins after this call, with its loads and unloads.
  void poll();

  /// The version that answers, by the rule of version_rule.h; where versions share requests by
  /// weight and the choice has no key, the one with the largest share. Throws NotFound for a model
  /// or version that is not available, InvalidArgument for an unknown label, in the words of
  /// TensorFlow Serving.
  ModelVersionPtr find(std::string_view model, const VersionChoice& choice = {}) const;
  /// The same for a prediction: without a key one is drawn, so that each has its share.
  ModelVersionPtr draw(std::string_view model, const VersionChoice& choice) const;
  /// Shares of versions in the requests that name none, by model; no models without weights.
  std::map<std::string, std::vector<std::pair<std::int64_t, double>>> shares() const;
  /// States of all versions of a model that were seen, the newest first; those that are gone for a
  /// while are forgotten. Throws NotFound for an unknown model.
  std::vector<VersionStatus> status(std::string_view model) const;
  /// All that can be asked.
  std::vector<ModelVersionPtr> available() const;
  /// The version that a label names now. Throws InvalidArgument.
  std::int64_t version_of_label(std::string_view model, const std::string& label) const;
  /// Whether every model has a version that answers.
  bool ready() const;

  std::size_t slots() const;
  /// For servers, whose threads then read and compute in turn.
  const std::shared_ptr<EventLoop>& loop() const;
  /// Answers that are kept; null where none are.
  const std::shared_ptr<ResponseCache>& cache() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::serving
