// `muster tune`: a hyperparameter study on this host.
#include "muster/cli/tune.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/file_system.h"
#include "muster/base/log.h"
#include "muster/base/printable.h"
#include "muster/cli/command.h"
#include "muster/cli/found_program.h"
#include "muster/cli/program_arguments.h"
#include "muster/orchestration/jobs/job_text.h"
#include "muster/orchestration/jobs/machines.h"
#include "muster/orchestration/tuning/goals.h"
#include "muster/orchestration/tuning/importance.h"
#include "muster/orchestration/tuning/ranking.h"
#include "muster/orchestration/tuning/study.h"
#include "muster/orchestration/tuning/study_picture.h"

namespace muster::cli {
namespace {

struct TuneFlags {
  std::string config{};
  std::string hyperparameters{};
  std::string job_dir{};
  std::uint64_t seed = 0;
  bool warm = false;
  bool srun = false;
  std::string stop{};
  std::string steps_parameter{};
  double trial_seconds = 0;
  double grace_seconds = 10;
};

std::string values_text(const tuning::Values& values) {
  std::string text;
  for (const auto& [name, value] : values) text += fmt::format(" {}={}", name, value);
  return text;
}

std::string duration_text(double seconds) {
  const auto whole = static_cast<std::int64_t>(std::lround(seconds));
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{}:{:02} min", whole / 60, whole % 60);
  return fmt::format("{}:{:02} h", whole / 3600, whole % 3600 / 60);
}

// The best so far, and when all trials will have ended if the others take as long.
class StudyProgress {
 public:
  explicit StudyProgress(tuning::HyperparameterSpec spec) : spec_(std::move(spec)) {}

  void add(const tuning::Trial& trial) {
    ended_.insert(trial.id);
    if (!trial.final_metric) return;
    const double sign = spec_.goal == tuning::Goal::kMaximize ? 1 : -1;
    const double value = trial.final_metric->value;
    if (!best_ || sign * value > sign * best_->second) best_ = {trial.id, value};
  }

  std::string text() const {
    std::string text = fmt::format("{} of {} trials", ended_.size(), spec_.max_trials);
    if (best_) {
      text += fmt::format(", best {} of trial {}", tuning::value_text(best_->second), best_->first);
    }
    const double passed = std::chrono::duration<double>(Clock::now() - begin_).count();
    const auto left = static_cast<double>(spec_.max_trials) - static_cast<double>(ended_.size());
    // Paused trials have ended once, and say little of what is left.
    if (left > 0 && !spec_.halving) {
      text +=
          ", about " + duration_text(passed / static_cast<double>(ended_.size()) * left) + " left";
    }
    return text;
  }

 private:
  using Clock = std::chrono::steady_clock;

