#include "muster/data/checkpoint/checkpoint_store.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <set>

#include "muster/base/crc32c.h"
#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/base/object_store.h"
#include "muster/data/checkpoint/bundle_files.h"
#include "muster/data/checkpoint/bundle_writer.h"
#include "muster/data/checkpoint/checkpoint_pin.h"
#include "muster/data/checkpoint/checkpoint_state.h"

namespace muster {
namespace {

constexpr double kSecondsPerHour = 3600;

/// Which folder a path leads to, whatever it is called; {} where that cannot be told.
using FolderIdentity = std::pair<dev_t, ino_t>;

FolderIdentity identity_of(const Path& folder) {
  struct stat status {};
  if (::stat(strip_file_scheme(folder).c_str(), &status) != 0) return {};
  return {status.st_dev, status.st_ino};
}

double system_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

void check(const CheckpointStoreOptions& options) {
  if (options.keep_checkpoint_max < 0) {
    throw InvalidArgument("keep_checkpoint_max must not be negative: {}",
                          options.keep_checkpoint_max);
  }
  if (!(options.keep_checkpoint_every_n_hours > 0)) {
    throw InvalidArgument("keep_checkpoint_every_n_hours must be positive: {}",
                          options.keep_checkpoint_every_n_hours);
  }
  if (options.basename.empty() || options.basename.find('/') != std::string::npos) {
    throw InvalidArgument("the basename of checkpoints must be a plain file name: '{}'",
                          options.basename);
  }
}

/// A folder beside the checkpoints in which one is written; gone with everything in it at the end.
class Workshop {
 public:
  Workshop(const Path& model_dir, const std::string& name) {
    static std::atomic<unsigned> counter{0};
    folder_ = model_dir / fmt::format(".{}.tmp-{}-{}", name, ::getpid(), counter++);
    file_system_for(folder_).create_directories(folder_);
  }
  ~Workshop() {
    try {
      file_system_for(folder_).remove_all(folder_);
    } catch (const std::exception& error) {
      log::warning("could not clean up path={} error=\"{}\"", folder_.string(), error.what());
    }
  }
  Workshop(const Workshop&) = delete;
  Workshop& operator=(const Workshop&) = delete;

  const Path& folder() const { return folder_; }

 private:
  Path folder_;
};

/// One row of the state file.
struct Kept {
  std::string name;
  double timestamp = 0;
};

void write_synced(const Path& path, std::string_view bytes) {
  const auto file = file_system_for(path).create(path);
  file->write(bytes);
  file->sync();
  file->close();
}

}  // namespace

struct CheckpointStore::Impl {
  Impl(const Path& model_dir_, CheckpointStoreOptions options_)
      : model_dir(model_dir_), options(std::move(options_)), files(file_system_for(model_dir_)) {
    check(options);
    if (!options.now) options.now = system_seconds;
    files.create_directories(model_dir);
    identity = identity_of(model_dir);
    remove_leftovers();
    load_state();
  }

  // Removes the leftovers of a crash: workshops, half-written state files, and files of a
  // checkpoint that has no index, because it was being published or deleted.
  void remove_leftovers() {
    const std::vector<std::string> names = files.list(model_dir);
    const std::set<std::string, std::less<>> present(names.begin(), names.end());
    for (const std::string& name : names) {
      const bool temporary =
          name.starts_with("." + options.basename + "-") || name.starts_with(".checkpoint.");
      if ((temporary && name.find(".tmp-") != std::string::npos) || is_orphan(name, present)) {
        log::info("removing what an interrupted save has left path={}",
                  (model_dir / name).string());
        files.remove_all(model_dir / name);
      }
    }
  }

  bool is_orphan(const std::string& name, const std::set<std::string, std::less<>>& present) const {
    if (!name.starts_with(options.basename + "-")) return false;
    const auto dot = name.find('.', options.basename.size());
    if (dot == std::string::npos || !checkpoint_step(name.substr(0, dot))) return false;
    const std::string_view ending = std::string_view(name).substr(dot);
    return (ending.starts_with(".data-") || ending == ".state.json") &&
           !present.contains(name.substr(0, dot) + ".index");
  }

