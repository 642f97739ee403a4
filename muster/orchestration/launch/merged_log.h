#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/file_system.h"

namespace muster::launch {

/// Follows the logs of several tasks and prints their lines, whole and with the task's name before
/// them; a line of muster's own logger, which names the task too, is printed with one name. Tasks
/// write into their files themselves, so that no line is lost with the launcher.
class MergedLog {
 public:
  /// Prints to `out`, a file descriptor that stays open; with colours if asked. When `out` has no
  /// reader any more, printing ends and following continues.
  MergedLog(int out, bool colours) : out_(out), colours_(colours) {}

  /// Starts to follow a file that may not be there yet, and returns its number.
  std::size_t follow(std::string name, const Path& file);

  /// Prints the lines that came since the last call.
  void poll();
  /// Prints what is left, also a last line without an end.
  void finish();

  /// Whether a line since start or forget() says that a port was taken.
  bool saw_port_in_use(std::size_t number) const { return logs_[number].saw_port_in_use; }
  void forget(std::size_t number) { logs_[number].saw_port_in_use = false; }

  /// The last of what any task said of the final loss and of an evaluation; empty if none did.
  const std::string& final_loss() const { return final_loss_; }
  const std::string& last_evaluation() const { return last_evaluation_; }

 private:
  struct Log {
    std::string name;
    std::string prefix;
    Path file;
    std::uint64_t read_bytes = 0;
    std::string unfinished{};
    bool saw_port_in_use = false;
  };

  void read_new(Log& log, std::size_t most_chunks);
  void take_line(Log& log, std::string_view line);
  void note_results(std::string_view line);
  void print();

  int out_;
  bool colours_;
  std::vector<Log> logs_;
  std::string text_;
  std::string final_loss_;
  std::string last_evaluation_;
};

}  // namespace muster::launch
