#pragma once

namespace muster {

/// How threads of OpenMP wait for each other where nothing is said: GOMP_SPINCOUNT=1000, about ten
/// microseconds of spinning, and then asleep. libgomp's own default of milliseconds takes the
/// processors from whatever else wants them, and a barrier waits the longer for a thread that has
/// none: under load, steps took ten times as long. GOMP_SPINCOUNT and OMP_WAIT_POLICY of the
/// environment count.
inline constexpr const char* kSpinCountVariable = "GOMP_SPINCOUNT";
inline constexpr const char* kSpinCount = "1000";

/// Sets it for the programs that this process starts.
void limit_spinning_of_children();

namespace internal {

/// Has the linker take what sets it for this process: a process that has loaded libgomp begins
/// anew with the variable before anything runs, since libgomp reads it when it is loaded.
void limit_spinning();

}  // namespace internal
}  // namespace muster
