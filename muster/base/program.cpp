#include "muster/base/program.h"

#include <dlfcn.h>

#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "muster/base/blas_core.h"
#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/base/spinning.h"
#include "muster/base/thread_pool.h"
#include "muster/base/warm_program.h"

namespace muster {
namespace {

constexpr int kMostStatus = 255;

// The status that asks this program's parent for a retry: Kubeflow's operator
// retries those from 128 on alone.
int retry_status() {
  const char* const text = std::getenv("MUSTER_RETRY_STATUS");
  if (text == nullptr || *text == '\0') return kExitTryAgain;
  const std::string_view word = text;
  int status = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), status);
  if (error != std::errc() || end != word.data() + word.size() || status < 1 ||
      status > kMostStatus) {
    throw UsageError("MUSTER_RETRY_STATUS is an exit status from 1 to {}: \"{}\"", kMostStatus,
                     word);
  }
  return status;
}

// Command line of a fork of a warm program, whose /proc/self/cmdline is its parent's.
std::vector<std::string>& given_command_line() {
  static std::vector<std::string> words;
  return words;
}

// libtorch computes in as many threads as there are processors, which may be more than the quota of
// a container has time for. Its function is looked up: not every program has libtorch. It starts
// threads, so it is called when no more forks are to come.
void limit_compute_threads() {
  if (std::getenv("OMP_NUM_THREADS") != nullptr) return;
  const std::size_t available = ThreadPool::available_processors();
  if (available >= ThreadPool::allowed_processors().size()) return;
  // at::set_num_threads(int)
  void* const set = ::dlsym(RTLD_DEFAULT, "_ZN2at15set_num_threadsEi");
  if (set != nullptr) reinterpret_cast<void (*)(int)>(set)(static_cast<int>(available));
}

}  // namespace

void fail_writes_beyond_file_limit() { std::signal(SIGXFSZ, SIG_IGN); }

int run_main(const std::function<int()>& body) {
  fail_writes_beyond_file_limit();
  int worth_another_try = kExitTryAgain;
  try {
    worth_another_try = retry_status();
    const int status = body();
    if (std::fflush(stdout) != 0) throw_errno(errno, "writing to standard output");
    return status;
  } catch (...) {
    const Description failure = describe(std::current_exception());
    log::progress("");
    // An orderly stop is what was asked for, no failure.
    if (failure.code == ErrorCode::kCancelled) {
      log::info("{}", failure.message);
    } else {
      log::error("{}", failure.message);
    }
    return failure.exit_code == kExitTryAgain ? worth_another_try : failure.exit_code;
  }
}

int run_main(int argc, char** argv, const std::function<int(int, char**)>& body) {
  internal::limit_spinning();
  return run_main([&] {
    internal::choose_blas_core(argv);
    auto words = internal::warm_arguments(argv[0]);
    limit_compute_threads();
    if (!words) return body(argc, argv);
    given_command_line() = *words;
    std::vector<char*> pointers;
    for (std::string& word : *words) pointers.push_back(word.data());
    pointers.push_back(nullptr);
    return body(static_cast<int>(words->size()), pointers.data());
  });
}

std::vector<std::string> command_line() {
  if (!given_command_line().empty()) return given_command_line();
  // Words, each with a zero after it.
  const std::string text = read_file("/proc/self/cmdline");
  std::vector<std::string> words;
  for (std::size_t begin = 0; begin < text.size(); begin += words.back().size() + 1) {
    words.emplace_back(text.c_str() + begin);
  }
  return words;
}

int run_main(int argc, char** argv, const std::function<int()>& body) {
  internal::limit_spinning();
  return run_main([&] {
    internal::choose_blas_core(argv);
    limit_compute_threads();
    if (argc < 2) return body();
    const std::string_view word = argv[1];
    if (word != "--help" && word != "-h") {
      throw UsageError("unknown argument {}: this program takes none", word);
    }
    std::printf("Usage: %s\nThis program takes no arguments.\n", argv[0]);
    return 0;
  });
}

std::vector<Path> files_of(const std::vector<std::string>& patterns, const char* flag) {
  std::vector<Path> files;
  for (const auto& pattern : patterns) {
    const auto found = glob(pattern);
    if (found.empty()) throw UsageError("{}: no file matches {}", flag, pattern);
    files.insert(files.end(), found.begin(), found.end());
  }
  return files;
}

}  // namespace muster
