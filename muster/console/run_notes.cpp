#include "muster/console/run_notes.h"

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "muster/base/error.h"
#include "muster/base/file_inside.h"
#include "muster/base/json_depth.h"

namespace muster::console {
namespace {

using nlohmann::ordered_json;

constexpr std::uint64_t kMostRunNotesBytes = std::uint64_t{1} << 16;
constexpr std::size_t kMostNameBytes = 200;
constexpr std::size_t kMostRunTags = 20;
constexpr std::size_t kMostRunTagBytes = 50;
constexpr std::size_t kMostNoteBytes = 10'000;

std::string text_field(const ordered_json& value, const std::string& field, std::size_t most) {
  if (!value.is_string()) throw InvalidArgument("{} is no text", field);
  auto text = value.get<std::string>();
  if (text.size() > most) throw InvalidArgument("{} has more than {} bytes", field, most);
  return text;
}

std::vector<std::string> tags_field(const ordered_json& value) {
  if (!value.is_array()) throw InvalidArgument("tags is no list of texts");
  if (value.size() > kMostRunTags) throw InvalidArgument("tags has more than {}", kMostRunTags);
  std::vector<std::string> tags;
  tags.reserve(value.size());
  for (const ordered_json& one : value) {
    std::string tag = text_field(one, "a tag", kMostRunTagBytes);
    if (tag.empty()) throw InvalidArgument("a tag is empty");
    if (std::ranges::find(tags, tag) == tags.end()) tags.push_back(std::move(tag));
  }
  return tags;
}

bool flag_field(const ordered_json& value, const std::string& field) {
  if (!value.is_boolean()) throw InvalidArgument("{} is neither true nor false", field);
  return value.get<bool>();
}

}  // namespace

std::string to_json(const RunNotes& notes) {
  const ordered_json json{{"name", notes.name},
                          {"tags", notes.tags},
                          {"text", notes.text},
                          {"isPinned", notes.is_pinned},
                          {"isArchived", notes.is_archived}};
  return json.dump(1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

RunNotes run_notes_from_json(std::string_view text) {
  const auto json = is_json_deeper_than(3, text)
                        ? ordered_json()
                        : ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) throw InvalidArgument("notes of a run are a JSON object");
  RunNotes notes;
  for (const auto& [field, value] : json.items()) {
    if (field == "name") {
      notes.name = text_field(value, field, kMostNameBytes);
    } else if (field == "tags") {
      notes.tags = tags_field(value);
    } else if (field == "text") {
      notes.text = text_field(value, field, kMostNoteBytes);
    } else if (field == "isPinned") {
      notes.is_pinned = flag_field(value, field);
    } else if (field == "isArchived") {
      notes.is_archived = flag_field(value, field);
    } else {
      throw InvalidArgument("notes of a run have no field {}", field.substr(0, kMostNameBytes));
    }
  }
  return notes;
}

RunNotes read_run_notes(const Path& folder) {
  if (!file_exists(folder / kRunNotesFile)) return {};
  try {
    return run_notes_from_json(read_file_inside(folder, kRunNotesFile, kMostRunNotesBytes));
  } catch (Error& error) {
    error.add_context(kRunNotesFile);
    throw;
  }
}

void write_run_notes(const Path& folder, const RunNotes& notes) {
  const Path path = folder / kRunNotesFile;
  if (notes != RunNotes{}) return write_file_atomically(path, to_json(notes));
  if (file_exists(path)) file_system_for(path).remove(path);
}

}  // namespace muster::console
