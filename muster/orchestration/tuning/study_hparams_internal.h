#pragma once

#include "muster/base/file_system.h"
#include "muster/orchestration/tuning/hyperparameter_spec.h"
#include "muster/orchestration/tuning/trial.h"

/// Data of a study for TensorBoard's page "hparams": a row per trial with its values and its
/// metric.
namespace muster::tuning {

/// The scalar in a trial's job-dir that the metric's column shows. It is no metric of the program.
inline constexpr const char* kObjectiveTag = "_hptuning_/objective";

/// The columns of the table, in the study's job-dir.
void write_hparams_experiment(const Path& job_dir, const HyperparameterSpec& spec);
/// The values of a trial, in its own: before the program starts, for TensorBoard takes the first
/// that it finds there.
void write_hparams_start(const Path& folder, const HyperparameterSpec& spec, const Trial& trial);
/// Whether it is a file that one of these wrote into a trial's job-dir.
bool is_hparams_file(const Path& file);
/// How it ended, and its metric.
void write_hparams_end(const Path& folder, const Trial& trial);

}  // namespace muster::tuning
