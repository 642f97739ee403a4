#include "muster/data/checkpoint/checkpoint_parts.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/base/object_store.h"
#include "muster/base/wait.h"
#include "muster/data/checkpoint/bundle_files.h"
#include "muster/data/checkpoint/bundle_index_internal.h"

namespace muster {
namespace {

// A writer of checkpoints that begins removes folders of such names.
std::string id_of(const std::string& name) {
  static std::atomic<unsigned> counter{0};
  return fmt::format(".{}.tmp-parts-{}-{}", name, ::getpid(), counter++);
}

bool is_plain(const std::string& name) {
  return !name.empty() && name.find('/') == std::string::npos;
}

}  // namespace

CheckpointParts::CheckpointParts(const Path& model_dir, std::string name,
                                 std::vector<std::string> writers,
                                 std::set<std::string, std::less<>> tensors)
    : model_dir_(model_dir),
      id_(id_of(name)),
      name_(std::move(name)),
      is_in_place_(object_store_for(model_dir) != nullptr),
      writers_(std::move(writers)),
      tensors_(std::move(tensors)),
      written_(writers_.size()) {
  if (!is_in_place_) file_system_for(model_dir_).create_directories(model_dir_ / id_);
}

CheckpointParts::~CheckpointParts() {
  try {
    FileSystem& files = file_system_for(model_dir_);
    if (!is_in_place_) {
      files.remove_all(model_dir_ / id_);
      return;
    }
    // For a checkpoint that is saved again, these files may be its only data.
    if (is_published() || files.status(bundle_index_path(model_dir_ / name_))) return;
    for (int shard = 1; shard < num_shards(); ++shard) files.remove(data_file(shard));
  } catch (const std::exception& error) {
    log::warning("could not clean up parts of a checkpoint path={} error=\"{}\"",
                 (model_dir_ / id_).string(), error.what());
  }
}

PartPlace CheckpointParts::place_of(const Path& model_dir, const std::string& id,
                                    const std::string& name, int shard, int num_shards) {
  if (!is_plain(name) || !is_plain(id) || !id.starts_with(fmt::format(".{}.tmp-parts-", name))) {
    throw InvalidArgument("'{}' and '{}' name no parts of a checkpoint", id, name);
  }
  const bool is_in_place = object_store_for(model_dir) != nullptr;
  return {is_in_place ? model_dir / name : model_dir / id / name, shard, num_shards};
}

Path CheckpointParts::data_file(int shard) const {
  const PartPlace place = place_of(model_dir_, id_, name_, shard, num_shards());
  return bundle_data_path(place.prefix, place.shard, place.num_shards);
}

void CheckpointParts::take(std::string_view writer, std::string index) {
  const auto place = std::ranges::find(writers_, writer);
  if (place == writers_.end()) return;
  {
    const std::lock_guard lock(mutex_);
    written_[static_cast<std::size_t>(place - writers_.begin())] = std::move(index);
  }
  changed_.notify_all();
}

void CheckpointParts::fail(std::string_view writer, const std::string& why) {
  const auto place = std::ranges::find(writers_, writer);
  if (place == writers_.end()) return;
  {
    const std::lock_guard lock(mutex_);
    if (written_[static_cast<std::size_t>(place - writers_.begin())] || !failure_.empty()) return;
    failure_ = fmt::format("{} has not written its part: {}", writer, why);
  }
  changed_.notify_all();
}

void CheckpointParts::fail_all(const std::string& why) {
  for (const std::string& writer : writers_) fail(writer, why);
}

std::optional<std::string> CheckpointParts::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_.empty() ? std::nullopt : std::optional(failure_);
}

void CheckpointParts::wait() const {
  std::unique_lock lock(mutex_);
  const auto missing = [this] {
    return std::ranges::find(written_, false, &std::optional<std::string>::has_value);
  };
  const WaitReason reason = [&] {
    return fmt::format("{}: its part of checkpoint {}",
                       writers_[static_cast<std::size_t>(missing() - written_.begin())], name_);
  };
  // No deadline: fail() ends the wait when a writer is gone.
  muster::wait(changed_, lock, Deadline::never(), reason,
               [&] { return !failure_.empty() || missing() == written_.end(); });
  if (!failure_.empty()) throw Unavailable("{}", failure_);
}

// Checks the size that the writer's index implies against the file that is seen here.
void CheckpointParts::check_file(int shard, const std::string& index) const {
  std::uint64_t end = 0;
  for (const auto& [key, entry] : parse_bundle_index(index).entries) {
    if (entry.slices.empty()) end = std::max(end, entry.offset + entry.size);
  }
  const auto status = file_system_for(model_dir_).status(data_file(shard));
  if (!status || status->size_bytes != end) {
    throw Unavailable("{} of {} is seen with {} of {} bytes", data_file(shard).string(),
                      writers_[static_cast<std::size_t>(shard) - 1],
                      status ? status->size_bytes : 0, end);
  }
}

std::vector<std::string> CheckpointParts::indexes() const {
  wait();
  std::vector<std::string> indexes;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& index : written_) indexes.push_back(*index);
  }
  for (int shard = 1; shard < num_shards(); ++shard) {
    check_file(shard, indexes[static_cast<std::size_t>(shard) - 1]);
  }
  return indexes;
}

void CheckpointParts::publish() {
  if (!is_in_place_) {
    for (int shard = 1; shard < num_shards(); ++shard) {
      file_system_for(model_dir_)
          .rename(data_file(shard), bundle_data_path(model_dir_ / name_, shard, num_shards()));
    }
    file_system_for(model_dir_).remove_all(model_dir_ / id_);
  }
  const std::lock_guard lock(mutex_);
  is_published_ = true;
}

bool CheckpointParts::is_published() const {
  const std::lock_guard lock(mutex_);
  return is_published_;
}

}  // namespace muster