  void load_state() {
    last_preserved = options.now();
    const auto state = read_checkpoint_state(model_dir);
    if (!state || state->model_checkpoint_path.empty()) return take_what_is_there();
    last_preserved = state->last_preserved_timestamp.value_or(last_preserved);
    const auto& paths = state->all_model_checkpoint_paths;
    const auto& times = state->all_model_checkpoint_timestamps;
    for (std::size_t i = 0; i < paths.size(); ++i) {
      // A folder that was moved may have absolute paths of its old place in it.
      const std::string name = Path(paths[i]).filename().string();
      const auto index = files.status(bundle_index_path(model_dir / name));
      if (!index) continue;
      kept.push_back({name, times.size() == paths.size()
                                ? times[i]
                                : static_cast<double>(index->modified_ns) * 1e-9});
    }
    make_newest(Path(state->model_checkpoint_path).filename().string());
  }

  // Without a state file. Those beyond the maximum may be ones that are kept for ever.
  void take_what_is_there() {
    const std::vector<Path> found = find_checkpoints(model_dir, options.basename);
    const auto most = static_cast<std::size_t>(options.keep_checkpoint_max);
    const std::size_t first = most > 0 && found.size() > most ? found.size() - most : 0;
    for (std::size_t i = first; i < found.size(); ++i) {
      const auto index = files.status(bundle_index_path(found[i]));
      if (!index) continue;
      kept.push_back(
          {found[i].filename().string(), static_cast<double>(index->modified_ns) * 1e-9});
    }
  }

  // The folder may have been set back to an older checkpoint: those after it are then the first to
  // go, and the last to fall back to.
  void make_newest(const std::string& name) {
    const auto place =
        std::find_if(kept.begin(), kept.end(), [&](const Kept& row) { return row.name == name; });
    if (place != kept.end()) std::rotate(kept.begin(), place + 1, kept.end());
  }

  Path save(std::int64_t step, std::span<const TensorView> tensors, std::string_view state_json,
            CheckpointParts* parts) {
    if (step < 0) throw InvalidArgument("the step of a checkpoint must not be negative: {}", step);
    const auto start = std::chrono::steady_clock::now();
    const std::string name = fmt::format("{}-{}", options.basename, step);
    try {
      if (parts != nullptr && parts->name() != name) {
        throw InvalidArgument("parts of {} for the checkpoint {}", parts->name(), name);
      }
      require_same_folder();
      publish(name, tensors, state_json, parts);
      enter(name);
      sweep();
    } catch (Error& error) {
      error.add_context(fmt::format("saving checkpoint {}", (model_dir / name).string()));
      throw;
    }
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    log::info("saved checkpoint step={} path={} seconds={:.1f}", step, (model_dir / name).string(),
              seconds.count());
    return model_dir / name;
  }

  // One that was moved away would be recreated, with a run in it that has no beginning.
  void require_same_folder() const {
    if (identity_of(model_dir) == identity) return;
    throw FailedPrecondition(
        "{} is gone, or another folder than the run began in: move that back, and it goes on",
        model_dir.string());
  }

  int shards_of(const CheckpointParts* parts) const {
    return parts != nullptr ? parts->num_shards() : options.num_shards;
  }

  // The index is written when the others have written theirs.
  void write_bundle(const Path& prefix, std::span<const TensorView> tensors,
                    std::string_view state_json, const CheckpointParts* parts) const {
    BundleWriterOptions bundle{.num_shards = shards_of(parts)};
    if (parts != nullptr) bundle.shard = 0;
    if (!state_json.empty()) bundle.state_crc = mask_crc(crc32c(state_json));
    BundleWriter writer(prefix, bundle);
    for (const TensorView& tensor : tensors) writer.add(tensor);
    if (parts != nullptr) {
      for (const std::string& part : parts->indexes()) writer.merge(part);
    }
    writer.finish();
  }

  // Everything is written and synced under names that no reader looks for; the index, without which
  // there is no checkpoint, is renamed last.
  void publish(const std::string& name, std::span<const TensorView> tensors,
               std::string_view state_json, CheckpointParts* parts) {
    if (object_store_for(model_dir) != nullptr) {
      return publish_objects(name, tensors, state_json, parts);
    }
    const Workshop workshop(model_dir, name);
    const Path prefix = workshop.folder() / name;
    write_bundle(prefix, tensors, state_json, parts);
    if (!state_json.empty()) write_synced(checkpoint_state_json_path(prefix), state_json);
    const Path index = bundle_index_path(prefix).filename();
    std::set<std::string, std::less<>> published = data_files(name, parts);
    if (parts != nullptr) parts->publish();
    for (const std::string& file : files.list(workshop.folder())) {
      published.insert(file);
      if (file != index) files.rename(workshop.folder() / file, model_dir / file);
    }
    files.rename(workshop.folder() / index, model_dir / index);
    remove_files(name, published);
    files.sync_directory(model_dir);
  }

