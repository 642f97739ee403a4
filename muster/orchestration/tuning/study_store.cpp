#include "muster/orchestration/tuning/study_store_internal.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/file_inside.h"
#include "muster/base/json_depth.h"
#include "muster/orchestration/tuning/state_checksum.h"
#include "muster/orchestration/tuning/study_hparams_internal.h"
#include "muster/orchestration/tuning/trial_folder_internal.h"

namespace muster::tuning {
namespace {

using nlohmann::ordered_json;

constexpr std::uint64_t kMostStateBytes = std::uint64_t{64} << 20;

std::string read_state(const Path& job_dir, const Path& file) {
  std::string text = read_file_inside(job_dir, file.lexically_relative(job_dir), kMostStateBytes);
  if (is_json_deeper_than(kMostJsonFileDepth, text)) {
    throw DataLoss("{}: its JSON is nested deeper than {}", file.string(), kMostJsonFileDepth);
  }
  return text;
}

ordered_json read_study_json(const Path& job_dir, const Path& file) {
  if (!file_exists(file)) throw NotFound("there is no study in {}", job_dir.string());
  auto json = ordered_json::parse(read_state(job_dir, file), nullptr,
                                  /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("hyperparameters")) {
    throw DataLoss("{} describes no study", file.string());
  }
  return json;
}

}  // namespace

StudyStore::StudyStore(Path job_dir) : job_dir_(std::move(job_dir)), folder_(job_dir_ / "study") {}

Path StudyStore::study_file() const { return folder_ / "study.json"; }

Path StudyStore::stop_file() const { return folder_ / "stop"; }

Path StudyStore::trial_file(std::int64_t id) const { return folder_ / fmt::format("{}.json", id); }

bool StudyStore::exists() const { return file_exists(study_file()); }

void StudyStore::open(const StudyOptions& options, const HyperparameterSpec& spec) const {
  const ordered_json mine{{"hyperparameters", ordered_json::parse(options.hyperparameters)},
                          {"command", options.command},
                          {"seed", options.seed},
                          {"workingDirectory", std::filesystem::current_path().string()}};
  if (exists()) {
    const auto there = read_study_json(job_dir_, study_file());
    HyperparameterSpec before =
        parse_hyperparameters(there.at("hyperparameters").dump(), options.algorithms);
    // Rounds of a population divide the steps by the number of trials.
    if (!spec.population) before.max_trials = spec.max_trials;
    before.max_failed_trials = spec.max_failed_trials;
    if (before != spec || there.value("seed", std::uint64_t{0}) != options.seed ||
        there.value("command", std::vector<std::string>()) != options.command) {
      throw InvalidArgument(
          "{} has a study with other hyperparameters, another seed or another command; give this "
          "one a --job-dir of its own, or resume that one with what it began with",
          job_dir_.string());
    }
  } else {
    write_hparams_experiment(job_dir_, spec);
  }
  write_file_atomically(study_file(), mine.dump(2) + "\n");
}

HyperparameterSpec StudyStore::spec() const {
  const auto block = read_study_json(job_dir_, study_file()).at("hyperparameters");
  SearchAlgorithms algorithms = SearchAlgorithms::built_in();
  const auto named = block.find("algorithm");
  if (named != block.end() && named->is_string() &&
      !algorithms.has(named->get_ref<const std::string&>())) {
    algorithms.add({.names = {named->get<std::string>()},
                    .make = [](SearchSpace, std::uint64_t) -> std::unique_ptr<Searcher> {
                      throw Internal("a study that is only read has no searcher");
                    }});
  }
  return parse_hyperparameters(block.dump(), algorithms);
}

StudySetup StudyStore::setup() const {
  const auto there = read_study_json(job_dir_, study_file());
  try {
    return {.hyperparameters = there.at("hyperparameters").dump(),
            .command = there.at("command").get<std::vector<std::string>>(),
            .seed = there.value("seed", std::uint64_t{0}),
            .working_directory = there.value("workingDirectory", std::string())};
  } catch (const nlohmann::json::exception& error) {
    throw DataLoss("{} describes no study: {}", study_file().string(), error.what());
  }
}

void StudyStore::request_stop() const { write_file_atomically(stop_file(), "", /*durable=*/false); }

void StudyStore::remove_stop_request() const {
  if (is_stop_requested()) file_system_for(stop_file()).remove(stop_file());
}

bool StudyStore::is_stop_requested() const { return file_exists(stop_file()); }

std::vector<Trial> StudyStore::trials() const {
  std::vector<Trial> trials;
  for (std::int64_t id = 1; file_exists(trial_file(id)); ++id) {
    const Path file = trial_file(id);
    try {
      const std::string text = read_state(job_dir_, file);
      check_checksum(text);
      trials.push_back(trial_from_json(text));
      if (trials.back().id != id) {
        throw DataLoss("it is of trial {}, and no trial {}", trials.back().id, id);
      }
      const auto& parent = trials.back().parent;
      if (parent && (*parent < 1 || *parent >= id)) {
        throw DataLoss("no trial before this one: {}", *parent);
      }
    } catch (Error& error) {
      error.add_context(file.string());
      throw;
    }
  }
  return trials;
}

void StudyStore::keep(const Trial& trial) const {
  write_file_atomically(trial_file(trial.id), with_checksum(to_json(trial)));
}

Path StudyStore::folder_of(const Trial& trial) const { return job_dir_ / std::to_string(trial.id); }

Path StudyStore::log_of(const Trial& trial) const {
  return folder_ / fmt::format("{}.log", trial.id);
}

Path StudyStore::metric_file_of(const Trial& trial) const {
  return folder_ / fmt::format("{}.metrics", trial.id);
}

void StudyStore::make_folder(const Trial& trial, const HyperparameterSpec& spec) const {
  if (trial.parent) copy_parent(trial, spec);
  file_system_for(folder_).create_directories(folder_of(trial));
}

// A trial's folder appears with all that it begins with, or not at all: one that is resumed has it
// already.
void StudyStore::copy_parent(const Trial& trial, const HyperparameterSpec& spec) const {
  const Path folder = folder_of(trial);
  if (file_system_for(folder).status(folder)) return;
  const Path temporary = folder_ / fmt::format("{}.copy", trial.id);
  copy_trial_folder(job_dir_ / std::to_string(*trial.parent), temporary);
  write_hparams_start(temporary, spec, trial);
  publish_directory(temporary, folder);
}

}  // namespace muster::tuning
