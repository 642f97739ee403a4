#include "muster/train/estimator/run_metadata.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "muster/base/error.h"
#include "muster/base/file_lock.h"
#include "muster/base/log.h"
#include "muster/train/estimator/run_records.h"

namespace muster {
namespace {

using nlohmann::json;

constexpr int kModelNotesVersion = 1;
constexpr std::uint64_t kMaxFileBytes = std::uint64_t{16} << 20;
constexpr const char* kFileName = "muster.json";
constexpr const char* kRuns = "runs";
constexpr std::size_t kMostRuns = 100;

// JSON has no numbers for these.
json json_of(double value) {
  if (std::isfinite(value)) return value;
  if (std::isnan(value)) return "nan";
  return value > 0 ? "inf" : "-inf";
}

double number_of(const json& value) {
  if (!value.is_string()) return value.get<double>();
  const auto& word = value.get_ref<const std::string&>();
  if (word == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (word == "inf") return std::numeric_limits<double>::infinity();
  if (word == "-inf") return -std::numeric_limits<double>::infinity();
  throw DataLoss("'{}' is no number", word);
}

json json_of(const EvaluationResult& result) {
  json metrics = json::object();
  for (const auto& [name, value] : result) metrics[name] = json_of(value);
  return metrics;
}

json json_of(const RunRecord& record) {
  json files = json::array();
  for (const auto& file : record.files) {
    files.push_back(
        {{"path", file.path}, {"size_bytes", file.size_bytes}, {"modified_ns", file.modified_ns}});
  }
  json made{{"began_ns", record.began_ns},   {"program", record.program},
            {"arguments", record.arguments}, {"working_directory", record.working_directory},
            {"host", record.host},           {"seed", record.seed},
            {"versions", record.versions},   {"hparams", record.hparams},
            {"files", std::move(files)},     {"ended", false}};
  if (record.git) {
    made["git"] = {{"repository", record.git->repository.string()},
                   {"commit", record.git->commit},
                   {"branch", record.git->branch}};
  }
  return made;
}

json json_of(const ExportNote& note) {
  json made{{"global_step", note.global_step}, {"metrics", json_of(note.metrics)}};
  if (!note.folder.empty()) made["folder"] = note.folder;
  return made;
}

ExportNote note_of(const json& value) {
  ExportNote note;
  value.at("global_step").get_to(note.global_step);
  for (const auto& [name, number] : value.at("metrics").items()) {
    note.metrics.emplace(name, number_of(number));
  }
  note.folder = value.value("folder", "");
  return note;
}

// Calls what reads `name`; whatever is wrong with its text is DataLoss that names it.
template <typename Read>
auto reading(std::string_view name, Read&& read) {
  try {
    return read();
  } catch (const json::exception& error) {
    throw DataLoss("{} is damaged: {}", name, error.what());
  } catch (Error& error) {
    error.add_context(name);
    throw;
  }
}

void check_version(const json& value) {
  const int version = value.at("version").get<int>();
  if (version != kModelNotesVersion) {
    throw DataLoss("it is of version {}; this muster reads {}", version, kModelNotesVersion);
  }
}

json no_notes() { return {{"version", kModelNotesVersion}}; }

// Nothing for text that is damaged. Throws DataLoss for what a later version wrote.
std::optional<json> parse_notes(const Path& path) {
  if (!file_exists(path)) return no_notes();
  json notes = json::parse(read_file(path, kMaxFileBytes), nullptr, /*allow_exceptions=*/false);
  const bool is_whole =
      notes.is_object() && notes.contains("version") && notes["version"].is_number_integer();
  if (!is_whole) return std::nullopt;
  reading(path.string(), [&] { check_version(notes); });
  return notes;
}

void warn_of_damage(const Path& path, std::string_view why) {
  log::warning("{} is damaged, and what it said is lost: {}", path.string(), why);
}

// Result of `read` on the notes; nothing where they are damaged, so that damage ends no run.
template <typename Read>
auto find_in_notes(const Path& model_dir, Read&& read) -> decltype(read(no_notes())) {
  const Path path = model_dir / kFileName;
  const auto notes = parse_notes(path);
  if (!notes) return std::nullopt;
  try {
    return reading(path.string(), [&] { return read(*notes); });
  } catch (const DataLoss& error) {
    warn_of_damage(path, error.what());
    return std::nullopt;
  }
}

/// A folder that is open while this lives, or nothing where that cannot be.
class OpenFolder {
 public:
  explicit OpenFolder(const Path& folder)
      : descriptor_(::open(strip_file_scheme(folder).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  }
  ~OpenFolder() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  OpenFolder(const OpenFolder&) = delete;
  OpenFolder& operator=(const OpenFolder&) = delete;

  int descriptor() const { return descriptor_; }

 private:
  const int descriptor_;
};

/// Keeps others, also other processes on this host, from changing the notes meanwhile. The folder
/// is locked, since the file is replaced. Where there are no such locks it does nothing.
class NotesLock {
 public:
  explicit NotesLock(const Path& model_dir)
      : folder_(model_dir),
        is_held_(folder_.descriptor() >= 0 && lock_file(folder_.descriptor(), LOCK_EX, model_dir)) {
  }

  bool is_held() const { return is_held_; }

 private:
  const OpenFolder folder_;
  const bool is_held_;
};

// Removes the files of a process that was killed while it wrote the notes: no other writes now.
void remove_unfinished(const Path& model_dir) {
  FileSystem& files = file_system_for(model_dir);
  const std::string beginning = fmt::format(".{}.tmp-", kFileName);
  for (const std::string& name : files.list(model_dir)) {
    if (name.starts_with(beginning)) files.remove(model_dir / name);
  }
}

void set_aside(const Path& path, std::string_view why) {
  const Path aside = path.string() + ".damaged";
  warn_of_damage(path, fmt::format("{}; it is kept as {}", why, aside.string()));
  file_system_for(path).rename(path, aside);
}

json notes_or_none(const Path& path) {
  auto notes = parse_notes(path);
  if (!notes) set_aside(path, "it is no JSON with a version");
  return notes ? std::move(*notes) : no_notes();
}

// Replaces the file by what `change` makes of its content.
template <typename Change>
void change_notes(const Path& model_dir, Change&& change) {
  file_system_for(model_dir).create_directories(model_dir);
  const NotesLock lock(model_dir);
  if (lock.is_held()) remove_unfinished(model_dir);
  const Path path = model_dir / kFileName;
  json notes = notes_or_none(path);
  try {
    change(notes);
  } catch (const json::exception& error) {
    set_aside(path, error.what());
    notes = no_notes();
    change(notes);
  }
  // Arguments of a program may be no UTF-8.
  write_file_atomically(path, notes.dump(1, ' ', false, json::error_handler_t::replace) + "\n");
}

}  // namespace

std::string to_json(const ExportNote& note) {
  json made = json_of(note);
  made["version"] = kModelNotesVersion;
  return made.dump(1);
}

ExportNote parse_export_note(std::string_view text, std::string_view name) {
  return reading(name, [&] {
    const json value = json::parse(text);
    check_version(value);
    return note_of(value);
  });
}

std::optional<ExportNote> read_export_note(const Path& model_dir, const std::string& exporter) {
  return find_in_notes(model_dir, [&](const json& notes) -> std::optional<ExportNote> {
    const auto exporters = notes.find("exporters");
    if (exporters == notes.end() || !exporters->contains(exporter)) return std::nullopt;
    return note_of(exporters->at(exporter));
  });
}

void write_export_note(const Path& model_dir, const std::string& exporter, const ExportNote& note) {
  change_notes(model_dir, [&](json& notes) { notes["exporters"][exporter] = json_of(note); });
}

std::optional<RunNote> read_run_note(const Path& model_dir) {
  return find_in_notes(model_dir, [&](const json& notes) -> std::optional<RunNote> {
    const auto run = notes.find("run");
    if (run == notes.end()) return std::nullopt;
    return RunNote{.began_ns = run->at("began_ns").get<std::int64_t>(),
                   .ended = run->at("ended").get<bool>(),
                   .global_step = run->at("global_step").get<std::int64_t>()};
  });
}

void write_run_note(const Path& model_dir, const RunNote& note) {
  change_notes(model_dir, [&](json& notes) {
    notes["run"] = {
        {"began_ns", note.began_ns}, {"ended", note.ended}, {"global_step", note.global_step}};
  });
}

void add_run_record(const Path& model_dir, const RunRecord& record) {
  change_notes(model_dir, [&](json& notes) {
    json& runs = notes[kRuns];
    runs.push_back(json_of(record));
    while (runs.size() > kMostRuns) runs.erase(runs.begin());
  });
}

void end_run_record(const Path& model_dir, std::int64_t began_ns, std::int64_t global_step) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  change_notes(model_dir, [&](json& notes) {
    for (json& run : notes[kRuns]) {
      if (run.at("began_ns").get<std::int64_t>() != began_ns) continue;
      run["ended"] = true;
      run["ended_ns"] = std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
      run["global_step"] = global_step;
    }
  });
}

void note_run_metrics(const Path& model_dir, const EvaluationResult& metrics) {
  change_notes(model_dir, [&](json& notes) {
    const auto runs = notes.find(kRuns);
    if (runs != notes.end() && !runs->empty()) runs->back()["metrics"] = json_of(metrics);
  });
}

}  // namespace muster
