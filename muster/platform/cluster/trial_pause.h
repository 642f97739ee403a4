#pragma once

namespace muster {

/// A study sets it to 1 for a run that trains a trial up to a rung of successive halving, where the
/// trial pauses. Such a run leaves out what only the end of a training is for.
inline constexpr const char* kTrialPausesVariable = "MUSTER_TRIAL_PAUSES";

/// Whether this process is such a run.
bool trial_pauses();

}  // namespace muster
