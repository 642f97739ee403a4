#include "muster/data/checkpoint/checkpoint.h"

#include <algorithm>
#include <charconv>

#include "muster/base/crc32c.h"
#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/data/checkpoint/bundle_files.h"
#include "muster/data/checkpoint/checkpoint_state.h"

namespace muster {
namespace {

Path inside(const Path& model_dir, const std::string& stored) {
  const Path path(stored);
  return path.is_absolute() || stored.find("://") != std::string::npos ? path : model_dir / path;
}

bool lies_here(const Path& path) { return path.string().find("://") == std::string::npos; }

// A FIFO or a folder instead of a file would be waited for, or end in an error that names no
// checkpoint.
bool is_regular(const Path& path) {
  const Path local = strip_file_scheme(path);
  if (!lies_here(local)) return file_exists(path);
  std::error_code error;
  return std::filesystem::is_regular_file(local, error);
}

void require_regular(const Path& path) {
  if (file_exists(path) && !is_regular(path)) {
    throw DataLoss("{} is not a regular file", path.string());
  }
}

bool has_index(const Path& prefix) { return is_regular(bundle_index_path(prefix)); }

// The one that counts first, then those that the list has before it, newest to oldest.
std::vector<Path> named_by(const CheckpointState& state, const Path& model_dir) {
  std::vector<Path> prefixes{inside(model_dir, state.model_checkpoint_path)};
  const auto& all = state.all_model_checkpoint_paths;
  auto place = std::find(all.rbegin(), all.rend(), state.model_checkpoint_path);
  // A list that does not have it is older than it.
  if (place == all.rend()) place = all.rbegin();
  for (; place != all.rend(); ++place) {
    if (*place != state.model_checkpoint_path) prefixes.push_back(inside(model_dir, *place));
  }
  return prefixes;
}

/// Checkpoints that a run may resume from, best first.
struct Candidates {
  std::vector<Path> prefixes{};
  /// Whether the state file names the first.
  bool are_named = false;
};

Candidates candidates(const Path& model_dir) {
  Candidates found;
  std::vector<Path> listed;
  const auto state = read_checkpoint_state(model_dir);
  if (state && !state->model_checkpoint_path.empty()) {
    found = {named_by(*state, model_dir), true};
    listed = found.prefixes;
    // Those after the one that counts are listed too: the folder has been set back.
    for (const auto& path : state->all_model_checkpoint_paths) {
      listed.push_back(inside(model_dir, path));
    }
  }
  const std::vector<Path> present = find_checkpoints(model_dir);
  for (auto prefix = present.rbegin(); prefix != present.rend(); ++prefix) {
    if (std::ranges::find(listed, *prefix) == listed.end()) found.prefixes.push_back(*prefix);
  }
  return found;
}

std::string read_state_json(const Path& prefix) {
  const Path path = checkpoint_state_json_path(prefix);
  require_regular(path);
  return file_exists(path) ? read_file(path) : "";
}

void check_state(const OpenCheckpoint& checkpoint) {
  const auto saved = checkpoint.bundle.state_crc();
  if (!saved || mask_crc(crc32c(checkpoint.state_json)) == *saved) return;
  const std::string path = checkpoint_state_json_path(checkpoint.bundle.prefix()).string();
  throw DataLoss("{} {}; put back the one that was saved with the checkpoint", path,
                 checkpoint.state_json.empty() ? "is missing or empty"
                                               : "is damaged, or of another checkpoint");
}

}  // namespace

std::optional<std::int64_t> checkpoint_step(const Path& prefix) {
  const std::string name = prefix.filename().string();
  const auto dash = name.rfind('-');
  if (dash == std::string::npos) return std::nullopt;
  std::int64_t step = 0;
  const char* const end = name.data() + name.size();
  const auto [stopped, error] = std::from_chars(name.data() + dash + 1, end, step);
  if (error != std::errc() || stopped != end || step < 0) return std::nullopt;
  return step;
}

Path checkpoint_state_json_path(const Path& prefix) { return prefix.string() + ".state.json"; }

std::vector<Path> find_checkpoints(const Path& model_dir, std::string_view basename) {
  std::vector<Path> prefixes;
  FileSystem& files = file_system_for(model_dir);
  const auto status = files.status(model_dir);
  if (!status || !status->is_directory) return prefixes;
  for (const std::string& name : files.list(model_dir)) {
    if (!name.ends_with(".index") || !name.starts_with(fmt::format("{}-", basename))) continue;
    Path prefix = model_dir / Path(name).stem();
    if (checkpoint_step(prefix) && has_index(prefix)) prefixes.push_back(std::move(prefix));
  }
  std::ranges::stable_sort(prefixes, {},
                           [](const Path& prefix) { return checkpoint_step(prefix).value_or(-1); });
  return prefixes;
}

std::optional<Path> latest_checkpoint(const Path& model_dir) {
  for (Path& prefix : candidates(model_dir).prefixes) {
    if (has_index(prefix)) return std::move(prefix);
  }
  return std::nullopt;
}

std::vector<Path> list_checkpoints(const Path& model_dir) {
  const auto state = read_checkpoint_state(model_dir);
  if (!state || state->model_checkpoint_path.empty()) return find_checkpoints(model_dir);
  std::vector<Path> prefixes;
  for (const std::string& stored : state->all_model_checkpoint_paths) {
    Path prefix = inside(model_dir, stored);
    if (has_index(prefix)) prefixes.push_back(std::move(prefix));
  }
  return prefixes;
}

Path resolve_checkpoint(const Path& path) {
  if (has_index(path)) return path;
  if (path.extension() == ".index" && file_exists(path)) {
    Path prefix = path;
    return prefix.replace_extension();
  }
  for (const char* inner : {"variables", "variables/variables"}) {
    if (has_index(path / inner)) return path / inner;
  }
  if (auto latest = latest_checkpoint(path)) return *std::move(latest);
  throw NotFound(
      "there is no checkpoint at {}: give a prefix such as DIR/model.ckpt-400, a model_dir with a "
      "file 'checkpoint', or a SavedModel",
      path.string());
}

OpenCheckpoint open_checkpoint(const Path& prefix) {
  require_regular(bundle_index_path(prefix));
  CheckpointPin pin(prefix);
  OpenCheckpoint checkpoint{std::move(pin), BundleReader(prefix), {}};
  const int shards = checkpoint.bundle.num_shards();
  for (int i = 0; i < shards; ++i) require_regular(bundle_data_path(prefix, i, shards));
  checkpoint.bundle.verify();
  checkpoint.state_json = read_state_json(prefix);
  return checkpoint;
}

std::optional<OpenCheckpoint> restore_latest(
    const Path& model_dir, const std::function<void(const OpenCheckpoint&)>& check) {
  const auto [prefixes, are_named] = candidates(model_dir);
  if (prefixes.empty()) return std::nullopt;
  if (!are_named) {
    log::warning(
        "the file 'checkpoint' is missing or names none, but there are checkpoints: going on from "
        "the latest that is whole, not from the beginning path={}",
        model_dir.string());
  }
  std::string failures;
  for (const Path& prefix : prefixes) {
    try {
      OpenCheckpoint checkpoint = open_checkpoint(prefix);
      check_state(checkpoint);
      if (check) check(checkpoint);
      if (!failures.empty())
        log::warning("falling back to another checkpoint path={}", prefix.string());
      return checkpoint;
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kDataLoss && error.code() != ErrorCode::kNotFound) throw;
      log::warning("checkpoint is not whole path={} error=\"{}\"", prefix.string(), error.what());
      failures += fmt::format("; {}", error.what());
    }
  }
  throw DataLoss(
      "no checkpoint in {} is whole; to start afresh, take another folder, or move model.ckpt-* "
      "and "
      "the file 'checkpoint' out of it{}",
      model_dir.string(), failures);
}

}  // namespace muster
