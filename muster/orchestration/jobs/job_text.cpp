#include "muster/orchestration/jobs/job_text.h"

#include <fmt/format.h>

#include <charconv>
#include <nlohmann/json.hpp>
#include <set>

#include "muster/base/error.h"
#include "muster/base/json_depth.h"
#include "muster/base/suggestion.h"
#include "muster/orchestration/jobs/yaml_internal.h"

namespace muster::jobs {
namespace {

using nlohmann::ordered_json;

constexpr std::int64_t kMostPriority = 1000;
constexpr std::int64_t kMostDurationSeconds = std::int64_t{1} << 40;

struct RoleName {
  const char* name;
  RoleInput TrainingInput::*role;
};

constexpr RoleName kRoles[] = {{"master", &TrainingInput::master},
                               {"worker", &TrainingInput::worker},
                               {"parameterServer", &TrainingInput::parameter_server},
                               {"evaluator", &TrainingInput::evaluator}};

// ----------------------------------------------------------------------------------- to JSON

std::string dumped(const ordered_json& json, int indent) {
  return json.dump(indent, ' ', false, ordered_json::error_handler_t::replace);
}

void put_if(ordered_json& json, const std::string& key, const std::string& text) {
  if (!text.empty()) json[key] = text;
}

void put_role(ordered_json& json, const std::string& name, const RoleInput& role) {
  put_if(json, name + "Type", role.machine_type);
  // int64 fields are texts in the API's JSON.
  if (role.count) json[name + "Count"] = std::to_string(*role.count);
  if (role.accelerator.count > 0) {
    json[name + "Config"]["acceleratorConfig"] = {{"count", std::to_string(role.accelerator.count)},
                                                  {"type", role.accelerator.type}};
  }
}

ordered_json scheduling_of(const TrainingInput& input) {
  ordered_json json = ordered_json::object();
  if (input.max_running_time) {
    json["maxRunningTime"] = fmt::format("{}s", input.max_running_time->count());
  }
  if (input.max_wait_time) json["maxWaitTime"] = fmt::format("{}s", input.max_wait_time->count());
  if (input.priority != 0) json["priority"] = input.priority;
  return json;
}

ordered_json json_of(const TrainingInput& input) {
  ordered_json json = ordered_json::object();
  put_if(json, "scaleTier", input.scale_tier);
  for (const RoleName& role : kRoles) put_role(json, role.name, input.*role.role);
  put_if(json, "pythonModule", input.module_name);
  if (!input.args.empty()) json["args"] = input.args;
  put_if(json, "jobDir", input.job_dir);
  if (input.use_chief) json["useChiefInTfConfig"] = true;
  if (const auto scheduling = scheduling_of(input); !scheduling.empty()) {
    json["scheduling"] = scheduling;
  }
  const auto cloud = ordered_json::parse(input.cloud_fields);
  if (!cloud.empty()) json["cloudFields"] = cloud;
  return json;
}

ordered_json json_of(const PredictionInput& input) {
  ordered_json json = ordered_json::object();
  put_if(json, "modelName", input.model_name);
  put_if(json, "versionName", input.version_name);
  json["uri"] = input.uri;
  json["dataFormat"] = input.data_format;
  put_if(json, "outputDataFormat", input.output_data_format);
  json["inputPaths"] = input.input_paths;
  json["outputPath"] = input.output_path;
  put_if(json, "region", input.region);
  put_if(json, "runtimeVersion", input.runtime_version);
  put_if(json, "signatureName", input.signature_name);
  json["maxWorkerCount"] = std::to_string(input.max_worker_count);
  json["batchSize"] = std::to_string(input.batch_size);
  return json;
}

ordered_json json_of(const LocalRun& run) {
  ordered_json json{{"command", run.command},
                    {"workingDirectory", run.working_directory.string()},
                    {"single", run.is_single},
                    {"chief", run.chief},
                    {"workers", run.workers},
                    {"ps", run.ps},
                    {"evaluators", run.evaluators},
                    {"gpusPerMaster", run.master_gpus},
                    {"gpusPerWorker", run.worker_gpus},
                    {"gpusPerEvaluator", run.evaluator_gpus},
                    {"cpus", run.needs.cpus},
                    {"memoryGb", run.needs.memory_gb},
                    {"gpuCount", run.needs.gpus},
                    {"gpus", run.gpus},
                    {"mostRestarts", run.most_restarts},
                    {"graceMs", run.grace.count()},
                    {"logBytes", run.log_bytes},
                    {"attempts", run.attempts},
                    {"retries", run.retries}};
  put_if(json, "programFrom", run.program_from.string());
  if (!run.notices.empty()) json["notify"] = run.notices;
  if (run.exit_status) json["exitStatus"] = *run.exit_status;
  return json;
}

ordered_json json_of(const Job& job) {
  ordered_json json{{"jobId", job.job_id},
                    {"state", name_of(job.state)},
                    {"createTime", to_text(job.create_time)}};
  if (job.start_time) json["startTime"] = to_text(*job.start_time);
  if (job.end_time) json["endTime"] = to_text(*job.end_time);
  if (job.back_end != kLocalBackEnd) json["backEnd"] = job.back_end;
  put_if(json, "errorMessage", job.error_message);
  if (!job.labels.empty()) json["labels"] = job.labels;
  if (job.prediction_input) {
    json["predictionInput"] = json_of(*job.prediction_input);
  } else {
    json["trainingInput"] = json_of(job.training_input);
  }
  json["local"] = json_of(job.local);
  if (const auto block = ordered_json::parse(job.block); !block.empty()) json[job.back_end] = block;
  return json;
}

// --------------------------------------------------------------------------------- from JSON

std::optional<Time> time_of(const ordered_json& json, const char* key) {
  const auto found = json.find(key);
  if (found == json.end()) return std::nullopt;
  return parse_time(found->get_ref<const std::string&>());
}

std::int64_t int64_of(const ordered_json& text) {
  return std::stoll(text.get_ref<const std::string&>());
}

RoleInput role_from(const ordered_json& json, const std::string& name) {
  RoleInput role;
  role.machine_type = json.value(name + "Type", "");
  if (const auto count = json.find(name + "Count"); count != json.end()) {
    role.count = int64_of(*count);
  }
  if (const auto config = json.find(name + "Config"); config != json.end()) {
    const auto& accelerator = config->at("acceleratorConfig");
    role.accelerator = {.type = accelerator.at("type"), .count = int64_of(accelerator.at("count"))};
  }
  return role;
}

TrainingInput input_from(const ordered_json& json) {
  TrainingInput input;
  input.scale_tier = json.value("scaleTier", "");
  for (const RoleName& role : kRoles) input.*role.role = role_from(json, role.name);
  input.module_name = json.value("pythonModule", "");
  input.args = json.value("args", std::vector<std::string>());
  input.job_dir = json.value("jobDir", "");
  input.use_chief = json.value("useChiefInTfConfig", false);
  if (const auto found = json.find("scheduling"); found != json.end()) {
    if (found->contains("maxRunningTime")) {
      input.max_running_time = parse_duration(found->at("maxRunningTime").get<std::string>());
    }
    if (found->contains("maxWaitTime")) {
      input.max_wait_time = parse_duration(found->at("maxWaitTime").get<std::string>());
    }
    input.priority = found->value("priority", std::int64_t{0});
  }
  if (const auto cloud = json.find("cloudFields"); cloud != json.end()) {
    input.cloud_fields = dumped(*cloud, -1);
  }
  return input;
}

PredictionInput prediction_from(const ordered_json& json) {
  PredictionInput input;
  input.model_name = json.value("modelName", "");
  input.version_name = json.value("versionName", "");
  input.uri = json.at("uri");
  input.data_format = json.at("dataFormat");
  input.output_data_format = json.value("outputDataFormat", "");
  input.input_paths = json.at("inputPaths").get<std::vector<std::string>>();
  input.output_path = json.at("outputPath");
  input.region = json.value("region", "");
  input.runtime_version = json.value("runtimeVersion", "");
  input.signature_name = json.value("signatureName", "");
  input.max_worker_count = int64_of(json.at("maxWorkerCount"));
  input.batch_size = int64_of(json.at("batchSize"));
  return input;
}

LocalRun run_from(const ordered_json& json) {
  LocalRun run;
  run.command = json.at("command").get<std::vector<std::string>>();
  run.working_directory = json.at("workingDirectory").get<std::string>();
  run.is_single = json.at("single");
  run.chief = json.at("chief");
  run.workers = json.at("workers");
  run.ps = json.at("ps");
  run.evaluators = json.at("evaluators");
  run.master_gpus = json.at("gpusPerMaster");
  run.worker_gpus = json.at("gpusPerWorker");
  run.evaluator_gpus = json.at("gpusPerEvaluator");
  run.needs = {
      .cpus = json.at("cpus"), .memory_gb = json.at("memoryGb"), .gpus = json.at("gpuCount")};
  run.gpus = json.at("gpus").get<std::vector<std::string>>();
  run.most_restarts = json.at("mostRestarts");
  run.grace = std::chrono::milliseconds(json.at("graceMs").get<std::int64_t>());
  run.log_bytes = json.at("logBytes");
  run.attempts = json.at("attempts");
  run.retries = json.at("retries");
  run.program_from = json.value("programFrom", "");
  run.notices = json.value("notify", std::vector<std::string>());
  if (const auto status = json.find("exitStatus"); status != json.end()) {
    run.exit_status = status->get<int>();
  }
  return run;
}

// ------------------------------------------------------------------ a file for Cloud ML Engine

// A value as JSON, for fields that are only kept.
ordered_json json_of(const YamlValue& value) {
  switch (value.kind) {
    case YamlValue::Kind::kNull:
      return nullptr;
    case YamlValue::Kind::kScalar: {
      if (value.is_quoted) return value.text;
      const auto json = ordered_json::parse(value.text, nullptr, /*allow_exceptions=*/false);
      return json.is_number() || json.is_boolean() ? json : ordered_json(value.text);
    }
    case YamlValue::Kind::kList: {
      ordered_json list = ordered_json::array();
      for (const YamlValue& item : value.items) list.push_back(json_of(item));
      return list;
    }
    case YamlValue::Kind::kMap: {
      ordered_json map = ordered_json::object();
      for (const auto& [key, item] : value.entries) map[key] = json_of(item);
      return map;
    }
  }
  return nullptr;
}

class JobFileReader {
 public:
  explicit JobFileReader(Submission& submission)
      : submission_(submission), input_(submission.job.training_input) {}

