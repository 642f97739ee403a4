#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace muster::process {

/// NAME=value in the environment of a process that is started to outlive what started it, such as
/// the supervisor of other jobs: neither it nor what it starts belongs to a tree that is ended.
inline constexpr const char* kOutlivesEntry = "MUSTER_OUTLIVES=1";

/// From now on what tasks leave behind, in sessions of their own too, become children of this
/// process, which must wait for their end: see reap_orphans().
void adopt_orphans();

/// Takes note of the end of children that are none of `tasks`, so that they leave the table of
/// processes.
void reap_orphans(const std::vector<pid_t>& tasks);

/// The processes that this one or its descendants have started and that still run, apart from those
/// that outlive it.
std::vector<pid_t> descendants();

/// The processes, apart from this one, that were started with `entry`, "NAME=value", in their
/// environment.
std::vector<pid_t> processes_with(const std::string& entry);

/// Asks all that `find` finds to end, each once, and kills what is left after the grace, until it
/// finds nothing. `on_ask` is called with each that is asked. Throws Unavailable, with `whose` in
/// the message, for what does not end though it was killed.
void end_processes(const std::function<std::vector<pid_t>()>& find, std::chrono::milliseconds grace,
                   const std::string& whose, const std::function<void(pid_t)>& on_ask);

/// The same for processes_with() `entry`: what a process that was killed has left running.
void end_leftovers(const std::string& entry, std::chrono::milliseconds grace,
                   const std::string& whose, const std::function<void(pid_t)>& on_ask);

}  // namespace muster::process
