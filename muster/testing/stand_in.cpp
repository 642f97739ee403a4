#include "muster/testing/stand_in.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <fstream>
#include <map>
#include <memory>
#include <string>

#include "muster/base/error.h"
#include "muster/testing/temp_dir.h"

namespace muster::testing {
namespace {

/// The process that stand-ins ask for forks; it ends when its input does.
class ForkServer {
 public:
  explicit ForkServer(const std::filesystem::path& program) {
    std::array<int, 2> in{};
    std::array<int, 2> out{};
    if (::pipe2(in.data(), O_CLOEXEC) != 0 || ::pipe2(out.data(), O_CLOEXEC) != 0) {
      throw_errno(errno, "making a pipe");
    }
    const std::string folder = folder_.path().string();
    process_ = ::fork();
    if (process_ < 0) throw_errno(errno, "starting " MUSTER_WARM_PROGRAMS);
    if (process_ == 0) {
      ::dup2(in[0], STDIN_FILENO);
      ::dup2(out[1], STDOUT_FILENO);
      ::execl("/usr/bin/python3", "python3", MUSTER_WARM_PROGRAMS, folder.c_str(), program.c_str(),
              nullptr);
      ::_exit(127);
    }
    ::close(in[0]);
    ::close(out[1]);
    in_ = in[1];
    out_ = out[0];
    // "ready", or the end of a process that could not be.
    char first = 0;
    if (::read(out_, &first, 1) != 1)
      throw Internal("{} has ended: no stand-in of {}", MUSTER_WARM_PROGRAMS, program.string());
  }
  ~ForkServer() {
    ::close(in_);
    ::waitpid(process_, nullptr, 0);
    ::close(out_);
  }
  ForkServer(const ForkServer&) = delete;
  ForkServer& operator=(const ForkServer&) = delete;

  std::filesystem::path stand_in(const std::filesystem::path& program) const {
    return folder_.path() / "bin" / program.filename();
  }
  std::filesystem::path fork_file(pid_t stand_in) const {
    return folder_.path() / "forks" / std::to_string(stand_in);
  }

 private:
  TempDir folder_;
  pid_t process_ = -1;
  int in_ = -1;
  int out_ = -1;
};

std::map<std::filesystem::path, std::unique_ptr<ForkServer>>& servers() {
  static std::map<std::filesystem::path, std::unique_ptr<ForkServer>> servers;
  return servers;
}

}  // namespace

std::filesystem::path warm_stand_in(const std::filesystem::path& program) {
  auto& server = servers()[program];
  if (server == nullptr) server = std::make_unique<ForkServer>(program);
  return server->stand_in(program);
}

pid_t warm_fork_of(pid_t stand_in) {
  for (const auto& entry : servers()) {
    std::ifstream file(entry.second->fork_file(stand_in));
    pid_t fork = 0;
    if (file >> fork) return fork;
  }
  return 0;
}

}  // namespace muster::testing