  void read(const YamlValue& file) {
    for (const auto& [key, value] : file.map("a job")) {
      if (key == "jobId") {
        submission_.job.job_id = value.string(key);
      } else if (key == "labels") {
        for (const auto& [label, text] : value.map(key)) {
          submission_.job.labels[label] = text.string("labels." + label);
        }
      } else if (key == "trainingInput") {
        read_input(value);
      } else if (kOutputFields.contains(key)) {
        warn(value, key, "is written by muster and not read");
      } else if (key == "predictionInput") {
        throw InvalidArgument("{}: a job with a predictionInput is not for `submit training`",
                              value.place);
      } else {
        refuse_unknown(value, key, {"jobId", "labels", "trainingInput"});
      }
      submission_.origins.emplace(key, value.place);
    }
  }

 private:
  void read_input(const YamlValue& given) {
    ordered_json cloud = ordered_json::object();
    for (const auto& [key, value] : given.map("trainingInput")) {
      submission_.origins[key] = value.place;
      if (read_role(key, value) || read_own(key, value)) continue;
      if (!kCloudFields.contains(key)) {
        std::vector<std::string> known(kOwnFields.begin(), kOwnFields.end());
        known.insert(known.end(), kCloudFields.begin(), kCloudFields.end());
        refuse_unknown(value, "trainingInput." + key, known, key);
      }
      cloud[key] = json_of(value);
      // The submitting command knows whether they make the job a study.
      if (key == "hyperparameters") continue;
      warn(value, "trainingInput." + key, "has no meaning on this host and is only kept");
    }
    input_.cloud_fields = dumped(cloud, -1);
  }

