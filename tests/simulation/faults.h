// Faults of a simulated run, as drawn from a seed or as text: kill@0.120:worker-0,
// stop@0.5:chief-0:1.25, cut@0.2:worker-0>chief-0:3, several with blanks between them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "muster/testing/simulation/world.h"

namespace muster::simulation {

struct Fault {
  enum class Kind : std::uint8_t {
    /// A process ends at once, and its supervisor starts it again.
    kKill,
    /// A host fails: its process is gone without a word, its disk has what was synced, and some of
    /// the rest. It is back after the span.
    kCrash,
    /// A process does not run for a while.
    kStop,
    /// A process is asked to end.
    kTerminate,
    /// A connection is reset; of what is on its way, some arrives.
    kReset,
    /// Nothing arrives from one host at another for a while.
    kCut,
    /// Nothing arrives at a host, and nothing from it at others, for a while.
    kIsolate,
    /// Messages from one host to another take longer for a while.
    kSlow,
    /// The disk of a host is full for a while.
    kFull,
    /// The disk of a host takes its time for a while.
    kSlowDisk,
    /// The wall clock of a host jumps, by the span.
    kClock,
    /// A task starts so much later than the others.
    kLate,
    /// A task is started a second time while it may be there, on its host and with its files; the
    /// second process is killed after the span.
    kTwin,
  };
  Kind kind = Kind::kKill;
  Time at = 0;
  int task = 0;
  /// The other end of a link.
  int other = 0;
  Time span = 0;
};

/// From the same seed the same faults, in the order of time, until `last`.
std::vector<Fault> draw_faults(std::uint64_t seed, std::size_t count, std::size_t tasks, Time last);

std::string to_text(const Fault& fault, const std::vector<std::string>& tasks);
std::string to_text(const std::vector<Fault>& faults, const std::vector<std::string>& tasks);
/// Throws InvalidArgument, naming the word.
std::vector<Fault> parse_faults(std::string_view text, const std::vector<std::string>& tasks);

}  // namespace muster::simulation