  const tuning::HyperparameterSpec spec_;
  const Clock::time_point begin_ = Clock::now();
  std::set<std::int64_t> ended_;
  std::optional<std::pair<std::int64_t, double>> best_;
};

void log_trial(const tuning::Trial& trial) {
  if (trial.state == tuning::TrialState::kRunning && trial.rungs.size() > 1) {
    log::info("trial {} goes on steps={}", trial.id, trial.rungs.back().max_steps);
  } else if (trial.state == tuning::TrialState::kRunning) {
    const std::string parent = trial.parent ? fmt::format(" from={}", *trial.parent) : "";
    const std::string steps = trial.max_steps > 0 ? fmt::format(" steps={}", trial.max_steps) : "";
    log::info("trial {} starts{}{}{}", trial.id, parent, steps, values_text(trial.values));
  } else if (trial.state == tuning::TrialState::kFailed) {
    log::warning("trial {} failed: {}", trial.id, trial.error_message);
  } else {
    const bool is_paused = trial.state == tuning::TrialState::kPaused;
    log::info("trial {} {}{} metric={} step={} seconds={:.1f}", trial.id,
              is_paused ? "pauses" : "ends", trial.is_stopped_early ? " early" : "",
              tuning::value_text(trial.final_metric->value), trial.final_metric->step,
              trial.end_time - trial.start_time);
  }
}

// Reads the file's block of hyperparameters, job-dir and program arguments.
void read_config(const TuneFlags& flags, tuning::StudyOptions& options) {
  jobs::Submission submission;
  jobs::read_job_file(flags.config, submission);
  const auto& input = submission.job.training_input;
  const auto fields = nlohmann::json::parse(input.cloud_fields);
  if (!fields.contains("hyperparameters")) {
    throw UsageError("{} has no trainingInput.hyperparameters: there is nothing to tune",
                     flags.config);
  }
  options.hyperparameters = fields.at("hyperparameters").dump();
  options.job_dir = input.job_dir;
  options.command.insert(options.command.end(), input.args.begin(), input.args.end());
}

// --stop asha is `trialStopping: {rule: ASHA}` of the block, whose other fields stay.
void set_stopping(const std::string& rule, std::string& hyperparameters) {
  if (rule.empty()) return;
  auto block = nlohmann::ordered_json::parse(hyperparameters, nullptr, /*allow_exceptions=*/false);
  if (!block.is_object()) throw UsageError("--hyperparameters is no JSON object");
  block.erase("enableTrialEarlyStopping");
  auto& stopping = block["trialStopping"];
  if (!stopping.is_object()) stopping = nlohmann::ordered_json::object();
  std::string word = rule;
  std::transform(word.begin(), word.end(), word.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::toupper(letter)); });
  stopping["rule"] = word;
  hyperparameters = block.dump();
}

// --share-prefixes train-steps is `stepsParameter: train-steps` of the block.
void set_steps_parameter(const std::string& name, std::string& hyperparameters) {
  if (name.empty()) return;
  auto block = nlohmann::ordered_json::parse(hyperparameters, nullptr, /*allow_exceptions=*/false);
  if (!block.is_object()) throw UsageError("--hyperparameters is no JSON object");
  block["stepsParameter"] = name;
  hyperparameters = block.dump();
}

tuning::StudyOptions study_options(const TuneFlags& flags) {
  if (flags.config.empty() == flags.hyperparameters.empty()) {
    throw UsageError(
        "give --config, the file with trainingInput.hyperparameters, or "
        "--hyperparameters, the block itself");
  }
  if (program_arguments().empty()) {
    throw UsageError(
        "no program to tune: write it after --, as in `muster tune --config "
        "hptuning_config.yaml --job-dir runs/study -- ./census`");
  }
  tuning::StudyOptions options;
  options.command = program_arguments();
  options.command.front() = found_program(options.command.front());
  options.hyperparameters = flags.hyperparameters;
  if (!flags.config.empty()) read_config(flags, options);
  set_stopping(flags.stop, options.hyperparameters);
  set_steps_parameter(flags.steps_parameter, options.hyperparameters);
  if (!flags.job_dir.empty()) options.job_dir = flags.job_dir;
  if (options.job_dir.empty()) {
    throw UsageError("--job-dir is missing: trial N trains in JOB_DIR/N");
  }
  options.seed = flags.seed;
  options.is_warm = flags.warm;
  options.as_job_steps = flags.srun;
  if (flags.trial_seconds > 0) {
    options.trial_limit =
        std::chrono::ceil<std::chrono::seconds>(std::chrono::duration<double>(flags.trial_seconds));
  }
  options.grace = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::duration<double>(flags.grace_seconds));
  return options;
}

void report_trials(tuning::StudyOptions& options) {
  const auto progress =
      std::make_shared<StudyProgress>(tuning::parse_hyperparameters(options.hyperparameters));
  options.on_trial = [progress](const tuning::Trial& trial) {
    log_trial(trial);
    if (trial.state == tuning::TrialState::kRunning) return;
    progress->add(trial);
    log::info("{}", progress->text());
  };
}

