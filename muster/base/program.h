#pragma once

#include <functional>
#include <string>
#include <vector>

#include "muster/base/file_system.h"

namespace muster {

/// Exit status of a program that may succeed if it is retried: EX_TEMPFAIL of sysexits.h.
inline constexpr int kExitTryAgain = 75;
/// That of one which signal n has ended is this and n.
inline constexpr int kStatusOfSignals = 128;

/// A file that grows beyond the limit of the process (`ulimit -f`) makes writes fail as a full disk
/// does, instead of SIGXFSZ, which would end the program without a word. For main().
void fail_writes_beyond_file_limit();

/// The edge of a program, for main(): calls `body` and returns its status. An exception is logged
/// and becomes the exit status that describe() gives it: 1 failure, 2 usage error, 75 temporary
/// failure, 128 + n stopped by signal n after a last checkpoint. MUSTER_RETRY_STATUS=N makes it N
/// instead of 75. Writes beyond the file limit fail.
int run_main(const std::function<int()>& body);

/// The same for a program without arguments: --help says so, and any other argument is misuse.
int run_main(int argc, char** argv, const std::function<int()>& body);

/// The same for a program with arguments, which can be kept warm (warm_program.h): `body` gets
/// those of the process that it runs in.
int run_main(int argc, char** argv, const std::function<int(int argc, char** argv)>& body);

/// The words of the command line that this process runs, the program first.
std::vector<std::string> command_line();

/// The files that a flag's patterns name, each pattern's sorted. Throws UsageError, naming the
/// flag, for one that matches none.
std::vector<Path> files_of(const std::vector<std::string>& patterns, const char* flag);

}  // namespace muster
