#include "muster/orchestration/process/captured_process.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "muster/base/error.h"
#include "muster/base/wait.h"
#include "muster/orchestration/process/descriptor.h"
#include "muster/orchestration/process/spawn.h"
#include "muster/orchestration/process/task_process.h"

namespace muster::process {
namespace {

constexpr std::size_t kPipeChunkBytes = std::size_t{1} << 16;

// In memory, so that a program that prints before it has read all does not stand still.
int input_of(const std::string& text) {
  const int descriptor = ::memfd_create("input", MFD_CLOEXEC);
  if (descriptor < 0) throw_errno(errno, "making room for the input of a program");
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t count = ::write(descriptor, text.data() + done, text.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      const int error = errno;
      ::close(descriptor);
      throw_errno(error, "keeping the input of a program");
    }
    done += static_cast<std::size_t>(count);
  }
  ::lseek(descriptor, 0, SEEK_SET);
  return descriptor;
}

std::array<int, 2> make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw_errno(errno, "making a pipe");
  return ends;
}

pid_t spawn_captured(const std::vector<std::string>& command, int in, int out, int err) {
  Spawn spawn;
  spawn.give(STDIN_FILENO, in);
  spawn.give(STDOUT_FILENO, out);
  spawn.give(STDERR_FILENO, err);
  return spawn.start_in_own_group(command);
}

// Killed and reaped unless it has ended.
class OwnedProcess {
 public:
  explicit OwnedProcess(pid_t process) : process_(process) {}
  ~OwnedProcess() {
    if (process_ < 0) return;
    ::kill(-process_, SIGKILL);
    wait();
  }
  OwnedProcess(const OwnedProcess&) = delete;
  OwnedProcess& operator=(const OwnedProcess&) = delete;

  int wait() {
    int status = 0;
    while (::waitpid(process_, &status, 0) < 0 && errno == EINTR) continue;
    process_ = -1;
    return end_of(status).status;
  }

 private:
  pid_t process_;
};

// Whether more may come.
bool read_chunk(Descriptor& from, std::string& to) {
  const std::size_t before = to.size();
  to.resize(before + kPipeChunkBytes);
  ssize_t count = 0;
  do {
    count = ::read(from.get(), to.data() + before, kPipeChunkBytes);
  } while (count < 0 && errno == EINTR);
  to.resize(before + static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
  if (count <= 0) from.close();
  return count > 0;
}

void read_both(const CapturedProcess& process, Descriptor& out, Descriptor& err,
               CapturedOutput& output) {
  const Deadline deadline = Deadline::after(process.timeout);
  const BlockingRegion region(
      [&] { return fmt::format("the end of {}", process.command.front()); });
  while (out.get() >= 0 || err.get() >= 0) {
    std::array<pollfd, 2> ends{{{out.get(), POLLIN, 0}, {err.get(), POLLIN, 0}}};
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline.remaining()).count();
    const int ready = ::poll(ends.data(), ends.size(), static_cast<int>(left) + 1);
    if (ready < 0 && errno != EINTR) throw_errno(errno, "waiting for a program");
    if (deadline.expired()) {
      throw DeadlineExceeded("{} did not end within {} s and was killed", process.command.front(),
                             std::chrono::duration<double>(process.timeout).count());
    }
    if (ready <= 0) continue;
    if (ends[0].revents != 0) read_chunk(out, output.out);
    if (ends[1].revents != 0) read_chunk(err, output.err);
    if (output.out.size() + output.err.size() > process.most_output_bytes) {
      throw ResourceExhausted("{} printed more than {} bytes and was killed",
                              process.command.front(), process.most_output_bytes);
    }
  }
}

}  // namespace

CapturedOutput run_captured(const CapturedProcess& process) {
  if (process.command.empty()) throw InvalidArgument("no program to start");
  const Descriptor in(input_of(process.input));
  const auto out_ends = make_pipe();
  Descriptor out(out_ends[0]);
  Descriptor out_write(out_ends[1]);
  const auto err_ends = make_pipe();
  Descriptor err(err_ends[0]);
  Descriptor err_write(err_ends[1]);
  OwnedProcess child(spawn_captured(process.command, in.get(), out_write.get(), err_write.get()));
  out_write.close();
  err_write.close();
  CapturedOutput output;
  read_both(process, out, err, output);
  output.status = child.wait();
  return output;
}

}  // namespace muster::process