std::set<std::int64_t> front_of(const tuning::Study& study) {
  std::set<std::int64_t> front;
  if (study.spec.other_goals.empty()) return front;
  for (const auto* trial : tuning::pareto_front(study.spec, study.trials)) front.insert(trial->id);
  return front;
}

bool is_infeasible(const tuning::Study& study, const tuning::Trial& trial) {
  return trial.final_metric && tuning::violation_of(study.spec, trial) > 0;
}

void run_tune(const TuneFlags& flags) {
  log::set_task("tune");
  tuning::StudyOptions options = study_options(flags);
  try {
    report_trials(options);
    print_trials(tuning::run_study(options));
  } catch (const InvalidArgument& error) {
    throw UsageError("{}{}{}", flags.config, flags.config.empty() ? "" : ": ", error.what());
  }
}

// Most important first.
void print_importances(const tuning::Study& study) {
  const auto shares = tuning::importances(study);
  if (shares.empty()) return;
  std::vector<std::pair<double, std::string>> rows;
  std::size_t width = 0;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    rows.emplace_back(shares[i], printable(study.spec.params[i].name));
    width = std::max(width, rows.back().second.size());
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  fmt::print("\n{:<{}}  SHARE OF THE VARIANCE\n", "PARAMETER", std::max<std::size_t>(width, 9));
  for (const auto& [share, name] : rows) {
    fmt::print("{:<{}}  {:.2f}\n", name, std::max<std::size_t>(width, 9), share);
  }
}

// The best trial of a population and what it came from, the first first: the schedule of values
// that its model was trained with.
void print_lineage(const tuning::Study& study) {
  const tuning::Trial* trial = study.best();
  if (!study.spec.population || trial == nullptr) return;
  std::vector<const tuning::Trial*> lineage{trial};
  // Parents have smaller numbers.
  while (trial->parent) {
    trial = &study.trials[static_cast<std::size_t>(*trial->parent - 1)];
    lineage.insert(lineage.begin(), trial);
  }
  fmt::print("\nTRAINED WITH, UP TO STEP\n");
  for (const tuning::Trial* one : lineage) {
    fmt::print("{}  trial={}{}\n", one->max_steps, one->id, printable(values_text(one->values)));
  }
}

void show_study(const std::string& job_dir, bool as_json, const std::string& picture) {
  const tuning::Study study = tuning::read_study(job_dir);
  if (!picture.empty()) {
    write_file_atomically(picture, tuning::study_svg(study));
    log::info("drew {} trials picture={}", study.trials.size(), picture);
  }
  if (!as_json) {
    print_trials(study);
    print_lineage(study);
    return print_importances(study);
  }
  auto list = nlohmann::ordered_json::array();
  for (const tuning::Trial& trial : study.trials) {
    list.push_back(nlohmann::ordered_json::parse(tuning::to_json(trial)));
  }
  fmt::print("{}\n", list.dump(1));
}

void add_tune_show(CLI::App& command) {
  const auto job_dir = std::make_shared<std::string>();
  const auto as_json = std::make_shared<bool>(false);
  const auto picture = std::make_shared<std::string>();
  command.add_option("JOB_DIR", *job_dir, "The --job-dir of the study")->required();
  add_json_flag(command, *as_json, "All that is known of every trial, by number");
  command.add_option("--picture", *picture,
                     "Also draw them into this file, as SVG: the metric by trial, parallel "
                     "coordinates, and the metric over each parameter");
  command.footer("");
  command.callback([=] { show_study(*job_dir, *as_json, *picture); });
}

}  // namespace

