#include "muster/data/summary/recorded_runs.h"

#include <cstdint>
#include <nlohmann/json.hpp>

#include "muster/base/error.h"
#include "muster/base/file_inside.h"
#include "muster/base/json_depth.h"
#include "muster/base/log.h"

namespace muster {
namespace {

using nlohmann::json;

constexpr std::uint64_t kMostNotesBytes = std::uint64_t{16} << 20;

}  // namespace

std::vector<std::string> recorded_runs(const Path& folder) {
  std::vector<std::string> records;
  const Path path = folder / kNotesFile;
  if (!file_exists(path)) return records;
  const std::string text = read_file_inside(folder, kNotesFile, kMostNotesBytes);
  const json notes = is_json_deeper_than(kMostJsonFileDepth, text)
                         ? json()
                         : json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!notes.is_object()) log::warning("{} is damaged and passed over", path.string());
  const bool has_runs = notes.is_object() && notes.contains("runs") && notes["runs"].is_array();
  if (!has_runs) return records;
  for (const json& record : notes["runs"]) {
    if (record.is_object())
      records.push_back(record.dump(-1, ' ', false, json::error_handler_t::replace));
  }
  return records;
}

}  // namespace muster
