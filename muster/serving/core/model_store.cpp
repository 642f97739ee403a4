#include "muster/serving/core/model_store.h"

#include <fmt/core.h>
#include <algorithm>
#include <charconv>
#include <condition_variable>
#include <exception>
#include <future>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "muster/base/log.h"
#include "muster/base/object_store.h"
#include "muster/serving/listener/blocking_pool.h"
#include "muster/serving/listener/event_loop.h"

namespace muster::serving {
namespace {

using Clock = std::chrono::steady_clock;

// Versions that are gone stay in the status for as many others.
constexpr std::size_t kKeptEndStates = 8;

std::optional<std::int64_t> version_number(std::string_view name) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (error != std::errc() || end != name.data() + name.size() || number < 0) return std::nullopt;
  return number;
}

// Changes when a file of a SavedModel does, as far as sizes and times show it.
std::string fingerprint_of(const Path& dir) {
  std::string text;
  for (const Path& part : {dir, dir / "variables", dir / "assets", dir / "assets.extra"}) {
    auto& files = file_system_for(part);
    const auto folder = files.status(part);
    if (!folder || !folder->is_directory) continue;
    for (const std::string& name : files.list(part)) {
      const auto status = files.status(part / name);
      if (!status || status->is_directory) continue;
      text += fmt::format("{}/{} {} {}\n", part.string(), name, status->size_bytes,
                          status->modified_ns);
    }
  }
  return text;
}

// What a folder change in between may throw is as good as another fingerprint.
std::string fingerprint_or_empty(const Path& dir) {
  try {
    return fingerprint_of(dir);
  } catch (const Error&) {
    return {};
  }
}

// Requests are to preempt the thread that loads. It gets a tenth of a processor at least that both
// want, so that a version is loaded under any load.
constexpr int kLoadNiceness = 10;

/// One number of a model, from when it was first wanted.
struct VersionEntry {
  Path dir{};
  VersionState state = VersionState::kStart;
  ErrorCode code = ErrorCode::kOk;
  std::string message{};
  ModelVersionPtr version{};
  int failures = 0;
  Clock::time_point retry_at{};
  std::string failed_fingerprint{};
  // Of the files that were loaded.
  std::string loaded_fingerprint{};
  // The last failure that the log has, so that a copy that grows is not told of with each look.
  std::string logged{};
};

struct ModelEntry {
  ModelConfig config{};
  std::map<std::int64_t, VersionEntry> versions{};
  // The last complaint about its folder, so that it is not repeated with each look.
  std::string folder_error{};
};

std::set<std::int64_t> wanted_versions(const VersionPolicy& policy,
                                       const std::map<std::int64_t, Path>& present) {
  std::set<std::int64_t> wanted;
  if (policy.kind == VersionPolicy::Kind::kSpecific) {
    for (const std::int64_t number : policy.versions) {
      if (present.contains(number)) wanted.insert(number);
    }
    return wanted;
  }
  for (auto row = present.rbegin(); row != present.rend(); ++row) {
    if (policy.kind == VersionPolicy::Kind::kLatest &&
        static_cast<std::int64_t>(wanted.size()) == policy.count) {
      break;
    }
    wanted.insert(row->first);
  }
  return wanted;
}

bool is_available(const VersionEntry& entry) { return entry.state == VersionState::kAvailable; }

}  // namespace

std::map<std::int64_t, Path> versions_in(const Path& base_path) {
  std::map<std::int64_t, Path> versions;
  if (graph::is_saved_model(base_path)) {
    const Path name =
        base_path.has_filename() ? base_path.filename() : base_path.parent_path().filename();
    versions[version_number(name.string()).value_or(1)] = base_path;
    return versions;
  }
  if (!file_exists(base_path)) throw NotFound("there is no folder {}", base_path.string());
  // In an object store a version is filled under its own name, the model last.
  const bool in_store = object_store_for(base_path) != nullptr;
  for (const std::string& name : file_system_for(base_path).list(base_path)) {
    const auto number = version_number(name);
    if (!number || (in_store && !graph::is_saved_model(base_path / name))) continue;
    versions[*number] = base_path / name;
  }
  return versions;
}

