#include "tests/simulation/faults.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "muster/base/error.h"
#include "muster/base/random.h"

namespace muster::simulation {
namespace {

using Kind = Fault::Kind;

struct KindEntry {
  Kind kind;
  std::string_view name;
  /// How often it is drawn, beside the others.
  std::uint64_t share;
  bool has_task = true;
  bool has_other = false;
  bool has_span = true;
  /// Seconds.
  double longest = 3.0;
};

constexpr std::array<KindEntry, 13> kKinds{{
    {.kind = Kind::kKill, .name = "kill", .share = 6, .has_span = false},
    {.kind = Kind::kCrash, .name = "crash", .share = 2, .longest = 5.0},
    {.kind = Kind::kStop, .name = "stop", .share = 3, .longest = 5.0},
    {.kind = Kind::kTerminate, .name = "terminate", .share = 2, .has_span = false},
    {.kind = Kind::kReset, .name = "reset", .share = 3, .has_task = false, .has_span = false},
    {.kind = Kind::kCut, .name = "cut", .share = 3, .has_other = true, .longest = 6.0},
    {.kind = Kind::kIsolate, .name = "isolate", .share = 2, .longest = 6.0},
    {.kind = Kind::kSlow, .name = "slow", .share = 2, .has_other = true, .longest = 2.0},
    {.kind = Kind::kFull, .name = "full", .share = 1, .longest = 1.0},
    {.kind = Kind::kSlowDisk, .name = "slow-disk", .share = 1, .longest = 1.0},
    {.kind = Kind::kClock, .name = "clock", .share = 1, .longest = 4000.0},
    {.kind = Kind::kLate, .name = "late", .share = 1, .longest = 2.0},
    {.kind = Kind::kTwin, .name = "twin", .share = 2, .longest = 6.0},
}};

const KindEntry& entry_of(Kind kind) { return *std::ranges::find(kKinds, kind, &KindEntry::kind); }

Kind draw_kind(Random& random) {
  std::uint64_t all = 0;
  for (const KindEntry& entry : kKinds) all += entry.share;
  std::uint64_t drawn = random.below(all);
  for (const KindEntry& entry : kKinds) {
    if (drawn < entry.share) return entry.kind;
    drawn -= entry.share;
  }
  return Kind::kKill;
}

// Short spans are as likely as long ones. To the microsecond, as text has it.
Time draw_span(Random& random, double longest) {
  const double seconds = longest * std::pow(10.0, -3.0 * random.uniform());
  return static_cast<Time>(seconds * 1e6) * kMicrosecond;
}

[[noreturn]] void refuse(std::string_view word) {
  throw InvalidArgument(
      "not a fault: '{}'; give KIND@SECONDS:TASK[>OTHER][:SPAN], as in kill@0.120:worker-0 and "
      "cut@0.2:worker-0>chief-0:3",
      word);
}

Time parse_seconds(std::string_view text, std::string_view word) {
  double seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (error != std::errc() || end != text.data() + text.size()) refuse(word);
  return std::llround(seconds * 1e6) * kMicrosecond;
}

int parse_task(std::string_view text, const std::vector<std::string>& tasks,
               std::string_view word) {
  const auto found = std::ranges::find(tasks, text);
  if (found == tasks.end()) refuse(word);
  return static_cast<int>(found - tasks.begin());
}

// Takes what stands before the mark off the text.
std::string_view take_until(std::string_view& text, char mark) {
  const auto at = text.find(mark);
  const std::string_view taken = text.substr(0, at);
  text.remove_prefix(at == std::string_view::npos ? text.size() : at + 1);
  return taken;
}

Fault parse_fault(std::string_view word, const std::vector<std::string>& tasks) {
  std::string_view rest = word;
  const std::string_view name = take_until(rest, '@');
  const auto* const entry = std::ranges::find(kKinds, name, &KindEntry::name);
  if (entry == kKinds.end()) refuse(word);
  Fault fault{.kind = entry->kind, .at = parse_seconds(take_until(rest, ':'), word)};
  if (entry->has_task) {
    std::string_view ends = take_until(rest, ':');
    fault.task = parse_task(take_until(ends, '>'), tasks, word);
    if (entry->has_other) fault.other = parse_task(ends, tasks, word);
  }
  if (entry->has_span) fault.span = parse_seconds(rest, word);
  return fault;
}

std::string seconds_text(Time time) {
  return fmt::format("{:.6f}", static_cast<double>(time) / kSecond);
}

}  // namespace

std::vector<Fault> draw_faults(std::uint64_t seed, std::size_t count, std::size_t tasks,
                               Time last) {
  Random random(seed, 0, 42);
  std::vector<Fault> faults;
  faults.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    const KindEntry& entry = entry_of(draw_kind(random));
    Fault fault{
        .kind = entry.kind,
        .at = static_cast<Time>(random.below(static_cast<std::uint64_t>(last / kMicrosecond))) *
              kMicrosecond};
    if (entry.has_task) fault.task = static_cast<int>(random.below(tasks));
    // Without others, what a link would have is nothing.
    if (entry.has_other && tasks > 1) {
      fault.other = static_cast<int>(
          (static_cast<std::uint64_t>(fault.task) + 1 + random.below(tasks - 1)) % tasks);
    }
    if (entry.has_span) fault.span = draw_span(random, entry.longest);
    if (entry.kind == Kind::kClock && random.coin()) fault.span = -fault.span;
    if (entry.kind == Kind::kLate) fault.at = 0;
    faults.push_back(fault);
  }
  std::ranges::stable_sort(faults, {}, &Fault::at);
  return faults;
}

std::string to_text(const Fault& fault, const std::vector<std::string>& tasks) {
  const KindEntry& entry = entry_of(fault.kind);
  std::string text = fmt::format("{}@{}", entry.name, seconds_text(fault.at));
  if (entry.has_task) text += ":" + tasks[static_cast<std::size_t>(fault.task)];
  if (entry.has_other) text += ">" + tasks[static_cast<std::size_t>(fault.other)];
  if (entry.has_span) text += ":" + seconds_text(fault.span);
  return text;
}

std::string to_text(const std::vector<Fault>& faults, const std::vector<std::string>& tasks) {
  std::string text;
  for (const Fault& fault : faults) text += (text.empty() ? "" : " ") + to_text(fault, tasks);
  return text;
}

std::vector<Fault> parse_faults(std::string_view text, const std::vector<std::string>& tasks) {
  std::vector<Fault> faults;
  while (!text.empty()) {
    const std::string_view word = take_until(text, ' ');
    if (!word.empty()) faults.push_back(parse_fault(word, tasks));
  }
  std::ranges::stable_sort(faults, {}, &Fault::at);
  return faults;
}

}  // namespace muster::simulation
