#include "muster/console/run_index.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/file_inside.h"
#include "muster/base/json_depth.h"
#include "muster/base/log.h"
#include "muster/data/summary/recorded_runs.h"

namespace muster::console {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int kIndexVersion = 1;
constexpr std::uint64_t kMostIndexBytes = std::uint64_t{256} << 20;

// Nothing for what is no regular file.
std::optional<SeenFile> seen_file(const Path& path, std::string name) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
  return SeenFile{.name = std::move(name),
                  .bytes = static_cast<std::uint64_t>(status.st_size),
                  .modified_ns = static_cast<std::int64_t>(status.st_mtim.tv_sec) * 1'000'000'000 +
                                 status.st_mtim.tv_nsec};
}

void add_event_files(const Path& folder, const std::string& prefix, std::vector<SeenFile>& out) {
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (name.starts_with('.') || name.find("tfevents.") == name.npos) continue;
    if (auto file = seen_file(it->path(), prefix + name)) out.push_back(std::move(*file));
  }
}

json json_of_run(const std::string& folder, const IndexedRun& run, std::size_t tags) {
  json files = json::array();
  for (const SeenFile& file : run.files) {
    files.push_back(json::array({file.name, file.bytes, file.modified_ns}));
  }
  const RunSummary& summary = run.summary;
  json out{{"folder", folder},         {"files", std::move(files)}, {"tags", tags},
           {"points", summary.points}, {"step", summary.last_step}, {"first", summary.first_time},
           {"last", summary.last_time}};
  if (summary.has_media) out["media"] = true;
  if (!summary.problem.empty()) out["problem"] = summary.problem;
  if (!summary.record.empty()) out["record"] = json::parse(summary.record);
  if (summary.notes != RunNotes{}) out["notes"] = json::parse(to_json(summary.notes));
  return out;
}

/// Reads the lines of an index: the first one has the version and the lists of tags.
class IndexReader {
 public:
  explicit IndexReader(RunTagSets& sets) : sets_(sets) {}

  // Throws what JSON throws for a line that is no such line.
  void read_head(const std::string& line) {
    const json head = parsed_line(line);
    if (head.at("version") != kIndexVersion) throw InvalidArgument("it is of another version");
    for (const json& one : head.at("tagSets")) {
      tags_.push_back(sets_.shared(
          {.training = one.at("training").get<std::vector<std::string>>(),
           .evaluations =
               one.at("evaluations").get<std::map<std::string, std::vector<std::string>>>()}));
    }
  }

  std::pair<std::string, IndexedRun> read_run(const std::string& line) const {
    const json from = parsed_line(line);
    IndexedRun run;
    RunSummary& summary = run.summary;
    for (const json& file : from.at("files")) {
      run.files.push_back({.name = file.at(0).get<std::string>(),
                           .bytes = file.at(1).get<std::uint64_t>(),
                           .modified_ns = file.at(2).get<std::int64_t>()});
    }
    summary.tags = tags_.at(from.at("tags").get<std::size_t>());
    summary.points = from.at("points").get<std::uint64_t>();
    summary.last_step = from.at("step").get<std::int64_t>();
    summary.first_time = from.at("first").get<double>();
    summary.last_time = from.at("last").get<double>();
    summary.has_media = from.value("media", false);
    summary.problem = from.value("problem", "");
    if (from.contains("record") && from["record"].is_object()) {
      summary.record = from["record"].dump();
    }
    if (from.contains("notes")) summary.notes = run_notes_from_json(from["notes"].dump());
    return {from.at("folder").get<std::string>(), std::move(run)};
  }

 private:
  static json parsed_line(const std::string& line) {
    if (is_json_deeper_than(kMostJsonFileDepth, line)) throw InvalidArgument("it is nested deeply");
    return json::parse(line);
  }

  RunTagSets& sets_;
  std::vector<std::shared_ptr<const RunTags>> tags_;
};

std::map<std::string, IndexedRun> runs_in(const std::string& text, RunTagSets& sets) {
  std::map<std::string, IndexedRun> runs;
  IndexReader reader(sets);
  bool is_head = true;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    at = end + 1;
    if (std::exchange(is_head, false)) {
      reader.read_head(line);
      continue;
    }
    try {
      runs.insert(reader.read_run(line));
    } catch (const std::exception&) {
      // The run is read as if it were not in the index.
      continue;
    }
  }
  return runs;
}

}  // namespace

std::vector<SeenFile> files_of(const Path& run, const std::vector<std::string>& evaluations) {
  std::vector<SeenFile> files;
  add_event_files(run, "", files);
  for (const std::string& name : evaluations) add_event_files(run / name, name + "/", files);
  for (const char* name : {kNotesFile, kRunNotesFile}) {
    if (auto file = seen_file(run / name, name)) files.push_back(std::move(*file));
  }
  std::ranges::sort(files, {}, &SeenFile::name);
  return files;
}

std::shared_ptr<const RunTags> RunTagSets::shared(RunTags tags) {
  const std::lock_guard lock(mutex_);
  const auto known = sets_.find(tags);
  if (known != sets_.end()) return known->second;
  // A run that grows has other tags than before: those that none has any more go.
  if (sets_.size() >= most_) {
    std::erase_if(sets_, [](const auto& entry) { return entry.second.use_count() == 1; });
    most_ = std::max(most_, 2 * sets_.size());
  }
  auto made = std::make_shared<const RunTags>(tags);
  sets_.emplace(std::move(tags), made);
  return made;
}

std::map<std::string, IndexedRun> read_run_index(const Path& root, RunTagSets& sets) {
  if (!file_exists(root / kRunIndexFile)) return {};
  try {
    return runs_in(read_file_inside(root, kRunIndexFile, kMostIndexBytes), sets);
  } catch (const std::exception& error) {
    log::warning("{} is ignored, and will be replaced: {}", (root / kRunIndexFile).string(),
                 error.what());
    return {};
  }
}

void write_run_index(const Path& root, const std::map<std::string, IndexedRun>& runs) {
  std::map<const RunTags*, std::size_t> places;
  json sets = json::array();
  for (const auto& [folder, run] : runs) {
    const RunTags* const tags = run.summary.tags.get();
    if (!places.emplace(tags, sets.size()).second) continue;
    sets.push_back({{"training", tags->training}, {"evaluations", tags->evaluations}});
  }
  const auto line_of = [](const json& value) {
    return value.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
  };
  std::string text = line_of({{"version", kIndexVersion}, {"tagSets", std::move(sets)}});
  for (const auto& [folder, run] : runs) {
    text += line_of(json_of_run(folder, run, places.at(run.summary.tags.get())));
  }
  write_file_atomically(root / kRunIndexFile, text, /*durable=*/false);
}

}  // namespace muster::console