  bool read_role(const std::string& key, const YamlValue& value) {
    for (const RoleName& role : kRoles) {
      RoleInput& into = input_.*role.role;
      const std::string name = role.name;
      if (key == name + "Type") {
        into.machine_type = value.string(key);
      } else if (key == name + "Count" && name != "master") {
        into.count = value.integer(key);
      } else if (key == name + "Config") {
        read_config(key, value, into);
      } else {
        continue;
      }
      return true;
    }
    return false;
  }

  void read_config(const std::string& name, const YamlValue& config, RoleInput& into) {
    static const std::set<std::string> kIgnored{"imageUri", "containerCommand", "containerArgs",
                                                "diskConfig", "tpuTfVersion"};
    for (const auto& [key, value] : config.map(name)) {
      const std::string full = name + "." + key;
      if (kIgnored.contains(key)) {
        warn(value, full, "has no meaning on this host");
      } else if (key == "acceleratorConfig") {
        for (const auto& [part, field] : value.map(full)) {
          if (part == "type") {
            into.accelerator.type = field.string(full + ".type");
          } else if (part == "count") {
            into.accelerator.count = field.integer(full + ".count");
          } else {
            refuse_unknown(field, full + "." + part, {"type", "count"}, part);
          }
        }
        if (into.accelerator.type.empty() || into.accelerator.count <= 0) {
          throw InvalidArgument("{}: {} needs a type and a count above 0", value.place, full);
        }
      } else {
        refuse_unknown(value, full, {"acceleratorConfig", "imageUri", "diskConfig"}, key);
      }
    }
  }

