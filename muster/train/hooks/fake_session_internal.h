#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "muster/base/log.h"
#include "muster/data/summary/event_reader.h"
#include "muster/data/summary/event_writer.h"
#include "muster/testing/temp_dir.h"
#include "muster/train/engine/hook.h"
#include "muster/train/hooks/second_or_step_timer.h"

/// For the tests of hooks: a run without a model, whose every value the test sets.
namespace muster::testing {

class FakeSession : public Session {
 public:
  FakeSession() { config_.model_dir = folder_.path(); }

  Mode mode() const override { return Mode::kTrain; }
  const RunConfig& config() const override { return config_; }
  std::int64_t global_step() const override { return step; }
  const Path& output_dir() const override { return config_.model_dir; }
  double loss() override { return ++loss_reads, loss_value; }
  const EstimatorSpec& spec() const override { return step_spec; }
  std::int64_t step_examples() const override { return examples; }
  std::map<std::string, double> learning_rates() const override { return rates; }
  EventWriter& events() override {
    if (!events_) events_ = std::make_unique<EventWriter>(output_dir());
    return *events_;
  }
  std::vector<NamedTensor> variables() const override { return {}; }
  void save_checkpoint(const SavingListeners& listeners) override {
    if (!saved_steps.empty() && saved_steps.back() == step) return;
    for (const auto& listener : listeners) listener->before_save(*this, step);
    saved_steps.push_back(step);
    for (const auto& listener : listeners) {
      if (listener->after_save(*this, step)) request_stop("a listener asked for it");
    }
  }
  void request_stop(std::string_view reason) override { stop_reasons.emplace_back(reason); }
  bool stop_requested() const override { return !stop_reasons.empty(); }

  /// One step as the loop makes it.
  void run(Hook& hook) {
    hook.before_run(*this);
    ++step;
    now += step_time;
    hook.after_run(*this);
  }
  void run(Hook& hook, int steps) {
    for (int i = 0; i < steps; ++i) run(hook);
  }

  ClockFn clock() {
    return [this] { return now; };
  }
  RunConfig& mutable_config() { return config_; }

  /// Events that the hook has written so far, without the file version.
  std::vector<Event> written_events() {
    events().flush();
    std::vector<Event> found;
    EventReader reader(output_dir());
    while (auto event = reader.next()) {
      if (!std::holds_alternative<FileVersion>(event->what)) found.push_back(std::move(*event));
    }
    return found;
  }

  std::int64_t step = 0;
  std::chrono::steady_clock::time_point now{};
  /// How long a step of run() takes.
  std::chrono::milliseconds step_time{0};
  double loss_value = 0;
  int loss_reads = 0;
  EstimatorSpec step_spec{};
  std::int64_t examples = 0;
  std::map<std::string, double> rates{};
  std::vector<std::int64_t> saved_steps{};
  std::vector<std::string> stop_reasons{};

 private:
  TempDir folder_;
  RunConfig config_{};
  std::unique_ptr<EventWriter> events_;
};

/// Keeps the messages that are logged during its lifetime, without the time in front of them.
class LogLines {
 public:
  LogLines() {
    log::set_sink([this](log::Level, std::string_view line) {
      const auto level_end = line.find(' ', line.find(' ') + 1);
      lines.emplace_back(line.substr(level_end + 1));
    });
  }
  ~LogLines() { log::set_sink({}); }
  LogLines(const LogLines&) = delete;
  LogLines& operator=(const LogLines&) = delete;

  std::vector<std::string> lines;
};

}  // namespace muster::testing
