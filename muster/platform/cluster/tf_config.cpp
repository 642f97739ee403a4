#include "muster/platform/cluster/tf_config.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <initializer_list>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "muster/base/error.h"
#include "muster/platform/cluster/placement_internal.h"

namespace muster {
namespace {

using nlohmann::json;

constexpr std::string_view kTfConfigSource = "TF_CONFIG";
constexpr int kMaxDepth = 32;
constexpr std::int64_t kMaxIndex = std::numeric_limits<std::int32_t>::max();

template <typename... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw UsageError("{}: {}", kTfConfigSource, fmt::format(format, std::forward<Args>(args)...));
}

// A value for a message: not longer than a line, and printable whatever it holds.
std::string shown(const json& value) {
  return internal::shortened(value.dump(-1, ' ', true, json::error_handler_t::replace));
}

json parse_json(std::string_view text) {
  std::string last_key;
  const auto watch = [&](int depth, json::parse_event_t event, json& parsed) {
    if (depth > kMaxDepth) fail("nested deeper than {} levels", kMaxDepth);
    if (event == json::parse_event_t::key) last_key = parsed.get_ref<const std::string&>();
    return true;
  };
  const auto after = [&] {
    return last_key.empty() ? "" : fmt::format(", behind the key {}", shown(json(last_key)));
  };
  try {
    return json::parse(text.begin(), text.end(), watch);
  } catch (const json::parse_error& error) {
    fail("not valid JSON at byte {}{}: {}", error.byte, after(), error.what());
  } catch (const json::out_of_range& error) {
    fail("a number is too large{}: {}", after(), error.what());
  }
}

// ------------------------------------------------------------------ typed access, with the path

const json* find(const json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() ? nullptr : &*found;
}

const json& expect_object(const json& value, std::string_view path) {
  if (!value.is_object()) {
    fail("{} must be a map, but is {}: {}", path, value.type_name(), shown(value));
  }
  return value;
}

std::string expect_string(const json& value, std::string_view path) {
  if (!value.is_string()) {
    fail("{} must be a string, but is {}: {}", path, value.type_name(), shown(value));
  }
  return value.get<std::string>();
}

std::optional<std::string> optional_string(const json& object, const char* key) {
  const json* value = find(object, key);
  if (value == nullptr) return std::nullopt;
  return expect_string(*value, key);
}

std::optional<std::int64_t> to_integer(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// A number or a numeric string: launchers write both.
std::int64_t expect_index(const json& value, std::string_view path) {
  std::optional<std::int64_t> index;
  if (value.is_number_unsigned()) {
    const auto number = value.get<std::uint64_t>();
    if (number <= static_cast<std::uint64_t>(kMaxIndex)) index = static_cast<std::int64_t>(number);
  } else if (value.is_number_integer()) {
    index = value.get<std::int64_t>();
  } else if (value.is_string()) {
    index = to_integer(value.get_ref<const std::string&>());
  }
  if (!index || *index > kMaxIndex) {
    fail("{} must be a whole number up to {}: {}", path, kMaxIndex, shown(value));
  }
  return *index;
}

// How many letters have to be put in, taken out, changed or swapped with their neighbour.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> cost(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        cost[i][j] = i + j;
        continue;
      }
      const bool same = a[i - 1] == b[j - 1];
      cost[i][j] =
          std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1, cost[i - 1][j - 1] + (same ? 0 : 1)});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
    }
  }
  return cost[a.size()][b.size()];
}

// A key that is nearly a known one is a slip, and what it says would be lost.
void fail_for_slip(const std::string& key, std::string_view path,
                   std::initializer_list<std::string_view> known) {
  constexpr std::size_t kLongestKey = 64;
  if (key.size() > kLongestKey) return;
  for (const std::string_view one : known) {
    if (one.size() < 4 || distance(key, one) > 1) continue;
    fail("unknown key {}{}{}; write \"{}\" if that is meant", path, path.empty() ? "" : ".",
         shown(json(key)), one);
  }
}

void warn_unknown_keys(const json& object, std::string_view path,
                       std::initializer_list<std::string_view> known,
                       std::vector<std::string>& warnings) {
  for (const auto& [key, value] : object.items()) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    fail_for_slip(key, path, known);
    warnings.push_back(fmt::format("TF_CONFIG: unknown key {}{}{} is ignored", path,
                                   path.empty() ? "" : ".", shown(json(key))));
  }
}

// ------------------------------------------------------------------------------------- cluster

JobTasks list_tasks(const json& list, const std::string& path) {
  JobTasks tasks;
  for (const json& address : list) {
    const auto index = static_cast<std::int64_t>(tasks.size());
    tasks[index] = expect_string(address, fmt::format("{}[{}]", path, index));
  }
  return tasks;
}

JobTasks mapped_tasks(const json& map, const std::string& path) {
  JobTasks tasks;
  for (const auto& [key, address] : map.items()) {
    const auto index = to_integer(key);
    if (!index || *index < 0 || *index > kMaxIndex) {
      fail("{} maps indices to addresses, and {} is no index", path, shown(json(key)));
    }
    // "1" and "01" are different keys of one map.
    if (!tasks.emplace(*index, expect_string(address, fmt::format("{}[{}]", path, key))).second) {
      fail("{} gives index {} twice", path, *index);
    }
  }
  return tasks;
}

JobTasks tasks_of(const std::string& job, const json& value) {
  const std::string path = "cluster." + job;
  if (value.is_array()) return list_tasks(value, path);
  if (value.is_object()) return mapped_tasks(value, path);
  fail("{} must be a list of addresses or a map from index to address, but is {}: {}", path,
       value.type_name(), shown(value));
}