std::string_view name_of(VersionState state) {
  switch (state) {
    case VersionState::kUnknown:
      return "UNKNOWN";
    case VersionState::kStart:
      return "START";
    case VersionState::kLoading:
      return "LOADING";
    case VersionState::kAvailable:
      return "AVAILABLE";
    case VersionState::kUnloading:
      return "UNLOADING";
    case VersionState::kEnd:
      return "END";
  }
  return "UNKNOWN";
}

ModelVersion::ModelVersion(std::string model, std::int64_t number,
                           std::shared_ptr<const Servable> servable,
                           const std::shared_ptr<ExecutionSlots>& slots,
                           const BatchOptions& options)
    : model_(std::move(model)), number_(number), servable_(std::move(servable)) {
  for (const auto& [name, signature] : servable_->signatures()) {
    queues_.emplace(
        name, std::make_unique<BatchQueue>(
                  slots, options, is_row_wise(signature),
                  [this, key = name](const Tensors& inputs) { return servable_->run(key, inputs); },
                  model_));
  }
}

const graph::SignatureDef* ModelVersion::find_signature(std::string_view name) const {
  const auto found = signatures().find(name);
  return found == signatures().end() ? nullptr : &found->second;
}

BatchQueue& ModelVersion::queue_of(std::string_view signature) const {
  const auto queue = queues_.find(signature);
  if (queue == queues_.end()) throw NotFound("Serving signature key \"{}\" not found.", signature);
  return *queue->second;
}

BatchAnswer ModelVersion::run(std::string_view signature, const Tensors& inputs,
                              const Deadline& deadline, std::uint64_t priority) const {
  return queue_of(signature).run(inputs, deadline, priority);
}

void ModelVersion::start(std::string_view signature, Tensors inputs, const Deadline& deadline,
                         std::uint64_t priority, BatchQueue::Done done) const {
  queue_of(signature).start(std::move(inputs), deadline, priority, std::move(done));
}

std::size_t ModelVersion::waiting() const {
  std::size_t count = 0;
  for (const auto& [name, queue] : queues_) count += queue->waiting();
  return count;
}

struct ModelStore::Impl {
  StoreOptions options;
  std::shared_ptr<ExecutionSlots> slots;

  mutable std::mutex mutex;
  mutable std::condition_variable_any changed;
  std::map<std::string, ModelEntry, std::less<>> models;
  // Versions that get no more requests, until their last one is answered.
  struct Retired {
    std::string model;
    std::int64_t number;
    ModelVersionPtr version;
  };
  std::vector<Retired> retired;
  // Its thread has a lower priority, and so do those that it starts.
  BlockingPool loader{{.threads = 1, .waiting = 1, .niceness = kLoadNiceness}};
  // Looks at the folders: asked for, and done.
  std::uint64_t asked = 0;
  std::uint64_t done = 0;
  // Last, so that it ends first.
  std::jthread manager;

  // ------------------------------------------------------------------ the manager's thread

