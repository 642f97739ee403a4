#include <algorithm>
#include <iterator>
#include <set>

#include "muster/base/log.h"
#include "muster/serving/core/model_table_internal.h"

namespace muster::serving {
namespace {

using Clock = std::chrono::steady_clock;

// Versions that are gone stay in the status for as many others.
constexpr std::size_t kKeptEndStates = 8;

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

void ModelTable::configure(std::vector<ModelConfig> configs) {
  check_models(configs);
  const std::lock_guard lock(mutex_);
  for (const ModelConfig& config : configs) check_labels(config);
  std::set<std::string, std::less<>> kept;
  for (ModelConfig& config : configs) {
    kept.insert(config.name);
    ModelEntry& entry = models_[config.name];
    entry.config = std::move(config);
  }
  for (auto row = models_.begin(); row != models_.end();) {
    if (kept.contains(row->first)) {
      ++row;
      continue;
    }
    for (auto& [number, entry] : row->second.versions) {
      if (is_available(entry)) retire(row->first, number, entry);
    }
    row = models_.erase(row);
  }
}

std::vector<ModelConfig> ModelTable::models() const {
  const std::lock_guard lock(mutex_);
  std::vector<ModelConfig> all;
  all.reserve(models_.size());
  for (const auto& [name, entry] : models_) all.push_back(entry.config);
  return all;
}

void ModelTable::set_labels(const std::string& model,
                            std::map<std::string, std::int64_t, std::less<>> labels) {
  const std::lock_guard lock(mutex_);
  const auto found = models_.find(model);
  if (found == models_.end()) throw NotFound("Could not find any versions of model {}", model);
  ModelConfig changed = found->second.config;
  changed.labels = std::move(labels);
  check_labels(changed);
  found->second.config = std::move(changed);
}

bool ModelTable::is_served(std::string_view name, std::int64_t number) const {
  const auto model = models_.find(name);
  if (model == models_.end()) return false;
  const auto entry = model->second.versions.find(number);
  return entry != model->second.versions.end() && is_available(entry->second);
}

// TensorFlow Serving's rule: a label goes to a version that answers, so that no request is sent
// nowhere; with the option, a new label may also be given to one that does not. A model that is
// new has nothing yet that a label could be taken from.
void ModelTable::check_labels(const ModelConfig& config) const {
  const auto model = models_.find(config.name);
  if (model == models_.end()) return;
  const auto& labels = model->second.config.labels;
  for (const auto& [label, number] : config.labels) {
    if (is_served(config.name, number)) continue;
    const auto old = labels.find(label);
    const bool is_same = old != labels.end() && old->second == number;
    const bool is_new = old == labels.end();
    if (is_same || (is_new && options_.allow_labels_for_unavailable)) continue;
    throw FailedPrecondition(
        "Request to assign label to version {} of model {}, which is not currently available for "
        "inference",
        number, config.name);
  }
}

std::int64_t ModelTable::version_of_label(std::string_view model, const std::string& label) const {
  const std::lock_guard lock(mutex_);
  const auto found = models_.find(model);
  return number_of_label(found == models_.end() ? ModelConfig() : found->second.config, label);
}

ModelVersionPtr ModelTable::find(std::string_view model, const VersionChoice& choice,
                                 std::optional<std::uint64_t> draw) const {
  const std::lock_guard lock(mutex_);
  const auto found = models_.find(model);
  std::optional<std::int64_t> number = choice.number;
  if (found != models_.end()) {
    const auto& versions = found->second.versions;
    number = decide_version(found->second.config, choice, answers_of(found->second), draw);
    if (number) {
      const auto entry = versions.find(*number);
      if (entry != versions.end() && is_available(entry->second)) return entry->second.version;
    } else {
      for (auto row = versions.rbegin(); row != versions.rend(); ++row) {
        if (is_available(row->second)) return row->second.version;
      }
    }
  } else if (!choice.label.empty()) {
    number_of_label({}, choice.label);
  }
  if (number) throw NotFound("Servable not found for request: Specific({}, {})", model, *number);
  throw NotFound("Servable not found for request: Latest({})", model);
}

Answers ModelTable::answers_of(const ModelEntry& model) {
  return [&model](std::int64_t number) {
    const auto entry = model.versions.find(number);
    return entry != model.versions.end() && is_available(entry->second);
  };
}

std::map<std::string, std::vector<std::pair<std::int64_t, double>>> ModelTable::shares() const {
  const std::lock_guard lock(mutex_);
  std::map<std::string, std::vector<std::pair<std::int64_t, double>>> all;
  for (const auto& [name, model] : models_) {
    auto shares = shares_of(model.config, answers_of(model));
    if (!shares.empty()) all.emplace(name, std::move(shares));
  }
  return all;
}

std::vector<VersionStatus> ModelTable::status(std::string_view model) const {
  const std::lock_guard lock(mutex_);
  const auto found = models_.find(model);
  if (found == models_.end() || found->second.versions.empty()) {
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

std::vector<ModelVersionPtr> ModelTable::available() const {
  const std::lock_guard lock(mutex_);
  std::vector<ModelVersionPtr> all;
  for (const auto& [name, model] : models_) {
    for (const auto& [number, entry] : model.versions) {
      if (is_available(entry)) all.push_back(entry.version);
    }
  }
  return all;
}

bool ModelTable::ready() const {
  const std::lock_guard lock(mutex_);
  return std::ranges::all_of(models_, [](const auto& row) {
    return std::ranges::any_of(row.second.versions,
                               [](const auto& entry) { return is_available(entry.second); });
  });
}

std::vector<std::string> ModelTable::names() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> names;
  names.reserve(models_.size());
  for (const auto& row : models_) names.push_back(row.first);
  return names;
}

std::optional<Path> ModelTable::base_path_of(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  const auto model = models_.find(name);
  if (model == models_.end()) return std::nullopt;
  return model->second.config.base_path;
}

void ModelTable::note_folder(const std::string& name, const std::string& complaint) {
  const std::lock_guard lock(mutex_);
  const auto model = models_.find(name);
  if (model == models_.end() || model->second.folder_error == complaint) return;
  model->second.folder_error = complaint;
  if (complaint.empty()) {
    log::info("the folder of model {} can be read again", name);
  } else {
    log::warning("model {}: {} Versions that are served stay.", name, complaint);
  }
}

std::vector<std::pair<std::int64_t, VersionEntry>> ModelTable::wanted(
    const std::string& name, const std::map<std::int64_t, Path>& present) {
  const std::lock_guard lock(mutex_);
  const auto model = models_.find(name);
  if (model == models_.end()) return {};
  std::vector<std::pair<std::int64_t, VersionEntry>> entries;
  const auto numbers = wanted_versions(model->second.config.policy, present);
  for (auto number = numbers.rbegin(); number != numbers.rend(); ++number) {
    VersionEntry& entry = model->second.versions[*number];
    entry.dir = present.at(*number);
    entries.emplace_back(*number, entry);
  }
  return entries;
}

bool ModelTable::answers() const {
  const std::lock_guard lock(mutex_);
  return std::ranges::any_of(models_, [](const auto& row) {
    return std::ranges::any_of(row.second.versions,
                               [](const auto& entry) { return is_available(entry.second); });
  });
}

VersionEntry* ModelTable::entry_of(const std::string& name, std::int64_t number) {
  const auto model = models_.find(name);
  if (model == models_.end()) return nullptr;
  const auto entry = model->second.versions.find(number);
  return entry == model->second.versions.end() ? nullptr : &entry->second;
}

void ModelTable::begin_load(const std::string& name, std::int64_t number) {
  const std::lock_guard lock(mutex_);
  VersionEntry* const entry = entry_of(name, number);
  if (entry != nullptr && !is_available(*entry)) {
    entry->state = VersionState::kLoading;
    entry->code = ErrorCode::kOk;
    entry->message.clear();
  }
}

bool ModelTable::publish(const std::string& name, std::int64_t number, ModelVersionPtr version,
                         const std::string& fingerprint) {
  const std::lock_guard lock(mutex_);
  VersionEntry* const entry = entry_of(name, number);
  if (entry == nullptr) return false;
  if (is_available(*entry)) retired_.push_back({name, number, std::move(entry->version)});
  entry->loaded_fingerprint = fingerprint;
  entry->failed_fingerprint.clear();
  entry->logged.clear();
  entry->state = VersionState::kAvailable;
  entry->version = std::move(version);
  entry->failures = 0;
  return true;
}

void ModelTable::note_failure(const std::string& name, std::int64_t number,
                              const Description& failure, const std::string& fingerprint) {
  const std::lock_guard lock(mutex_);
  VersionEntry* const entry = entry_of(name, number);
  if (entry == nullptr) return;
  entry->failed_fingerprint = fingerprint;
  const bool is_told = std::exchange(entry->logged, failure.message) == failure.message;
  if (is_available(*entry)) {
    if (!is_told) {
      log::error(
          "model {} version {}: its files have changed and cannot be loaded: {}; what was "
          "loaded before is served",
          name, number, failure.message);
    }
    return;
  }
  entry->state = VersionState::kEnd;
  entry->code = failure.code;
  entry->message = failure.message;
  entry->retry_at = Clock::now() + options_.load_retry_interval;
  ++entry->failures;
  const bool again = entry->failures <= options_.max_load_retries;
  if (!is_told || entry->failures == options_.max_load_retries + 1) {
    log::error("model {} version {} could not be loaded: {}; {}", name, number, failure.message,
               again ? "it is tried again" : "it is tried again when its files change");
  }
}

void ModelTable::retire_unwanted(const std::string& name,
                                 const std::map<std::int64_t, Path>& present, bool keep_last) {
  const std::lock_guard lock(mutex_);
  const auto model = models_.find(name);
  if (model == models_.end()) return;
  auto& versions = model->second.versions;
  const auto wanted = wanted_versions(model->second.config.policy, present);
  const bool has_wanted = std::ranges::any_of(versions, [&](const auto& row) {
    return wanted.contains(row.first) && is_available(row.second);
  });
  // While none of the wanted ones answers, the newest of the others continues.
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

// Under the mutex.
void ModelTable::retire(const std::string& name, std::int64_t number, VersionEntry& entry) {
  entry.state = VersionState::kUnloading;
  retired_.push_back({name, number, std::move(entry.version)});
  entry.version.reset();
}

void ModelTable::drop_retired() {
  std::vector<Retired> gone;
  {
    const std::lock_guard lock(mutex_);
    const auto end =
        std::stable_partition(retired_.begin(), retired_.end(),
                              [](const Retired& one) { return one.version.use_count() > 1; });
    std::move(end, retired_.end(), std::back_inserter(gone));
    retired_.erase(end, retired_.end());
  }
  for (Retired& one : gone) {
    one.version.reset();
    end_unloading(one.model, one.number);
    log::info("unloaded model={} version={}", one.model, one.number);
  }
}

bool ModelTable::has_retired() const {
  const std::lock_guard lock(mutex_);
  return !retired_.empty();
}

// The same number may have been loaded again meanwhile, and that one continues.
void ModelTable::end_unloading(const std::string& name, std::int64_t number) {
  const std::lock_guard lock(mutex_);
  VersionEntry* const entry = entry_of(name, number);
  if (entry != nullptr && entry->state == VersionState::kUnloading) {
    entry->state = VersionState::kEnd;
  }
}

void ModelTable::forget_old(const std::string& name) {
  const std::lock_guard lock(mutex_);
  const auto model = models_.find(name);
  if (model == models_.end()) return;
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

}  // namespace muster::serving
