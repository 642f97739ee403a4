#pragma once

#include "muster/base/file_system.h"

namespace muster::tuning {

/// Copies the job-dir of a trial that has ended, for another that goes on from its checkpoint:
/// files, folders and symbolic links, but not what the study itself wrote there for TensorBoard's
/// hparams. What was at `to` is replaced. Files are on the disk when it returns.
void copy_trial_folder(const Path& from, const Path& to);

}  // namespace muster::tuning
