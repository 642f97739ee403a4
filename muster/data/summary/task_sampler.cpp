#include "muster/data/summary/task_sampler.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/base/wait.h"
#include "muster/data/summary/event_writer.h"

namespace muster {
namespace {

constexpr double kUsualSeconds = 10;
constexpr double kMostSeconds = 86'400;

double seconds_between_samples() {
  const char* text = std::getenv("MUSTER_MACHINE_SECONDS");
  if (text == nullptr || *text == '\0') return kUsualSeconds;
  char* end = nullptr;
  const double seconds = std::strtod(text, &end);
  if (*end == '\0' && seconds >= 0 && seconds <= kMostSeconds) return seconds;
  log::warning("MUSTER_MACHINE_SECONDS must be a number of seconds, 0 for no samples, ignored: {}",
               text);
  return kUsualSeconds;
}

Summary summary_of(NamedValues values) {
  Summary summary;
  for (auto& [name, value] : values) {
    summary.push_back({.tag = std::move(name), .data = static_cast<float>(value)});
  }
  return summary;
}

}  // namespace

std::optional<std::chrono::milliseconds> TaskSampler::period() {
  const double seconds = seconds_between_samples();
  if (seconds == 0) return std::nullopt;
  return std::chrono::milliseconds(std::max<std::int64_t>(1, std::llround(seconds * 1000)));
}

Path TaskSampler::folder_of(const Path& model_dir, const std::string& task) {
  std::string name = "machine." + (task.empty() ? "local" : task);
  for (char& c : name) c = c == ':' || c == '/' ? '_' : c;
  return model_dir / name;
}

TaskSampler::TaskSampler(TaskSamplerOptions options)
    : options_(std::move(options)), thread_([this](const std::stop_token& stop) { run(stop); }) {}

void TaskSampler::run(const std::stop_token& stop) const {
  try {
    MachineUse machine;
    std::optional<EventWriter> events;
    while (nap(stop, options_.period)) {
      NamedValues values = machine.read();
      if (options_.more) {
        for (auto& value : options_.more()) values.push_back(std::move(value));
      }
      // Readers see each sample when it is there.
      if (!events)
        events.emplace(options_.folder, EventWriterOptions{.flush_period = options_.period});
      events->add(summary_of(std::move(values)), options_.step());
    }
  } catch (const std::exception& error) {
    log::warning("the use of the machine is no longer recorded: {}", error.what());
  }
}

}  // namespace muster