void print_trials(const tuning::Study& study) {
  std::vector<std::vector<std::string>> rows{{"TRIAL", "STATE", study.spec.metric_tag, "STEP"}};
  const bool has_parents = std::any_of(study.trials.begin(), study.trials.end(),
                                       [](const auto& trial) { return trial.parent.has_value(); });
  if (has_parents) rows[0].emplace_back("FROM");
  const auto tags = tuning::other_tags(study.spec);
  rows[0].insert(rows[0].end(), tags.begin(), tags.end());
  const auto front = front_of(study);
  std::vector<std::string> names;
  for (const tuning::ParameterSpec& parameter : study.spec.params) {
    if (std::find(names.begin(), names.end(), parameter.name) != names.end()) continue;
    names.push_back(parameter.name);
    rows[0].push_back(parameter.name);
  }
  for (const tuning::Trial* const one : tuning::ranked(study)) {
    const tuning::Trial& trial = *one;
    const auto& metric = trial.final_metric;
    std::string state(name_of(trial.state));
    if (trial.is_stopped_early) state += " early";
    if (front.contains(trial.id)) state += " front";
    if (is_infeasible(study, trial)) state += " infeasible";
    rows.push_back({std::to_string(trial.id), std::move(state),
                    metric ? fmt::format("{:.6g}", metric->value) : "-",
                    metric ? std::to_string(metric->step) : "-"});
    if (has_parents) rows.back().push_back(trial.parent ? std::to_string(*trial.parent) : "-");
    for (const std::string& tag : tags) {
      const auto value =
          metric ? tuning::metric_value(study.spec, trial, tag) : std::optional<double>();
      rows.back().push_back(value ? fmt::format("{:.6g}", *value) : "-");
    }
    for (const std::string& name : names) {
      const auto found = trial.values.find(name);
      rows.back().push_back(found == trial.values.end() ? "-" : found->second);
    }
  }
  std::vector<std::size_t> widths(rows[0].size());
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      line += fmt::format("{:<{}}  ", printable(row[i]), widths[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    fmt::print("{}\n", line);
  }
}

void add_tune(CLI::App& command) {
  const auto flags = std::make_shared<TuneFlags>();
  command.add_option("--config", flags->config,
                     "A job file with trainingInput.hyperparameters, such as hptuning_config.yaml");
  command.add_option("--hyperparameters", flags->hyperparameters,
                     "The hyperparameters block as JSON, instead of --config");
  command.add_option("--job-dir", flags->job_dir,
                     "Trial N trains in JOB_DIR/N; a study that is there is resumed");
  command.add_option("--seed", flags->seed, "Seed of the suggestions")->capture_default_str();
  command.add_flag("--warm", flags->warm,
                   "Load the program once and fork it for every trial: for programs that call "
                   "run_main(argc, argv, body)");
  command
      .add_flag("--srun", flags->srun,
                "In an allocation of Slurm: run each trial as a job step with the resources of one "
                "task, on any node")
      ->excludes("--warm");
  command
      .add_option("--stop", flags->stop,
                  "Train only promising trials to the end: asha and hyperband pause trials and let "
                  "the best go on, median stops those that fall behind")
      ->check(CLI::IsMember({"asha", "hyperband", "median"}));
  command.add_option("--share-prefixes", flags->steps_parameter,
                     "The parameter that is the number of steps: a trial goes on from the "
                     "checkpoint of an earlier one that differs in it alone");
  command
      .add_option("--trial-seconds", flags->trial_seconds,
                  "Time limit of a trial; longer ones fail (default: none)")
      ->check(CLI::NonNegativeNumber);
  command
      .add_option("--grace", flags->grace_seconds,
                  "Seconds that trials get to save and exit when the study is stopped")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  command.footer(
      "The program and its arguments follow --: muster tune --config hptuning_config.yaml "
      "--job-dir runs/study -- ./census");
  CLI::App* show = command.add_subcommand("show", "print the trials of a study, best first");
  add_tune_show(*show);
  command.require_subcommand(0, 1);
  command.callback([flags, show] {
    if (!show->parsed()) run_tune(*flags);
  });
}

}  // namespace muster::cli
