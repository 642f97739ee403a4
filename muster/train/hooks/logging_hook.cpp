#include "muster/train/hooks/logging_hooks.h"

#include <utility>
#include <vector>

#include <fmt/ranges.h>

#include "muster/base/error.h"
#include "muster/base/log.h"

namespace muster {
namespace {

std::string to_text(const LoggedValue& value) {
  if (const auto* whole = std::get_if<std::int64_t>(&value)) return fmt::format("{}", *whole);
  return fmt::format("{}", static_cast<float>(std::get<double>(value)));
}

std::string default_format(const LoggedValues& values) {
  std::vector<std::string> parts;
  for (const auto& [name, value] : values) {
    // The loss, which readers look for, comes first, as the logs of the samples have it.
    const auto place = name == "loss" ? parts.begin() : parts.end();
    parts.insert(place, fmt::format("{} = {}", name, to_text(value)));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::optional<SecondOrStepTimer> timer_for(const LoggingOptions& options) {
  const bool only_at_end = options.at_end && !options.every_n_iter && !options.every_n_secs;
  if (only_at_end) return std::nullopt;
  return SecondOrStepTimer(
      "LoggingHook", {.every_steps = options.every_n_iter, .every_secs = options.every_n_secs},
      options.clock);
}

}  // namespace

LoggingHook::LoggingHook(LoggingOptions options)
    : options_(std::move(options)), timer_(timer_for(options_)) {
  if (options_.values.empty()) throw InvalidArgument("LoggingHook: there is nothing to log");
  for (const auto& [name, value] : options_.values) {
    if (!value) throw InvalidArgument("LoggingHook: the function of {} is empty", name);
  }
}

void LoggingHook::begin(Session&) {
  if (timer_) timer_->reset();
  last_line_.reset();
  iterations_ = 0;
}

void LoggingHook::after_run(Session& session) {
  const std::int64_t iteration = iterations_++;
  if (!timer_ || !timer_->should_trigger(iteration)) return;
  timer_->update_last_triggered(iteration);
  log_values(session);
}

void LoggingHook::end(Session& session) {
  if (options_.at_end && iterations_ > 0) log_values(session);
}

void LoggingHook::log_values(Session& session) {
  LoggedValues values;
  for (const auto& [name, value] : options_.values) values.emplace(name, value(session));
  const auto now = options_.clock();
  const auto before = std::exchange(last_line_, now);
  if (options_.formatter) {
    log::info("{}", options_.formatter(values));
  } else if (before) {
    log::info("{} ({:.3f} sec)", default_format(values), Seconds(now - *before).count());
  } else {
    log::info("{}", default_format(values));
  }
}

HookPtr make_loss_logging_hook(std::int64_t every_n_iter) {
  LoggingOptions options{.every_n_iter = every_n_iter};
  options.values["loss"] = [](Session& session) { return LoggedValue(session.loss()); };
  options.values["step"] = [](Session& session) { return LoggedValue(session.global_step()); };
  return std::make_shared<LoggingHook>(std::move(options));
}

}  // namespace muster
