#include "muster/checkpoint/checkpoint.h"

#include <algorithm>
#include <charconv>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/checkpoint/bundle_files.h"
#include "muster/checkpoint/checkpoint_state.h"

namespace muster {
namespace {

Path inside(const Path& model_dir, const std::string& stored) {
  const Path path(stored);
  return path.is_absolute() || stored.find("://") != std::string::npos ? path : model_dir / path;
}

bool has_index(const Path& prefix) { return file_exists(bundle_index_path(prefix)); }

// The one that counts first, then those that the list has before it, newest to oldest.
std::vector<Path> candidates(const Path& model_dir, const CheckpointState& state) {
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

std::optional<Path> latest_checkpoint(const Path& model_dir) {
  const auto state = read_checkpoint_state(model_dir);
  if (!state || state->model_checkpoint_path.empty()) return std::nullopt;
  Path prefix = inside(model_dir, state->model_checkpoint_path);
  return has_index(prefix) ? std::optional(std::move(prefix)) : std::nullopt;
}

std::vector<Path> list_checkpoints(const Path& model_dir) {
  std::vector<Path> prefixes;
  const auto state = read_checkpoint_state(model_dir);
  if (!state) return prefixes;
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
  CheckpointPin pin(prefix);
  OpenCheckpoint checkpoint{std::move(pin), BundleReader(prefix), {}};
  checkpoint.bundle.verify();
  const Path state_json = checkpoint_state_json_path(prefix);
  if (file_exists(state_json)) checkpoint.state_json = read_file(state_json);
  return checkpoint;
}

std::optional<OpenCheckpoint> restore_latest(const Path& model_dir) {
  const auto state = read_checkpoint_state(model_dir);
  if (!state || state->model_checkpoint_path.empty()) return std::nullopt;
  std::string failures;
  for (const Path& prefix : candidates(model_dir, *state)) {
    try {
      OpenCheckpoint checkpoint = open_checkpoint(prefix);
      if (!failures.empty())
        log::warning("falling back to an older checkpoint path={}", prefix.string());
      return checkpoint;
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kDataLoss && error.code() != ErrorCode::kNotFound) throw;
      log::warning("checkpoint is not whole path={} error=\"{}\"", prefix.string(), error.what());
      failures += fmt::format("; {}", error.what());
    }
  }
  throw DataLoss("no checkpoint in {} is whole, remove its file 'checkpoint' to start afresh{}",
                 model_dir.string(), failures);
}

}  // namespace muster
