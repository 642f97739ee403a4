#include "muster/orchestration/jobs/job.h"

#include <fmt/core.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>
#include <utility>

#include "muster/base/error.h"

namespace muster::jobs {
namespace {

using std::chrono::duration_cast;
using std::chrono::microseconds;

constexpr std::size_t kMostNameBytes = 128;
constexpr std::size_t kMostLabelBytes = 63;
constexpr std::size_t kMostLabels = 64;

constexpr std::array<std::pair<State, std::string_view>, 7> kStates{{
    {State::kQueued, "QUEUED"},
    {State::kPreparing, "PREPARING"},
    {State::kRunning, "RUNNING"},
    {State::kSucceeded, "SUCCEEDED"},
    {State::kFailed, "FAILED"},
    {State::kCancelling, "CANCELLING"},
    {State::kCancelled, "CANCELLED"},
}};

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Letters of other alphabets are bytes beyond ASCII here.
bool is_label_character(char c) {
  return (c >= 'a' && c <= 'z') || is_digit(c) || c == '_' || c == '-' ||
         static_cast<unsigned char>(c) >= 0x80;
}

bool is_label_text(std::string_view text) {
  return text.size() <= kMostLabelBytes &&
         std::all_of(text.begin(), text.end(), is_label_character);
}

}  // namespace

std::string_view name_of(State state) {
  for (const auto& [known, name] : kStates) {
    if (known == state) return name;
  }
  throw Internal("there is no state {}", static_cast<int>(state));
}

State parse_state(std::string_view name) {
  for (const auto& [state, known] : kStates) {
    if (known == name) return state;
  }
  throw InvalidArgument("there is no state of a job \"{}\"", name);
}

bool is_final(State state) {
  return state == State::kSucceeded || state == State::kFailed || state == State::kCancelled;
}

std::string to_text(Time time) {
  const auto micros = duration_cast<microseconds>(time.time_since_epoch()).count();
  const time_t seconds = micros / 1'000'000;
  tm parts{};
  ::gmtime_r(&seconds, &parts);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:06}Z", parts.tm_year + 1900,
                     parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec,
                     micros % 1'000'000);
}

Time parse_time(std::string_view text) {
  tm parts{};
  int micros = 0;
  int used = 0;
  const std::string copy(text);
  const int found =
      std::sscanf(copy.c_str(), "%4d-%2d-%2dT%2d:%2d:%2d.%6dZ%n", &parts.tm_year, &parts.tm_mon,
                  &parts.tm_mday, &parts.tm_hour, &parts.tm_min, &parts.tm_sec, &micros, &used);
  if (found != 7 || static_cast<std::size_t>(used) != copy.size()) {
    throw InvalidArgument("not a time such as 2026-03-01T10:04:11.532000Z: \"{}\"", text);
  }
  parts.tm_year -= 1900;
  parts.tm_mon -= 1;
  return std::chrono::system_clock::from_time_t(::timegm(&parts)) + microseconds(micros);
}

void check_job_name(std::string_view name) {
  const bool is_good = !name.empty() && name.size() <= kMostNameBytes && is_letter(name.front()) &&
                       std::all_of(name.begin(), name.end(),
                                   [](char c) { return is_letter(c) || is_digit(c) || c == '_'; });
  if (is_good) return;
  throw InvalidArgument(
      "a job's name is a letter, then letters, digits and underscores, {} at most: \"{}\"",
      kMostNameBytes, name);
}

void check_labels(const std::map<std::string, std::string>& labels) {
  if (labels.size() > kMostLabels) {
    throw InvalidArgument("a job has {} labels at most, not {}", kMostLabels, labels.size());
  }
  for (const auto& [key, value] : labels) {
    const bool starts_well = !key.empty() && is_label_character(key.front()) &&
                             !is_digit(key.front()) && key.front() != '_' && key.front() != '-';
    if (!starts_well || !is_label_text(key)) {
      throw InvalidArgument(
          "the key of a label is a lower-case letter, then lower-case letters, digits, '_' and "
          "'-', {} at most: \"{}\"",
          kMostLabelBytes, key);
    }
    if (!is_label_text(value)) {
      throw InvalidArgument(
          "the value of the label \"{}\" may have lower-case letters, digits, '_' and '-', {} at "
          "most: \"{}\"",
          key, kMostLabelBytes, value);
    }
  }
}

std::string normalized_tier(std::string_view word) {
  constexpr std::string_view kPrefix = "SCALE_TIER_";
  std::string tier(word);
  std::transform(tier.begin(), tier.end(), tier.begin(), [](unsigned char c) {
    return c == '-' ? '_' : static_cast<char>(std::toupper(c));
  });
  return tier.starts_with(kPrefix) ? tier.substr(kPrefix.size()) : tier;
}

}  // namespace muster::jobs
