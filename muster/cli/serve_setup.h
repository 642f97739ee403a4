#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/file_system.h"
#include "muster/base/signals.h"
#include "muster/cli/serve_flags.h"
#include "muster/serving/listener/access.h"

namespace muster::cli {

/// Limit of the size of a configuration file.
inline constexpr std::uint64_t kMostConfigBytes = std::uint64_t{16} << 20;

/// Wakes the main thread of a server: 's' for an orderly end, 'h' for SIGHUP. One at a time.
class SignalPipe {
 public:
  SignalPipe();
  ~SignalPipe();
  SignalPipe(const SignalPipe&) = delete;
  SignalPipe& operator=(const SignalPipe&) = delete;

  /// 0 when the time is over; a negative time waits for ever.
  char wait(std::chrono::milliseconds time);

 private:
  std::array<int, 2> ends_{-1, -1};
  std::optional<StopSignals> stop_;
};

std::chrono::milliseconds to_time(double seconds);

/// Nothing for 0, which is none; 0 for any that is free. Throws UsageError, naming the flag.
std::optional<std::uint16_t> port_of(const char* flag, const std::string& text);

/// Who may call, by the flags; warns of tokens that are short.
serving::Access access_of(const ServeFlags& flags);

/// Connections are descriptors, and shells start programs with few.
void allow_descriptors(std::size_t connections);

/// Result of `parse` for a file's text. Errors name flag and file.
template <typename Parse>
auto from_config_file(const char* flag, const std::string& path, const Parse& parse) {
  try {
    return parse(read_file(path, kMostConfigBytes));
  } catch (Error& error) {
    error.add_context(fmt::format("{} {}", flag, path));
    throw;
  }
}

}  // namespace muster::cli
