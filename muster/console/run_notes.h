#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "muster/base/file_system.h"

namespace muster::console {

/// File beside the event files of a run in which RunNotes are kept.
inline constexpr const char* kRunNotesFile = "run_notes.json";

/// Remarks of people on a run: all who look at its folder share them.
struct RunNotes {
  /// Shown instead of the folder's name; empty: the folder's name is.
  std::string name{};
  std::vector<std::string> tags{};
  std::string text{};
  /// A pinned run stands before others, an archived one is seen only when it is asked for.
  bool is_pinned = false;
  bool is_archived = false;

  bool operator==(const RunNotes&) const = default;
};

/// A JSON object with the fields `name`, `tags`, `text`, `isPinned` and `isArchived`.
std::string to_json(const RunNotes& notes);
/// Throws InvalidArgument, naming the field, for what is no such object, or too long.
RunNotes run_notes_from_json(std::string_view json);

/// The notes of a run's folder; none where there is no file. Throws InvalidArgument for a damaged
/// file.
RunNotes read_run_notes(const Path& folder);
/// Replaces them in one step; notes without content remove the file.
void write_run_notes(const Path& folder, const RunNotes& notes);

}  // namespace muster::console
