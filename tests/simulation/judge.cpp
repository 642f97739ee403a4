#include "tests/simulation/judge.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

#include "muster/base/error.h"
#include "muster/data/checkpoint/checkpoint.h"
#include "muster/data/checkpoint/checkpoint_hash.h"
#include "muster/data/checkpoint/step_log_check.h"

namespace muster::simulation {
namespace {

namespace fs = std::filesystem;

std::string first_temporary_file(const Path& root) {
  std::string first;
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    const std::string path = entry.path().string();
    if (entry.path().filename().string().find(".tmp-") == std::string::npos) continue;
    if (first.empty() || path < first) first = path;
  }
  return first;
}

bool all_finite(const BundleReader& bundle, const std::string& name) {
  const TensorData tensor = bundle.read(name);
  for (std::size_t at = 0; at + sizeof(float) <= tensor.bytes.size(); at += sizeof(float)) {
    float value = 0;
    std::memcpy(&value, tensor.bytes.data() + at, sizeof(value));
    if (!std::isfinite(value)) return false;
  }
  return true;
}

// Looks at the checkpoint of the last step.
std::string look_at_checkpoint(const BundleReader& bundle, const Expected& expected,
                               const std::string& hash) {
  if (!expected.hash.empty() && hash != expected.hash) {
    return fmt::format("the weights have the hash {}, those of one process {}", hash,
                       expected.hash);
  }
  for (const std::string& name : bundle.names()) {
    if (bundle.spec(name).type == DataType::kFloat && !all_finite(bundle, name))
      return fmt::format("{} has values that are no numbers", name);
  }
  return "";
}

// Looks at muster.json of a run whose last checkpoint is of that step.
std::string look_at_notes(const Path& model_dir, std::int64_t step) {
  std::ifstream file(model_dir / "muster.json");
  if (!file) return "";
  const auto notes = nlohmann::json::parse(file);
  if (!notes.contains("run")) return "";
  const auto said = notes["run"]["global_step"].get<std::int64_t>();
  if (notes["run"]["ended"].get<bool>() && said == step) return "";
  return fmt::format("muster.json says that the run is at step {}, and step {} is saved", said,
                     step);
}

// Every step in the logs has the gradients of every replica once, and all logs tell the same.
std::string look_at_step_logs(const Expected& expected) {
  if (expected.step_logs.empty() || expected.may_be_cut_short) return "";
  try {
    check_step_logs(expected.step_logs);
  } catch (const Error& error) {
    return fmt::format("the logs of steps: {}", error.what());
  }
  return "";
}

std::string look_at_steps(const Expected& expected, std::int64_t step) {
  if (step < expected.steps || (expected.ends_at_steps && step != expected.steps)) {
    return fmt::format("the run ended, and step {} is saved of {}", step, expected.steps);
  }
  return "";
}

/// The number that stands after a mark in a line.
std::optional<std::int64_t> number_after(std::string_view line, std::string_view mark) {
  const auto at = line.find(mark);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view rest = line.substr(at + mark.size());
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
  return error == std::errc() ? std::optional(number) : std::nullopt;
}

}  // namespace

Verdict judge_disks(const Expected& expected) {
  const Path model_dir = expected.folder / expected.model_dir;
  const auto latest = latest_checkpoint(model_dir);
  if (!latest) return {.finding = "the run ended, and no checkpoint is saved"};
  const BundleReader bundle(*latest);
  const std::int64_t step = checkpoint_step(*latest).value_or(0);
  Verdict verdict{.hash = checkpoint_hash(bundle)};
  std::string& finding = verdict.finding;
  finding = look_at_steps(expected, step);
  if (finding.empty()) finding = look_at_notes(model_dir, step);
  if (finding.empty()) finding = look_at_checkpoint(bundle, expected, verdict.hash);
  if (finding.empty()) finding = look_at_step_logs(expected);
  if (!finding.empty() || expected.may_be_cut_short) return verdict;
  const std::string left = first_temporary_file(expected.folder);
  if (!left.empty()) finding = "a file was left: " + left;
  return verdict;
}

std::string find_lost_save(std::string_view story) {
  constexpr std::int64_t kNone = -1;
  std::int64_t saved = kNone;
  // The step that was saved when the chief's process started, and whether it has looked for it.
  std::int64_t owed = kNone;
  bool has_restored = false;
  while (!story.empty()) {
    const auto end = std::min(story.find('\n'), story.size());
    const std::string_view line = story.substr(0, end);
    story.remove_prefix(std::min(end + 1, story.size()));
    if (line.find(" chief-0 ") == std::string_view::npos) continue;
    if (line.ends_with(" starts")) {
      owed = saved;
      has_restored = false;
    }
    if (line.find("checkpoint is not whole path=") != std::string_view::npos)
      return fmt::format("a checkpoint is torn: {}", line);
    if (line.find("Restoring parameters from ") != std::string_view::npos) {
      const std::int64_t from = number_after(line, "/model.ckpt-").value_or(kNone);
      if (from < saved)
        return fmt::format("step {} was saved, and the chief begins with step {}", saved, from);
      has_restored = true;
    }
    if (const auto step = number_after(line, "saved checkpoint step=")) {
      if (owed != kNone && !has_restored)
        return fmt::format("step {} was saved, and the chief begins without it", owed);
      saved = std::max(saved, *step);
    }
  }
  return "";
}

}  // namespace muster::simulation
