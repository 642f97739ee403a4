#include "muster/orchestration/tuning/trial_command_internal.h"

#include <fmt/format.h>

#include <charconv>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "muster/base/error.h"
#include "muster/platform/cluster/trial_pause.h"

namespace muster::tuning {
namespace {

// The value of a flag among words, and the words without it.
struct TakenFlag {
  std::optional<std::string> value{};
  std::vector<std::string> others{};
};

TakenFlag take_flag(std::span<const std::string> words, const std::string& flag) {
  TakenFlag taken;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i].starts_with(flag + "=")) {
      taken.value = words[i].substr(flag.size() + 1);
    } else if (words[i] == flag && i + 1 < words.size()) {
      taken.value = words[++i];
    } else {
      taken.others.push_back(words[i]);
    }
  }
  return taken;
}

}  // namespace

void check_command(const std::vector<std::string>& command, const HyperparameterSpec& spec) {
  if (command.empty()) throw InvalidArgument("no program to tune");
  std::vector<std::string> flags{"job-dir"};
  for (const ParameterSpec& parameter : spec.params) flags.push_back(parameter.name);
  for (const std::string& flag : flags) {
    for (const std::string& word : command) {
      if (word == "--" + flag || word.starts_with("--" + flag + "=")) {
        throw InvalidArgument("the study gives --{} to every trial; leave it out of the arguments",
                              flag);
      }
    }
  }
}

std::int64_t whole_steps(const std::vector<std::string>& command, const std::string& steps_flag,
                         const char* field) {
  const std::string flag = "--" + steps_flag;
  const auto text = take_flag(command, flag).value;
  std::int64_t steps = 0;
  if (text) std::from_chars(text->data(), text->data() + text->size(), steps);
  if (steps < 1) {
    throw InvalidArgument(
        "{0} needs {1} among the program's arguments, the steps of a whole trial; where the "
        "program has another flag for them, name it in {0}.stepsFlag",
        field, flag);
  }
  return steps;
}

std::optional<std::int64_t> planned_steps(const std::vector<std::string>& command,
                                          const HyperparameterSpec& spec, const Values& values) {
  std::optional<std::string> text;
  for (const char* flag : {"--train-steps", "--max-steps", "--train_steps", "--max_steps"}) {
    if (!text) text = take_flag(command, flag).value;
  }
  if (const auto own = values.find(spec.steps_parameter); own != values.end()) text = own->second;
  std::int64_t steps = 0;
  if (text) std::from_chars(text->data(), text->data() + text->size(), steps);
  return steps > 0 ? std::optional(steps) : std::nullopt;
}

std::vector<std::string> trial_arguments(const std::vector<std::string>& command,
                                         const Trial& trial, const std::optional<StepLimit>& limit,
                                         const Path& folder) {
  std::vector<std::string> arguments(command.begin() + 1, command.end());
  if (limit) {
    arguments = take_flag(arguments, "--" + limit->flag).others;
    arguments.push_back(fmt::format("--{}={}", limit->flag, limit->steps));
  }
  for (const auto& [name, value] : trial.values) {
    arguments.push_back(fmt::format("--{}={}", name, value));
  }
  arguments.insert(arguments.end(), {"--job-dir", folder.string()});
  return arguments;
}

std::vector<std::string> trial_environment(const Trial& trial, const Path& metric_file,
                                           bool will_pause) {
  const std::string id = std::to_string(trial.id);
  const nlohmann::ordered_json tf_config{{"task", {{"trial", id}}}, {"environment", "cloud"}};
  std::vector<std::string> environment{"TF_CONFIG=" + tf_config.dump(), "CLOUD_ML_TRIAL_ID=" + id,
                                       "CLOUD_ML_HP_METRIC_FILE=" + metric_file.string()};
  if (will_pause) environment.push_back(fmt::format("{}=1", kTrialPausesVariable));
  return environment;
}

}  // namespace muster::tuning