  void manage(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      std::uint64_t round = 0;
      {
        const std::lock_guard lock(mutex);
        round = asked;
      }
      look_at_all(stop);
      std::unique_lock lock(mutex);
      done = std::max(done, round);
      changed.notify_all();
      const auto again = [&] { return asked > done; };
      // Retired versions are looked after often: they are memory that is no longer needed.
      if (!retired.empty()) {
        changed.wait_for(lock, stop, std::chrono::milliseconds(20), again);
      } else if (options.poll_interval.count() > 0) {
        changed.wait_for(lock, stop, options.poll_interval, again);
      } else {
        changed.wait(lock, stop, again);
      }
    }
  }

  void look_at_all(const std::stop_token& stop) {
    std::vector<std::string> names;
    {
      const std::lock_guard lock(mutex);
      for (const auto& row : models) names.push_back(row.first);
    }
    for (const std::string& name : names) {
      if (stop.stop_requested()) return;
      look_at(name, stop);
    }
    drop_retired();
  }

  // What a folder holds; nothing, with one complaint, when it cannot be read.
  std::optional<std::map<std::int64_t, Path>> list(const std::string& name, const Path& base_path) {
    std::string complaint;
    try {
      auto present = versions_in(base_path);
      if (!present.empty()) {
        note_folder(name, "");
        return present;
      }
      complaint = fmt::format(
          "No versions of servable {} found under base path {}. Did you forget to name your leaf "
          "directory as a number (eg. '/1/')?",
          name, base_path.string());
    } catch (const std::exception&) {
      complaint = muster::describe(std::current_exception()).message;
    }
    note_folder(name, complaint);
    return std::nullopt;
  }

  void note_folder(const std::string& name, const std::string& complaint) {
    const std::lock_guard lock(mutex);
    const auto model = models.find(name);
    if (model == models.end() || model->second.folder_error == complaint) return;
    model->second.folder_error = complaint;
    if (complaint.empty()) {
      log::info("the folder of model {} can be read again", name);
    } else {
      log::warning("model {}: {} Versions that are served stay.", name, complaint);
    }
  }

  struct Job {
    std::int64_t number;
    Path dir;
  };

  // Brings one model to what its folder and policy ask for.
  void look_at(const std::string& name, const std::stop_token& stop) {
    Path base_path;
    {
      const std::lock_guard lock(mutex);
      const auto model = models.find(name);
      if (model == models.end()) return;
      base_path = model->second.config.base_path;
    }
    const auto present = list(name, base_path);
    if (!present) return;
    if (options.resource_preserving) retire_unwanted(name, *present, /*keep_last=*/false);
    for (const Job& job : jobs_of(name, *present)) {
      if (stop.stop_requested()) return;
      load(name, job);
    }
    retire_unwanted(name, *present, /*keep_last=*/true);
    forget_old(name);
  }

  // A version that is served, of which files came or went after it was loaded. What lies in a store
  // is written as a whole, and asking for it costs requests.
  static bool has_changed(const VersionEntry& entry) {
    if (is_remote(entry.dir)) return false;
    const std::string now = fingerprint_or_empty(entry.dir);
    return !now.empty() && now != entry.loaded_fingerprint && now != entry.failed_fingerprint;
  }

  bool is_due(const VersionEntry& entry) const {
    if (entry.state == VersionState::kStart) return true;
    if (is_available(entry)) return has_changed(entry);
    if (entry.state != VersionState::kEnd) return false;
    if (entry.failures == 0) return true;  // It was unloaded, and is wanted again.
    if (entry.failures <= options.max_load_retries && Clock::now() >= entry.retry_at) return true;
    return fingerprint_or_empty(entry.dir) != entry.failed_fingerprint;
  }

  // Versions to load, the newest first.
  std::vector<Job> jobs_of(const std::string& name, const std::map<std::int64_t, Path>& present) {
    std::vector<std::pair<std::int64_t, VersionEntry>> candidates;
    {
      const std::lock_guard lock(mutex);
      const auto model = models.find(name);
      if (model == models.end()) return {};
      const auto wanted = wanted_versions(model->second.config.policy, present);
      for (auto number = wanted.rbegin(); number != wanted.rend(); ++number) {
        VersionEntry& entry = model->second.versions[*number];
        entry.dir = present.at(*number);
        candidates.emplace_back(*number, entry);
      }
    }
    // Without the mutex: files may be looked at.
    std::vector<Job> jobs;
    for (const auto& [number, entry] : candidates) {
      if (is_due(entry)) jobs.push_back({number, entry.dir});
    }
    return jobs;
  }

  // Beside requests, which go first; at once where none can be answered anyway.
  ModelVersionPtr loaded_beside(const std::string& name, const Job& job) {
    const bool answers = [&] {
      const std::lock_guard lock(mutex);
      return std::ranges::any_of(models, [](const auto& row) {
        return std::ranges::any_of(row.second.versions,
                                   [](const auto& entry) { return is_available(entry.second); });
      });
    }();
    if (!answers) return loaded(name, job);
    const auto task =
        std::make_shared<std::packaged_task<ModelVersionPtr()>>([&] { return loaded(name, job); });
    loader.run([task] { (*task)(); });
    return task->get_future().get();
  }

  ModelVersionPtr loaded(const std::string& name, const Job& job) const {
    auto version = std::make_shared<ModelVersion>(name, job.number, options.load(job.dir), slots,
                                                  options.batching);
    if (options.warm_up) options.warm_up(*version, job.dir);
    return version;
  }

  void load(const std::string& name, const Job& job) {
    const std::string before = fingerprint_or_empty(job.dir);
    begin_load(name, job.number);
    const auto begin = Clock::now();
    try {
      ModelVersionPtr version = loaded_beside(name, job);
      const std::chrono::duration<double> seconds = Clock::now() - begin;
      if (!publish(name, job.number, std::move(version), before)) return;
      log::info("serving model={} version={} path={} seconds={:.2f}", name, job.number,
                job.dir.string(), seconds.count());
    } catch (const std::exception&) {
      note_failure(name, job, muster::describe(std::current_exception()), before);
    }
  }

  VersionEntry* entry_of(const std::string& name, std::int64_t number) {
    const auto model = models.find(name);
    if (model == models.end()) return nullptr;
    const auto entry = model->second.versions.find(number);
    return entry == model->second.versions.end() ? nullptr : &entry->second;
  }

  // One that is served stays so while it is loaded again.
  void begin_load(const std::string& name, std::int64_t number) {
    const std::lock_guard lock(mutex);
    VersionEntry* const entry = entry_of(name, number);
    if (entry != nullptr && !is_available(*entry)) {
      entry->state = VersionState::kLoading;
      entry->code = ErrorCode::kOk;
      entry->message.clear();
    }
    changed.notify_all();
  }

  // False when the model was taken out of the configuration meanwhile.
  bool publish(const std::string& name, std::int64_t number, ModelVersionPtr version,
               const std::string& fingerprint) {
    const std::lock_guard lock(mutex);
    VersionEntry* const entry = entry_of(name, number);
    if (entry == nullptr) return false;
    if (is_available(*entry)) retired.push_back({name, number, std::move(entry->version)});
    entry->loaded_fingerprint = fingerprint;
    entry->failed_fingerprint.clear();
    entry->logged.clear();
    entry->state = VersionState::kAvailable;
    entry->version = std::move(version);
    entry->failures = 0;
    changed.notify_all();
    return true;
  }

  void note_failure(const std::string& name, const Job& job, const Description& failure,
                    const std::string& fingerprint) {
    const std::lock_guard lock(mutex);
    VersionEntry* const entry = entry_of(name, job.number);
    if (entry == nullptr) return;
    entry->failed_fingerprint = fingerprint;
    const bool is_told = std::exchange(entry->logged, failure.message) == failure.message;
    if (is_available(*entry)) {
      if (!is_told) {
        log::error(
            "model {} version {}: its files have changed and cannot be loaded: {}; what was "
            "loaded before is served",
            name, job.number, failure.message);
      }
      return;
    }
    entry->state = VersionState::kEnd;
    entry->code = failure.code;
    entry->message = failure.message;
    entry->retry_at = Clock::now() + options.load_retry_interval;
    ++entry->failures;
    const bool again = entry->failures <= options.max_load_retries;
    if (!is_told || entry->failures == options.max_load_retries + 1) {
      log::error("model {} version {} could not be loaded: {}; {}", name, job.number,
                 failure.message,
                 again ? "it is tried again" : "it is tried again when its files change");
    }
    changed.notify_all();
  }

  // Versions that the policy does not ask for go, but never the last one that answers.
  void retire_unwanted(const std::string& name, const std::map<std::int64_t, Path>& present,
                       bool keep_last) {
    const std::lock_guard lock(mutex);
    const auto model = models.find(name);
    if (model == models.end()) return;
    auto& versions = model->second.versions;
    const auto wanted = wanted_versions(model->second.config.policy, present);
    const bool has_wanted = std::ranges::any_of(versions, [&](const auto& row) {
      return wanted.contains(row.first) && is_available(row.second);
    });
    // While none of the wanted ones answers, the newest of the others goes on.
    std::optional<std::int64_t> kept;
    if (keep_last && !has_wanted) {
      for (const auto& [number, entry] : versions) {
        if (is_available(entry)) kept = number;
      }
    }
    for (auto& [number, entry] : versions) {
      if (wanted.contains(number) || number == kept) continue;
      if (is_available(entry)) {
        retire(name, number, entry);
      } else if (entry.state == VersionState::kStart) {
        entry.state = VersionState::kEnd;
      }
    }
  }

  void retire(const std::string& name, std::int64_t number, VersionEntry& entry) {
    entry.state = VersionState::kUnloading;
    retired.push_back({name, number, std::move(entry.version)});
    entry.version.reset();
    changed.notify_all();
  }

  // Frees retired versions that no request holds any more. Here, so that no request pays for it.
  void drop_retired() {
    std::vector<Retired> gone;
    {
      const std::lock_guard lock(mutex);
      const auto end =
          std::stable_partition(retired.begin(), retired.end(),
                                [](const Retired& one) { return one.version.use_count() > 1; });
      std::move(end, retired.end(), std::back_inserter(gone));
      retired.erase(end, retired.end());
    }
    for (Retired& one : gone) {
      one.version.reset();
      end_unloading(one.model, one.number);
      log::info("unloaded model={} version={}", one.model, one.number);
    }
  }

  // The same number may have been loaded again meanwhile, and that one goes on.
  void end_unloading(const std::string& name, std::int64_t number) {
    const std::lock_guard lock(mutex);
    VersionEntry* const entry = entry_of(name, number);
    if (entry != nullptr && entry->state == VersionState::kUnloading) {
      entry->state = VersionState::kEnd;
    }
    changed.notify_all();
  }

  void forget_old(const std::string& name) {
    const std::lock_guard lock(mutex);
    const auto model = models.find(name);
    if (model == models.end()) return;
    auto& versions = model->second.versions;
    auto ended = static_cast<std::size_t>(std::ranges::count_if(versions, [](const auto& row) {
      return row.second.state == VersionState::kEnd && row.second.failures == 0;
    }));
    for (auto row = versions.begin(); row != versions.end() && ended > kKeptEndStates;) {
      const bool old = row->second.state == VersionState::kEnd && row->second.failures == 0;
      row = old ? versions.erase(row) : std::next(row);
      if (old) --ended;
    }
  }

  // ------------------------------------------------------------------ configuration

  bool is_served(std::string_view name, std::int64_t number) const {
    const auto model = models.find(name);
    if (model == models.end()) return false;
    const auto entry = model->second.versions.find(number);
    return entry != model->second.versions.end() && is_available(entry->second);
  }

  // TensorFlow Serving's rule: a label goes to a version that answers, so that no request is sent
  // nowhere; with the option, a new label may also be given to one that does not. A model that is
  // new has nothing yet that a label could be taken from.
  void check_labels(const ModelConfig& config) const {
    const auto model = models.find(config.name);
    if (model == models.end()) return;
    const auto& labels = model->second.config.labels;
    for (const auto& [label, number] : config.labels) {
      if (is_served(config.name, number)) continue;
      const auto old = labels.find(label);
      const bool is_same = old != labels.end() && old->second == number;
      const bool is_new = old == labels.end();
      if (is_same || (is_new && options.allow_labels_for_unavailable)) continue;
      throw FailedPrecondition(
          "Request to assign label to version {} of model {}, which is not currently available for "
          "inference",
          number, config.name);
    }
  }
};