  bool read_own(const std::string& key, const YamlValue& value) {
    if (key == "scaleTier") {
      input_.scale_tier = normalized_tier(value.string(key));
    } else if (key == "pythonModule") {
      input_.module_name = value.string(key);
    } else if (key == "args") {
      for (const YamlValue& word : value.list(key)) input_.args.push_back(word.string("args"));
    } else if (key == "jobDir") {
      input_.job_dir = value.string(key);
    } else if (key == "useChiefInTfConfig") {
      input_.use_chief = value.boolean(key);
    } else if (key == "scheduling") {
      read_scheduling(value);
    } else {
      return false;
    }
    return true;
  }

  void read_scheduling(const YamlValue& given) {
    const auto duration = [](const YamlValue& value, const std::string& name) {
      try {
        return parse_duration(value.string(name));
      } catch (Error& error) {
        error.add_context(fmt::format("{}: {}", value.place, name));
        throw;
      }
    };
    for (const auto& [key, value] : given.map("scheduling")) {
      const std::string full = "scheduling." + key;
      if (key == "maxRunningTime") {
        input_.max_running_time = duration(value, full);
      } else if (key == "maxWaitTime") {
        input_.max_wait_time = duration(value, full);
      } else if (key == "priority") {
        input_.priority = value.integer(full);
        if (input_.priority < 0 || input_.priority > kMostPriority) {
          throw InvalidArgument("{}: {} must be from 0 to {}: {}", value.place, full, kMostPriority,
                                input_.priority);
        }
      } else if (key == "strategy" || key == "resilientToWorkerRestart") {
        warn(value, full, "has no meaning on this host");
      } else {
        refuse_unknown(value, full, {"maxRunningTime", "maxWaitTime", "priority"}, key);
      }
    }
  }

  void warn(const YamlValue& value, const std::string& field, const char* what) {
    submission_.warnings.push_back(fmt::format("{}: {} {}", value.place, field, what));
  }