  std::set<std::string, std::less<>> data_files(const std::string& name,
                                                const CheckpointParts* parts) const {
    std::set<std::string, std::less<>> names;
    const int shards = shards_of(parts);
    for (int i = 0; i < shards; ++i) names.insert(bundle_data_path(name, i, shards).string());
    return names;
  }

  // In an object store every file appears whole under its own name, and the index last.
  void publish_objects(const std::string& name, std::span<const TensorView> tensors,
                       std::string_view state_json, CheckpointParts* parts) {
    const Path prefix = model_dir / name;
    std::set<std::string, std::less<>> published = data_files(name, parts);
    published.insert(bundle_index_path(prefix).filename().string());
    if (!state_json.empty()) {
      write_synced(checkpoint_state_json_path(prefix), state_json);
      published.insert(checkpoint_state_json_path(prefix).filename().string());
    }
    write_bundle(prefix, tensors, state_json, parts);
    if (parts != nullptr) parts->publish();
    remove_files(name, published);
  }

  // Puts the checkpoint into the state file as the one that counts.
  void enter(const std::string& name) {
    const std::vector<Kept> before = kept;
    std::erase_if(kept, [&](const Kept& row) { return row.name == name; });
    const bool is_new = kept.size() == before.size();
    kept.push_back({name, options.now()});
    try {
      write_state();
    } catch (...) {
      kept = before;
      if (is_new) remove_files(name);
      throw;
    }
  }

  // The state file is written before and after: a crash in between leaves it naming checkpoints
  // that are gone, which readers pass over, and never the other way round.
  void sweep() {
    if (options.keep_checkpoint_max == 0) return;
    const auto most = static_cast<std::size_t>(options.keep_checkpoint_max);
    std::vector<Kept> remaining;
    std::size_t excess = kept.size() > most ? kept.size() - most : 0;
    const bool changed = excess > 0;
    for (const Kept& row : kept) {
      const bool beyond = excess > 0;
      if (beyond) --excess;
      if (!beyond || !(preserve(row) || remove_checkpoint(row.name))) remaining.push_back(row);
    }
    kept = std::move(remaining);
    if (changed) write_state();
  }

  bool preserve(const Kept& row) {
    const double period = options.keep_checkpoint_every_n_hours * kSecondsPerHour;
    if (row.timestamp <= last_preserved + period) return false;
    last_preserved += period;
    return true;
  }

  // False when the checkpoint stays for now: a reader has pinned it, or the disk refuses. The next
  // save tries again.
  bool remove_checkpoint(const std::string& name) {
    try {
      if (!remove_unless_pinned(model_dir / name)) return false;
      remove_files(name);
      return true;
    } catch (const Error& error) {
      log::warning("could not delete an old checkpoint path={} error=\"{}\"",
                   (model_dir / name).string(), error.what());
      return false;
    }
  }

  // The files of a checkpoint other than those in `except`.
  void remove_files(const std::string& name,
                    const std::set<std::string, std::less<>>& except = {}) {
    for (const std::string& file : files.list(model_dir)) {
      if (file.starts_with(name + ".") && !except.contains(file)) files.remove(model_dir / file);
    }
  }

  void write_state() const {
    CheckpointState state;
    state.model_checkpoint_path = kept.back().name;
    for (const Kept& row : kept) {
      state.all_model_checkpoint_paths.push_back(row.name);
      state.all_model_checkpoint_timestamps.push_back(row.timestamp);
    }
    state.last_preserved_timestamp = last_preserved;
    write_checkpoint_state(model_dir, state);
  }

  Path model_dir;
  CheckpointStoreOptions options;
  FileSystem& files;
  FolderIdentity identity;
  /// Oldest to newest.
  std::vector<Kept> kept;
  double last_preserved = 0;
};

CheckpointStore::CheckpointStore(const Path& model_dir, CheckpointStoreOptions options)
    : impl_(std::make_unique<Impl>(model_dir, std::move(options))) {}
CheckpointStore::~CheckpointStore() = default;
CheckpointStore::CheckpointStore(CheckpointStore&&) noexcept = default;
CheckpointStore& CheckpointStore::operator=(CheckpointStore&&) noexcept = default;

Path CheckpointStore::save(std::int64_t step, std::span<const TensorView> tensors,
                           std::string_view state_json, CheckpointParts* parts) {
  return impl_->save(step, tensors, state_json, parts);
}

const Path& CheckpointStore::model_dir() const { return impl_->model_dir; }

}  // namespace muster
