#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "muster/base/file_system.h"
#include "muster/console/run_notes.h"

namespace muster::console {

/// Names of the scalars of a run.
struct RunTags {
  std::vector<std::string> training{};
  /// Those of its evaluations, by name: "eval", "eval_census", "machine.worker_0".
  std::map<std::string, std::vector<std::string>> evaluations{};

  auto operator<=>(const RunTags&) const = default;
};

/// A run as pages list it.
struct RunSummary {
  /// Its folder below the one that was given, with the name of that before it if several were.
  std::string id{};
  Path folder{};
  /// Fields of the last record in muster.json that lists show, a JSON object; empty if there is
  /// none.
  std::string record{};
  /// Whether its event files have been read: what follows is known then.
  bool is_read = false;
  std::uint64_t points = 0;
  std::int64_t last_step = 0;
  double first_time = 0;
  double last_time = 0;
  /// Shared by runs that have the same.
  std::shared_ptr<const RunTags> tags = std::make_shared<const RunTags>();
  /// Whether there are images, histograms, texts or graphs.
  bool has_media = false;
  RunNotes notes{};
  std::string problem{};
};

/// The fields of a record in muster.json, a JSON object, that lists show; empty for what is none.
std::string listed_fields(const std::string& record);

}  // namespace muster::console
