#include "muster/train/hooks/profiler_hook.h"

#include <utility>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/train/hooks/op_trace.h"

namespace muster {
namespace {

void write_trace(const Path& path, const std::string& json) {
  try {
    file_system_for(path).create_directories(path.parent_path());
    write_file_atomically(path, json, /*durable=*/false);
    log::info("saved timeline path={}", path.string());
  } catch (const Error& error) {
    log::error("a timeline is lost: {}", error.what());
  }
}

}  // namespace

ProfilerHook::ProfilerHook(ProfilerOptions options)
    : options_(std::move(options)),
      timer_("ProfilerHook", {.every_steps = options_.save_steps, .every_secs = options_.save_secs},
             options_.clock) {}

ProfilerHook::~ProfilerHook() = default;

void ProfilerHook::after_create_session(Session&) {
  timer_.reset();
  first_step_ = true;
  trace_.reset();
}

void ProfilerHook::before_run(Session& session) {
  if (std::exchange(first_step_, false)) return;
  if (timer_.should_trigger(session.global_step() + 1)) trace_ = std::make_unique<OpTrace>();
}

void ProfilerHook::after_run(Session& session) {
  if (!trace_) return;
  const std::int64_t step = session.global_step();
  const auto trace = std::exchange(trace_, nullptr);
  trace->stop();
  timer_.update_last_triggered(step);
  const Path folder = options_.output_dir.empty() ? session.output_dir() : options_.output_dir;
  write_trace(folder / fmt::format("timeline-{}.json", step),
              trace->chrome_json(options_.show_dataflow));
}

}  // namespace muster
