#pragma once

#include <string>

#include "muster/base/file_system.h"

namespace muster::tuning {

/// Copies the job-dir of a trial that has ended, for another that resumes from its checkpoint:
/// files, folders and symbolic links, but not what the study itself wrote there for TensorBoard's
/// hparams. What was at `to` is replaced. Files are on the disk when it returns.
void copy_trial_folder(const Path& from, const Path& to);

/// The last two lines of a log in one, as an error may have them; empty where it has none. Programs
/// say there why they end, and often how to be helped.
std::string last_words_of(const Path& log);

}  // namespace muster::tuning