ModelStore::ModelStore(StoreOptions options) : impl_(std::make_unique<Impl>()) {
  if (!options.loop) options.loop = std::make_shared<EventLoop>();
  impl_->slots = std::make_shared<ExecutionSlots>(options.slots, options.loop, options.divide);
  impl_->options = std::move(options);
  impl_->manager =
      std::jthread([impl = impl_.get()](const std::stop_token& stop) { impl->manage(stop); });
}

ModelStore::~ModelStore() = default;

void ModelStore::configure(std::vector<ModelConfig> models) {
  check_models(models);
  const std::lock_guard lock(impl_->mutex);
  for (const ModelConfig& config : models) impl_->check_labels(config);
  std::set<std::string, std::less<>> kept;
  for (ModelConfig& config : models) {
    kept.insert(config.name);
    ModelEntry& entry = impl_->models[config.name];
    entry.config = std::move(config);
  }
  for (auto row = impl_->models.begin(); row != impl_->models.end();) {
    if (kept.contains(row->first)) {
      ++row;
      continue;
    }
    for (auto& [number, entry] : row->second.versions) {
      if (is_available(entry)) impl_->retire(row->first, number, entry);
    }
    row = impl_->models.erase(row);
  }
  ++impl_->asked;
  impl_->changed.notify_all();
}

