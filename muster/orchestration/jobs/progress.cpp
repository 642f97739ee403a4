#include "muster/orchestration/jobs/progress.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>

#include "muster/base/error.h"
#include "muster/base/lines.h"
#include "muster/base/log.h"
#include "muster/data/summary/event_reader.h"
#include "muster/orchestration/jobs/job_log.h"
#include "muster/orchestration/jobs/pace.h"

namespace muster::jobs {
namespace {

// A line of training says its step after this.
constexpr std::string_view kStepWords = ", step = ";

constexpr std::string_view kStepFlags[] = {"--train-steps", "--max-steps", "--train_steps",
                                           "--max_steps", "--steps"};

// A log is read from here before its end.
constexpr std::uint64_t kTailBytes = std::uint64_t{1} << 18;

std::optional<double> leading_number(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end == text.data() || !std::isfinite(number)) return std::nullopt;
  return number;
}

std::string_view text_behind(std::string_view line, std::string_view words) {
  const auto place = line.find(words);
  return place == std::string_view::npos ? "" : line.substr(place + words.size());
}

// The newest counts, wherever it is read.
void take_loss(double loss, std::int64_t step, Progress& progress) {
  if (progress.loss && step < progress.loss_step) return;
  progress.loss = loss;
  progress.loss_step = step;
}

void take(const Event& event, std::optional<Progress>& progress, Pace& pace) {
  const auto* summary = std::get_if<Summary>(&event.what);
  if (summary == nullptr) return;
  for (const SummaryValue& value : *summary) {
    const auto scalar = scalar_of(value);
    // The columns that a study writes are no step of a training.
    if (!scalar) continue;
    if (!progress) progress.emplace();
    progress->step = std::max(progress->step, event.step);
    if (value.tag == "loss") {
      take_loss(*scalar, event.step, *progress);
      pace.add(event.wall_time, event.step);
    }
    if (value.tag == "global_step/sec") progress->steps_per_second = *scalar;
  }
}

void take_events(const Job& job, std::optional<Progress>& progress, Pace& pace) {
  if (job.training_input.job_dir.empty()) return;
  const Path folder = job.local.working_directory / job.training_input.job_dir;
  if (!file_exists(folder) || event_files(folder).empty()) return;
  EventReader reader(folder);
  while (const auto event = reader.next()) take(*event, progress, pace);
}

void take_log(const Path& path, std::optional<Progress>& progress, Pace& pace) {
  if (!file_exists(path)) return;
  const auto file = file_system_for(path).open(path);
  const std::uint64_t size = file->size();
  const std::uint64_t begin = size > kTailBytes ? size - kTailBytes : 0;
  file->seek(begin);
  std::string tail(size - begin, '\0');
  tail.resize(file->read(tail));
  for (const std::string_view line : lines_of(tail)) {
    take_line(line, progress);
    const auto step = leading_number(text_behind(line, kStepWords));
    const auto time = step ? logger_time(line) : std::nullopt;
    if (!time) continue;
    const std::chrono::duration<double> seconds = time->time_since_epoch();
    pace.add(seconds.count(), static_cast<std::int64_t>(*step));
  }
}

// The log of its last attempt; of a back end that counts none, such as Kubernetes, those of all its
// pods, whose order does not matter.
std::vector<Path> chief_logs(const Job& job, const Path& folder) {
  const Path attempts = folder / "attempts";
  if (job.local.attempts > 0) {
    return {attempts / std::to_string(job.local.attempts) / (job.local.chief + ".log")};
  }
  std::vector<Path> logs;
  if (!file_exists(attempts)) return logs;
  for (const std::string& pod : file_system_for(attempts).list(attempts)) {
    logs.push_back(attempts / pod / (job.local.chief + "0.log"));
  }
  return logs;
}

}  // namespace

std::string Progress::loss_text() const {
  if (!loss) return "";
  return fmt::format("{:.6g}", *loss) +
         (loss_step == step ? "" : fmt::format(" at step {}", loss_step));
}

std::optional<double> Progress::seconds_left() const {
  if (max_steps && seconds_to_end) return seconds_to_end;
  if (!max_steps || !steps_per_second || *steps_per_second <= 0) return std::nullopt;
  return static_cast<double>(std::max<std::int64_t>(*max_steps - step, 0)) / *steps_per_second;
}

std::optional<std::int64_t> max_steps_of(const std::vector<std::string>& args) {
  for (std::size_t i = 0; i < args.size(); ++i) {
    for (const std::string_view flag : kStepFlags) {
      std::string_view word = args[i];
      if (!word.starts_with(flag)) continue;
      word.remove_prefix(flag.size());
      if (word.starts_with('=')) {
        word.remove_prefix(1);
      } else if (word.empty() && i + 1 < args.size()) {
        word = args[i + 1];
      } else {
        continue;
      }
      std::int64_t steps = 0;
      const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), steps);
      if (error == std::errc() && end == word.data() + word.size() && steps > 0) return steps;
    }
  }
  return std::nullopt;
}

void take_line(std::string_view line, std::optional<Progress>& progress) {
  const auto behind = [&](std::string_view words) { return text_behind(line, words); };
  const auto note_step = [&](double step) {
    if (!progress) progress.emplace();
    progress->step = std::max(progress->step, static_cast<std::int64_t>(step));
  };
  const auto step = leading_number(behind(kStepWords));
  const auto loss = leading_number(behind("loss = "));
  if (step && loss) {
    note_step(*step);
    take_loss(*loss, static_cast<std::int64_t>(*step), *progress);
  }
  if (const auto rate = leading_number(behind("global_step/sec: "))) {
    if (!progress) progress.emplace();
    progress->steps_per_second = rate;
  }
  if (const auto saved = leading_number(behind("Saving checkpoints for "))) note_step(*saved);
  // That step was saved before.
  if (const auto last = leading_number(behind("Loss for final step: "))) {
    if (!progress) progress.emplace();
    take_loss(*last, progress->step, *progress);
  }
}

std::optional<Progress> progress_of(const Job& job, const Path& folder) {
  std::optional<Progress> progress;
  Pace event_pace;
  Pace log_pace;
  try {
    take_events(job, progress, event_pace);
    for (const Path& log : chief_logs(job, folder)) take_log(log, progress, log_pace);
  } catch (const Error& error) {
    log::warning("no progress of the job {}: {}", job.job_id, error.what());
    return std::nullopt;
  }
  if (!progress || is_final(job.state)) return progress;
  progress->max_steps = max_steps_of(job.local.command);
  if (!progress->max_steps) return progress;
  // Lines are there at once, events minutes later.
  progress->seconds_to_end = log_pace.seconds_to(*progress->max_steps);
  if (!progress->seconds_to_end) {
    progress->seconds_to_end = event_pace.seconds_to(*progress->max_steps);
  }
  return progress;
}

std::string to_yaml(const Progress& progress) {
  std::string text = fmt::format("progress:\n  step: {}\n", progress.step);
  if (progress.max_steps) text += fmt::format("  maxSteps: {}\n", *progress.max_steps);
  if (progress.loss) text += fmt::format("  loss: {:.6g}\n", *progress.loss);
  if (progress.loss && progress.loss_step != progress.step) {
    text += fmt::format("  lossStep: {}\n", progress.loss_step);
  }
  if (progress.steps_per_second) {
    text += fmt::format("  stepsPerSecond: {:.6g}\n", *progress.steps_per_second);
  }
  if (const auto left = progress.seconds_left())
    text += fmt::format("  secondsLeft: {:.0f}\n", *left);
  return text;
}

}  // namespace muster::jobs
