#include "muster/orchestration/jobs/progress.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "muster/base/error.h"
#include "muster/base/lines.h"
#include "muster/base/log.h"
#include "muster/data/summary/event_reader.h"

namespace muster::jobs {
namespace {

constexpr std::string_view kStepFlags[] = {"--train-steps", "--max-steps", "--train_steps",
                                           "--max_steps", "--steps"};

// A log is read from here before its end.
constexpr std::uint64_t kTailBytes = std::uint64_t{1} << 18;

// The newest counts, wherever it is read.
void take_loss(double loss, std::int64_t step, Progress& progress) {
  if (progress.loss && step < progress.loss_step) return;
  progress.loss = loss;
  progress.loss_step = step;
}

void take(const Event& event, std::optional<Progress>& progress) {
  const auto* summary = std::get_if<Summary>(&event.what);
  if (summary == nullptr) return;
  if (!progress) progress.emplace();
  for (const SummaryValue& value : *summary) {
    const auto scalar = scalar_of(value);
    if (!scalar) continue;
    if (value.tag == "loss") take_loss(*scalar, event.step, *progress);
    if (value.tag == "global_step/sec") progress->steps_per_second = *scalar;
  }
  progress->step = std::max(progress->step, event.step);
}

void take_events(const Job& job, std::optional<Progress>& progress) {
  if (job.training_input.job_dir.empty()) return;
  const Path folder = job.local.working_directory / job.training_input.job_dir;
  if (!file_exists(folder) || event_files(folder).empty()) return;
  EventReader reader(folder);
  while (const auto event = reader.next()) take(*event, progress);
}

void take_log(const Path& path, std::optional<Progress>& progress) {
  if (!file_exists(path)) return;
  const auto file = file_system_for(path).open(path);
  const std::uint64_t size = file->size();
  const std::uint64_t begin = size > kTailBytes ? size - kTailBytes : 0;
  file->seek(begin);
  std::string tail(size - begin, '\0');
  tail.resize(file->read(tail));
  for (const std::string_view line : lines_of(tail)) take_line(line, progress);
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

std::optional<double> leading_number(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end == text.data() || !std::isfinite(number)) return std::nullopt;
  return number;
}

}  // namespace

std::string Progress::loss_text() const {
  if (!loss) return "";
  return fmt::format("{:.6g}", *loss) +
         (loss_step == step ? "" : fmt::format(" at step {}", loss_step));
}

std::optional<double> Progress::seconds_left() const {
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
  const auto behind = [&](std::string_view words) -> std::string_view {
    const auto place = line.find(words);
    return place == std::string_view::npos ? "" : line.substr(place + words.size());
  };
  const auto note_step = [&](double step) {
    if (!progress) progress.emplace();
    progress->step = std::max(progress->step, static_cast<std::int64_t>(step));
  };
  const auto step = leading_number(behind(", step = "));
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
  try {
    take_events(job, progress);
    for (const Path& log : chief_logs(job, folder)) take_log(log, progress);
  } catch (const Error& error) {
    log::warning("no progress of the job {}: {}", job.job_id, error.what());
    return std::nullopt;
  }
  if (progress && !is_final(job.state)) progress->max_steps = max_steps_of(job.local.command);
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