std::vector<ModelConfig> ModelStore::models() const {
  const std::lock_guard lock(impl_->mutex);
  std::vector<ModelConfig> models;
  for (const auto& [name, entry] : impl_->models) models.push_back(entry.config);
  return models;
}

void ModelStore::set_labels(const std::string& model,
                            std::map<std::string, std::int64_t, std::less<>> labels) {
  const std::lock_guard lock(impl_->mutex);
  const auto found = impl_->models.find(model);
  if (found == impl_->models.end())
    throw NotFound("Could not find any versions of model {}", model);
  ModelConfig changed = found->second.config;
  changed.labels = std::move(labels);
  impl_->check_labels(changed);
  found->second.config = std::move(changed);
}

bool ModelStore::wait_until_settled(const Deadline& deadline) const {
  std::unique_lock lock(impl_->mutex);
  const auto settled = [&] { return impl_->done >= impl_->asked; };
  if (!deadline.is_never()) return impl_->changed.wait_until(lock, deadline.time(), settled);
  impl_->changed.wait(lock, settled);
  return true;
}

void ModelStore::poll() {
  std::unique_lock lock(impl_->mutex);
  const std::uint64_t mine = ++impl_->asked;
  impl_->changed.notify_all();
  impl_->changed.wait(lock, [&] { return impl_->done >= mine; });
}

