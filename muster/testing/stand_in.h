#pragma once

#include <sys/types.h>

#include <filesystem>

namespace muster::testing {

/// Stand-in that `muster launch` or `muster jobs` can be given for a program with run_main(argc,
/// argv, body): it becomes a fork of one that has loaded libtorch (tests/warm/warm_programs.py), as
/// RunningProgram's are, gets its signals and ends as it does. What kills the stand-in kills the
/// fork a moment later. Lasts as long as the test program.
std::filesystem::path warm_stand_in(const std::filesystem::path& program);

/// The process that a stand-in stands for, which can be stopped (SIGSTOP) and killed itself; 0 when
/// it has not begun or has ended.
pid_t warm_fork_of(pid_t stand_in);

}  // namespace muster::testing