ClusterSpec cluster_of(const json& config) {
  const json* value = find(config, "cluster");
  if (value == nullptr) return {};
  ClusterSpec::Jobs jobs;
  for (const auto& [job, tasks] : expect_object(*value, "cluster").items()) {
    jobs[job] = tasks_of(job, tasks);
  }
  try {
    return ClusterSpec(std::move(jobs));
  } catch (const InvalidArgument& error) {
    fail("{}", error.message());
  }
}

// ---------------------------------------------------------------------------------------- task

TaskSpec task_in_cluster(const json& task) {
  const json* type = find(task, "type");
  const std::string name = type == nullptr ? "" : expect_string(*type, "task.type");
  if (name.empty()) fail("cluster is set, so task.type must be set");
  if (name == "local") {
    fail(
        "task.type \"local\" does not go with a cluster; leave out both cluster and task to run "
        "alone");
  }
  const json* index = find(task, "index");
  if (index == nullptr) fail("cluster is set, so task.index must be set");
  TaskSpec spec{name, expect_index(*index, "task.index")};
  if (spec.index < 0) fail("task.index must not be negative: {}", spec.index);
  return spec;
}

TaskSpec task_alone(const json& task) {
  TaskSpec spec;
  if (const json* type = find(task, "type")) spec.type = expect_string(*type, "task.type");
  if (const json* index = find(task, "index")) spec.index = expect_index(*index, "task.index");
  if (spec.type == "local") {
    fail("task.type \"local\" is not needed; leave out both cluster and task to run alone");
  }
  if (spec.type != job::kWorker) {
    fail("without a cluster task.type must be \"worker\" (or absent), but is {}",
         internal::in_quotes(spec.type));
  }
  if (spec.index != 0) {
    fail("without a cluster task.index must be 0 (or absent), but is {}", spec.index);
  }
  return spec;
}

void place_in_cluster(TaskEnvironment& environment, const json& config, const json& task) {
  internal::settle_cluster(environment, kTfConfigSource);
  environment.task = task_in_cluster(task);
  internal::settle_task(environment, kTfConfigSource);
  if (environment.is_evaluator()) {
    environment.evaluation_master = optional_string(config, "eval_session_master").value_or("");
  } else if (const auto given = optional_string(config, "session_master")) {
    environment.master = *given;
  }
}

void place_alone(TaskEnvironment& environment, const json& config, const json& task) {
  environment.task = task_alone(task);
  environment.master = optional_string(config, "session_master").value_or("");
}

// -------------------------------------------------------------------------------- other fields

std::optional<std::string> optional_map(const json& config, const char* key) {
  const json* value = find(config, key);
  if (value == nullptr) return std::nullopt;
  return expect_object(*value, key).dump(-1, ' ', false, json::error_handler_t::replace);
}

std::optional<std::string> trial_of(const json& task) {
  const json* trial = find(task, "trial");
  if (trial == nullptr) return std::nullopt;
  if (trial->is_number_integer()) return trial->dump();
  return expect_string(*trial, "task.trial");
}

void read_other_fields(TaskEnvironment& environment, const json& config, const json& task) {
  environment.environment = optional_string(config, "environment").value_or("");
  environment.model_dir = optional_string(config, "model_dir");
  if (environment.model_dir && environment.model_dir->empty()) {
    fail("model_dir must not be empty; leave it out instead");
  }
  environment.service_json = optional_map(config, "service");
  environment.job_json = optional_map(config, "job");
  environment.trial = trial_of(task);
  warn_unknown_keys(config, "",
                    {"cluster", "task", "environment", "model_dir", "session_master",
                     "eval_session_master", "service", "job"},
                    environment.warnings);
  warn_unknown_keys(task, "task", {"type", "index", "trial", "cloud"}, environment.warnings);
}

bool is_blank(std::string_view text) {
  return text.find_first_not_of(" \t\r\n") == std::string_view::npos;
}

json parse_config(std::string_view text) {
  if (text.size() > kMaxTfConfigBytes) {
    fail("longer than {} bytes: {}", kMaxTfConfigBytes, text.size());
  }
  json config = parse_json(text);
  expect_object(config, "the whole");
  return config;
}

json task_of(const json& config) {
  const json* given = find(config, "task");
  return given == nullptr ? json::object() : expect_object(*given, "task");
}

}  // namespace

TaskEnvironment parse_tf_config(std::string_view text) {
  if (is_blank(text)) return {};
  const json config = parse_config(text);
  const json task = task_of(config);

  TaskEnvironment environment;
  environment.source = kTfConfigSource;
  read_other_fields(environment, config, task);
  environment.cluster = cluster_of(config);
  environment.cluster.empty() ? place_alone(environment, config, task)
                              : place_in_cluster(environment, config, task);
  return environment;
}

TfConfigTask read_tf_config_task(std::string_view text) {
  if (is_blank(text)) return {.task = {std::string(job::kMaster), 0}};
  const json config = parse_config(text);
  const json task = task_of(config);
  TfConfigTask read{.cluster = cluster_of(config),
                    .task = {std::string(job::kMaster), 0},
                    .trial = trial_of(task)};
  if (const json* type = find(task, "type")) read.task.type = expect_string(*type, "task.type");
  if (const json* index = find(task, "index")) {
    read.task.index = expect_index(*index, "task.index");
    if (read.task.index < 0) fail("task.index must not be negative: {}", read.task.index);
  }
  return read;
}

}  // namespace muster