std::int64_t ModelStore::version_of_label(std::string_view model, const std::string& label) const {
  const std::lock_guard lock(impl_->mutex);
  const auto found = impl_->models.find(model);
  if (found != impl_->models.end()) {
    const auto number = found->second.config.labels.find(label);
    if (number != found->second.config.labels.end()) return number->second;
  }
  throw InvalidArgument("Unrecognized servable version label: {}", label);
}

ModelVersionPtr ModelStore::find(std::string_view model, const VersionChoice& choice) const {
  std::optional<std::int64_t> number = choice.number;
  if (!choice.label.empty()) number = version_of_label(model, choice.label);
  const std::lock_guard lock(impl_->mutex);
  const auto found = impl_->models.find(model);
  if (found != impl_->models.end()) {
    const auto& versions = found->second.versions;
    if (!number) number = found->second.config.default_version;
    if (number) {
      const auto entry = versions.find(*number);
      if (entry != versions.end() && is_available(entry->second)) return entry->second.version;
    } else {
      for (auto row = versions.rbegin(); row != versions.rend(); ++row) {
        if (is_available(row->second)) return row->second.version;
      }
    }
  }
  if (number) throw NotFound("Servable not found for request: Specific({}, {})", model, *number);
  throw NotFound("Servable not found for request: Latest({})", model);
}

std::vector<VersionStatus> ModelStore::status(std::string_view model) const {
  const std::lock_guard lock(impl_->mutex);
  const auto found = impl_->models.find(model);
  if (found == impl_->models.end() || found->second.versions.empty()) {
    throw NotFound("Could not find any versions of model {}", model);
  }
  std::vector<VersionStatus> all;
  const auto& versions = found->second.versions;
  for (auto row = versions.rbegin(); row != versions.rend(); ++row) {
    const VersionEntry& entry = row->second;
    all.push_back({row->first, entry.state, entry.code, entry.message});
  }
  return all;
}

std::vector<ModelVersionPtr> ModelStore::available() const {
  const std::lock_guard lock(impl_->mutex);
  std::vector<ModelVersionPtr> all;
  for (const auto& [name, model] : impl_->models) {
    for (const auto& [number, entry] : model.versions) {
      if (is_available(entry)) all.push_back(entry.version);
    }
  }
  return all;
}

bool ModelStore::ready() const {
  const std::lock_guard lock(impl_->mutex);
  return std::ranges::all_of(impl_->models, [](const auto& row) {
    return std::ranges::any_of(row.second.versions,
                               [](const auto& entry) { return is_available(entry.second); });
  });
}

std::size_t ModelStore::slots() const { return impl_->slots->count(); }
const std::shared_ptr<EventLoop>& ModelStore::loop() const { return impl_->options.loop; }

}  // namespace muster::serving
