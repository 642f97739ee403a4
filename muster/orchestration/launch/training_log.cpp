#include "muster/orchestration/launch/training_log.h"

#include <fmt/core.h>

#include <initializer_list>
#include <string_view>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/local_time.h"

namespace muster::launch {
namespace {

// The value of "--name=value" or "--name value", with '-' and '_' alike; empty without one.
std::string value_of(const std::vector<std::string>& command,
                     std::initializer_list<std::string_view> names) {
  for (std::size_t i = 0; i < command.size(); ++i) {
    std::string_view word = command[i];
    if (!word.starts_with("--")) continue;
    const auto equals = word.find('=');
    std::string flag(word.substr(2, equals == std::string_view::npos ? equals : equals - 2));
    for (char& c : flag) c = c == '_' ? '-' : c;
    for (const std::string_view name : names) {
      if (flag != name) continue;
      if (equals != std::string_view::npos) return std::string(word.substr(equals + 1));
      if (i + 1 < command.size()) return command[i + 1];
    }
  }
  return "";
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const auto& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

void append(const Path& file, std::string_view text) {
  const auto out = file_system_for(file).append(file);
  out->write(text);
  out->close();
}

std::uint64_t size_of(const Path& file) {
  const auto status = file_system_for(file).status(file);
  return status ? status->size_bytes : 0;
}

}  // namespace

std::string job_name(const std::string& environment, const std::string& prefix,
                     std::chrono::system_clock::time_point time) {
  return fmt::format("{}-{}_{}", environment, prefix, local_time(time, "%Y%m%d_%H_%M_%S"));
}

std::string to_markdown(const TrainingLogEntry& entry) {
  const auto& command = entry.command;
  return fmt::format(
      "---\n## {}\nLearning Rate: {}\nEpochs: {}\nBatch Size (train/eval): {}/ {}\nCommand: `{}`\n"
      "### Hypothesis\n{}{}### Results\n",
      entry.job, value_of(command, {"learning-rate", "lr"}),
      value_of(command, {"num-epochs", "epochs", "train-epochs"}),
      value_of(command, {"train-batch-size", "batch-size", "train-batch"}),
      value_of(command, {"eval-batch-size", "eval-batch"}), joined(command), entry.hypothesis,
      entry.hypothesis.empty() ? "" : "\n");
}

TrainingLog::TrainingLog(Path file, const TrainingLogEntry& entry) : file_(std::move(file)) {
  append(file_, to_markdown(entry));
  size_bytes_ = size_of(file_);
}

void TrainingLog::add_outcome(const std::string& outcome) {
  if (size_of(file_) != size_bytes_) return;
  append(file_, outcome + "\n");
}

}  // namespace muster::launch
