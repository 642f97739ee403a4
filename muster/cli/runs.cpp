// `muster runs`: what training left of itself in the folders of its models.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/file_system.h"
#include "muster/base/local_time.h"
#include "muster/base/printable.h"
#include "muster/cli/command.h"
#include "muster/cli/repeatable.h"
#include "muster/data/summary/recorded_runs.h"

namespace muster::cli {
namespace {

using nlohmann::json;

constexpr int kDeepest = 4;
constexpr std::size_t kShownCommit = 10;
/// Shown where no metric is asked for, if any run has them.
constexpr const char* kUsualMetrics[] = {"loss", "accuracy", "auc"};

struct RunsFlags {
  std::vector<std::string> folders{};
  std::vector<std::string> metrics{};
  std::string sort{};
  bool reverse = false;
  bool as_json = false;
};

/// One run of a model folder; the record is what training wrote, see docs/formats/model_dir.md.
struct RecordedRun {
  std::string name{};
  json record{};

  std::optional<double> metric(const std::string& key) const {
    const auto metrics = record.find("metrics");
    if (metrics == record.end() || !metrics->is_object()) return std::nullopt;
    const auto found = metrics->find(key);
    if (found == metrics->end() || !found->is_number()) return std::nullopt;
    return found->get<double>();
  }
  std::int64_t number(const char* key) const {
    const auto found = record.find(key);
    return found != record.end() && found->is_number() ? found->get<std::int64_t>() : 0;
  }
  bool ended() const {
    const auto found = record.find("ended");
    return found != record.end() && found->is_boolean() && found->get<bool>();
  }
};

using Runs = std::vector<RecordedRun>;
using TableRow = std::vector<std::string>;

// ------------------------------------------------------------------------------------------
// reading

// The runs of one model folder, oldest first; none if it holds no record.
Runs runs_in(const Path& folder) {
  Runs runs;
  for (const std::string& record : recorded_runs(folder)) {
    runs.push_back({folder.string(), json::parse(record)});
  }
  if (runs.size() < 2) return runs;
  for (std::size_t i = 0; i < runs.size(); ++i) runs[i].name += fmt::format("#{}", i + 1);
  return runs;
}

bool holds_no_model(const std::string& name) {
  return name.starts_with('.') || name.starts_with("eval") || name == "export";
}

// Those of a folder and of the folders inside it.
Runs runs_below(const Path& folder) {
  FileSystem& files = file_system_for(folder);
  const auto status = files.status(folder);
  if (!status) throw NotFound("there is no folder {}", folder.string());
  if (!status->is_directory) throw InvalidArgument("{} is no folder", folder.string());
  Runs runs;
  const auto visit = [&](const auto& self, const Path& place, int depth) -> void {
    const Runs here = runs_in(place);
    runs.insert(runs.end(), here.begin(), here.end());
    if (depth == kDeepest) return;
    for (const std::string& name : files.list(place)) {
      const auto inner = files.status(place / name);
      if (inner && inner->is_directory && !holds_no_model(name)) {
        self(self, place / name, depth + 1);
      }
    }
  };
  visit(visit, folder, 0);
  return runs;
}

// FOLDER is its last run, FOLDER#2 its second.
RecordedRun find_run(const std::string& word) {
  const auto hash = word.rfind('#');
  if (hash == word.npos || file_exists(Path(word) / kNotesFile)) {
    Runs runs = runs_in(word);
    if (runs.empty()) {
      throw NotFound("{} has no record of a run; muster runs list shows where there are some",
                     word);
    }
    return runs.back();
  }
  Runs runs = runs_in(word.substr(0, hash));
  const std::string digits = word.substr(hash + 1);
  const bool is_number = !digits.empty() && digits.size() < 10 &&
                         digits.find_first_not_of("0123456789") == digits.npos;
  const std::size_t number = is_number ? std::stoul(digits) : 0;
  if (number < 1 || number > runs.size()) {
    throw NotFound("{} has {} recorded runs, and no #{}", word.substr(0, hash), runs.size(),
                   digits);
  }
  return runs[number - 1];
}

// ---------------------------------------------------------------------------------------------
// text

std::string time_of_record(std::int64_t nanoseconds) {
  using WallClock = std::chrono::system_clock;
  return local_time(WallClock::time_point(
      std::chrono::duration_cast<WallClock::duration>(std::chrono::nanoseconds(nanoseconds))));
}

std::string value_text(const json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_float()) return fmt::format("{:.6g}", value.get<double>());
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string text_at(const json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() ? std::string() : value_text(*found);
}

std::string commit_of(const RecordedRun& run) {
  const auto git = run.record.find("git");
  if (git == run.record.end() || !git->is_object()) return "-";
  const std::string commit = text_at(*git, "commit").substr(0, kShownCommit);
  return commit.empty() ? "-" : commit;
}

void print_rows(const std::vector<TableRow>& rows) {
  std::vector<std::size_t> widths(rows.front().size());
  for (const TableRow& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  for (const TableRow& row : rows) {
    std::string line;
    for (std::size_t i = 0; i + 1 < row.size(); ++i) {
      line += fmt::format("{:<{}}  ", printable(row[i]), widths[i]);
    }
    line += printable(row.back());
    line.erase(line.find_last_not_of(' ') + 1);
    fmt::print("{}\n", line);
  }
}

void print_json_text(const json& value) {
  fmt::print("{}\n", value.dump(1, ' ', false, json::error_handler_t::replace));
}

// ---------------------------------------------------------------------------------------------
// list

std::set<std::string> metrics_of(const Runs& runs) {
  std::set<std::string> names;
  for (const RecordedRun& run : runs) {
    const auto metrics = run.record.find("metrics");
    if (metrics == run.record.end() || !metrics->is_object()) continue;
    for (const auto& [name, value] : metrics->items()) names.insert(name);
  }
  return names;
}

void require_metric(const std::string& flag, const std::string& name,
                    const std::set<std::string>& known) {
  if (known.contains(name)) return;
  std::string list;
  for (const std::string& other : known) list += (list.empty() ? "" : ", ") + other;
  throw NotFound("{}: no run has a metric {}; there are: {}", flag, name,
                 list.empty() ? "none" : list);
}

std::vector<std::string> columns_for(const RunsFlags& flags, const std::set<std::string>& known) {
  std::vector<std::string> columns = flags.metrics;
  if (columns.empty()) {
    for (const char* name : kUsualMetrics) {
      if (known.contains(name)) columns.emplace_back(name);
    }
  }
  if (!flags.sort.empty() && std::ranges::find(columns, flags.sort) == columns.end()) {
    columns.push_back(flags.sort);
  }
  return columns;
}

// By when they began, or by a metric, those without it last.
void sort_runs(Runs& runs, const RunsFlags& flags) {
  std::ranges::stable_sort(runs, [&](const RecordedRun& a, const RecordedRun& b) {
    if (flags.sort.empty()) {
      const auto first = a.number("began_ns");
      const auto second = b.number("began_ns");
      return flags.reverse ? second < first : first < second;
    }
    const auto first = a.metric(flags.sort);
    const auto second = b.metric(flags.sort);
    if (!first || !second) return first.has_value() && !second;
    return flags.reverse ? *second < *first : *first < *second;
  });
}

void list_runs(const RunsFlags& flags) {
  Runs runs;
  for (const std::string& folder : flags.folders) {
    const Runs found = runs_below(folder);
    runs.insert(runs.end(), found.begin(), found.end());
  }
  const std::set<std::string> known = metrics_of(runs);
  if (!flags.sort.empty()) require_metric("--sort", flags.sort, known);
  for (const std::string& name : flags.metrics) require_metric("--metric", name, known);
  sort_runs(runs, flags);
  if (flags.as_json) {
    json list = json::array();
    for (const RecordedRun& run : runs) {
      list.push_back(run.record);
      list.back()["run"] = run.name;
    }
    return print_json_text(list);
  }
  const std::vector<std::string> columns = columns_for(flags, known);
  std::vector<TableRow> rows{{"RUN", "STARTED", "STATE", "STEP", "COMMIT"}};
  for (const std::string& name : columns) {
    rows[0].push_back(name);
    for (char& c : rows[0].back()) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  }
  for (const RecordedRun& run : runs) {
    TableRow& row = rows.emplace_back();
    row = {run.name, time_of_record(run.number("began_ns")), run.ended() ? "ended" : "unfinished",
           run.ended() ? std::to_string(run.number("global_step")) : "-", commit_of(run)};
    for (const std::string& name : columns) {
      const auto value = run.metric(name);
      row.push_back(value ? fmt::format("{:.6g}", *value) : "-");
    }
  }
  print_rows(rows);
}

// ---------------------------------------------------------------------------------- show and
// compare

using Fields = std::vector<std::pair<std::string, json>>;

void add_arguments(const json& words, Fields& fields) {
  std::size_t position = 0;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string word = value_text(words[i]);
    const auto equals = word.find('=');
    if (!word.starts_with("--")) {
      fields.emplace_back(fmt::format("argument {}", ++position), word);
    } else if (equals != word.npos) {
      fields.emplace_back("argument " + word.substr(0, equals), word.substr(equals + 1));
    } else if (i + 1 < words.size() && !value_text(words[i + 1]).starts_with("--")) {
      fields.emplace_back("argument " + word, value_text(words[++i]));
    } else {
      fields.emplace_back("argument " + word, "given");
    }
  }
}

void add_group(const json& record, const char* key, const char* prefix, Fields& fields) {
  const auto group = record.find(key);
  if (group == record.end() || !group->is_object()) return;
  for (const auto& [name, value] : group->items()) {
    fields.emplace_back(fmt::format("{} {}", prefix, name), value);
  }
}

// Fields by which runs are compared, in the order in which they are shown.
Fields fields_of(const RecordedRun& run) {
  Fields fields;
  const json& record = run.record;
  const auto add = [&](const char* key) {
    if (record.contains(key)) fields.emplace_back(key, record[key]);
  };
  add("program");
  if (record.contains("arguments")) add_arguments(record["arguments"], fields);
  add("working_directory");
  add("host");
  add_group(record, "git", "git", fields);
  add("seed");
  add_group(record, "hparams", "hparam", fields);
  add_group(record, "versions", "version", fields);
  if (record.contains("files")) {
    for (const json& file : record["files"]) {
      if (!file.is_object()) continue;
      const auto modified = file.find("modified_ns");
      const bool has_time = modified != file.end() && modified->is_number_integer();
      fields.emplace_back(
          "file " + text_at(file, "path"),
          fmt::format("{} bytes, {}", text_at(file, "size_bytes"),
                      has_time ? time_of_record(modified->get<std::int64_t>()) : "no time"));
    }
  }
  fields.emplace_back("state", run.ended() ? "ended" : "unfinished");
  if (run.ended()) {
    fields.emplace_back("global_step", run.number("global_step"));
    fields.emplace_back("seconds",
                        static_cast<double>(run.number("ended_ns") - run.number("began_ns")) / 1e9);
  }
  add_group(record, "metrics", "metric", fields);
  return fields;
}

void show_run(const std::string& word, bool as_json) {
  RecordedRun run = find_run(word);
  if (as_json) {
    run.record["run"] = run.name;
    return print_json_text(run.record);
  }
  std::vector<TableRow> rows{{"run", run.name},
                             {"started", time_of_record(run.number("began_ns"))}};
  for (const auto& [name, value] : fields_of(run)) rows.push_back({name, value_text(value)});
  print_rows(rows);
}

std::string difference(const json& first, const json& second) {
  if (!first.is_number() || !second.is_number()) return "";
  return fmt::format("{:+.6g}", second.get<double>() - first.get<double>());
}

void compare_runs(const std::string& first_word, const std::string& second_word, bool as_json) {
  const RecordedRun first = find_run(first_word);
  const RecordedRun second = find_run(second_word);
  const Fields of_first = fields_of(first);
  const Fields of_second = fields_of(second);
  const auto value_in = [](const Fields& fields, const std::string& name) {
    const auto found = std::ranges::find(fields, name, &std::pair<std::string, json>::first);
    return found == fields.end() ? json() : found->second;
  };
  json list = json::array();
  const auto add = [&](const std::string& name) {
    const json a = value_in(of_first, name);
    const json b = value_in(of_second, name);
    if (a != b) list.push_back({{"field", name}, {"first", a}, {"second", b}});
  };
  for (const auto& field : of_first) add(field.first);
  for (const auto& field : of_second) {
    if (value_in(of_first, field.first).is_null()) add(field.first);
  }
  if (as_json) return print_json_text(list);
  if (list.empty()) {
    fmt::print("{} and {} do not differ\n", first.name, second.name);
    return;
  }
  std::vector<TableRow> rows{{"FIELD", first.name, second.name, "DIFFERENCE"}};
  for (const json& row : list) {
    const auto text = [](const json& value) { return value.is_null() ? "-" : value_text(value); };
    rows.push_back({value_text(row["field"]), text(row["first"]), text(row["second"]),
                    difference(row["first"], row["second"])});
  }
  print_rows(rows);
}

void add_json(CLI::App& command, RunsFlags& flags) {
  add_json_flag(command, flags.as_json, "JSON instead of a table");
}

void add_runs_list(CLI::App& command) {
  const auto flags = std::make_shared<RunsFlags>();
  flags->folders = {"."};
  command.add_option("FOLDER", flags->folders, "Where to look, also in folders inside (.)");
  repeatable(command.add_option("--metric", flags->metrics, "Show this one; may be repeated"))
      ->delimiter(',');
  command.add_option("--sort", flags->sort, "By this metric, smallest first (by when they began)");
  command.add_flag("--reverse", flags->reverse, "Reverse the order");
  add_json(command, *flags);
  command.callback([flags] { list_runs(*flags); });
}

void add_runs_show(CLI::App& command) {
  const auto flags = std::make_shared<RunsFlags>();
  command
      .add_option("RUN", flags->folders,
                  "A model folder; FOLDER#2 is its second run, else the last")
      ->required()
      ->expected(1);
  add_json(command, *flags);
  command.callback([flags] { show_run(flags->folders[0], flags->as_json); });
}

void add_runs_compare(CLI::App& command) {
  const auto flags = std::make_shared<RunsFlags>();
  command.add_option("RUN", flags->folders, "Two model folders, or FOLDER#1 FOLDER#2")
      ->required()
      ->expected(2);
  add_json(command, *flags);
  command.callback([flags] { compare_runs(flags->folders[0], flags->folders[1], flags->as_json); });
}

constexpr Command kRunsCommands[] = {
    {"list", "print a table of runs, sorted by a metric", add_runs_list},
    {"show", "print a run's code, data, flags and metrics", add_runs_show},
    {"compare", "print the differences of two runs", add_runs_compare},
};

}  // namespace

void add_runs(CLI::App& command) { add_commands(command, kRunsCommands); }

}  // namespace muster::cli