  [[noreturn]] static void refuse_unknown(const YamlValue& value, const std::string& field,
                                          const std::vector<std::string>& known,
                                          std::string_view last = {}) {
    throw InvalidArgument("{}: there is no field {}{}", value.place, field,
                          did_you_mean(last.empty() ? std::string_view(field) : last, known));
  }

  inline static const std::set<std::string> kOutputFields{
      "state",          "createTime",       "startTime",   "endTime", "errorMessage",
      "trainingOutput", "predictionOutput", "jobPosition", "etag"};
  inline static const std::set<std::string> kOwnFields{"scaleTier",
                                                       "masterType",
                                                       "workerType",
                                                       "workerCount",
                                                       "evaluatorType",
                                                       "parameterServerType",
                                                       "parameterServerCount",
                                                       "evaluatorCount",
                                                       "masterConfig",
                                                       "workerConfig",
                                                       "parameterServerConfig",
                                                       "evaluatorConfig",
                                                       "pythonModule",
                                                       "args",
                                                       "jobDir",
                                                       "useChiefInTfConfig",
                                                       "scheduling"};
  inline static const std::set<std::string> kCloudFields{
      "region",  "runtimeVersion", "pythonVersion",   "packageUris",      "hyperparameters",
      "network", "serviceAccount", "enableWebAccess", "encryptionConfig", "nasJobSpec"};

  Submission& submission_;
  TrainingInput& input_;
};

}  // namespace

std::string to_json(const Job& job) { return dumped(json_of(job), 2) + "\n"; }

Job job_from_json(std::string_view text) {
  if (is_json_deeper_than(kMostJsonFileDepth, text)) {
    throw DataLoss("no job: its JSON is nested deeper than {}", kMostJsonFileDepth);
  }
  try {
    const auto json = ordered_json::parse(text);
    Job job;
    job.job_id = json.at("jobId");
    job.state = parse_state(json.at("state").get<std::string>());
    job.create_time = parse_time(json.at("createTime").get<std::string>());
    job.start_time = time_of(json, "startTime");
    job.end_time = time_of(json, "endTime");
    job.back_end = json.value("backEnd", kLocalBackEnd);
    job.error_message = json.value("errorMessage", "");
    job.labels = json.value("labels", std::map<std::string, std::string>());
    if (const auto input = json.find("predictionInput"); input != json.end()) {
      job.prediction_input = prediction_from(*input);
    } else {
      job.training_input = input_from(json.at("trainingInput"));
    }
    job.local = run_from(json.at("local"));
    if (const auto block = json.find(job.back_end);
        block != json.end() && job.back_end != kLocalBackEnd) {
      if (!block->is_object()) throw DataLoss("the field {} is no object", job.back_end);
      job.block = dumped(*block, -1);
    }
    return job;
  } catch (const std::exception& error) {
    // nlohmann's and std::stoll's, and ours of times and states.
    throw DataLoss("no job: {}", error.what());
  }
}

std::string to_yaml(const Job& job, std::string_view training_output) {
  ordered_json json = json_of(job);
  if (!training_output.empty()) json["trainingOutput"] = ordered_json::parse(training_output);
  return yaml_of_json(dumped(json, -1));
}

void read_job_file(const Path& file, Submission& submission) {
  JobFileReader(submission).read(read_yaml(file));
}

void read_job_text(std::string_view text, std::string_view name, Submission& submission) {
  JobFileReader(submission).read(parse_yaml(text, name));
}

std::chrono::seconds parse_duration(std::string_view text) {
  std::int64_t seconds = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, seconds);
  if (error != std::errc() || rest != end - 1 || *rest != 's' || seconds < 0 ||
      seconds > kMostDurationSeconds) {
    throw InvalidArgument("a duration is whole seconds such as 7200s: \"{}\"", text);
  }
  return std::chrono::seconds(seconds);
}

}  // namespace muster::jobs
