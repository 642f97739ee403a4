#include "muster/train/estimator/evaluation.h"

#include <torch/types.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/local_time.h"
#include "muster/base/log.h"
#include "muster/base/random.h"
#include "muster/data/summary/event_writer.h"
#include "muster/nn/model/exact_sum.h"
#include "muster/train/engine/seed_streams.h"
#include "muster/train/estimator/metric_tables.h"

namespace muster {
namespace {

std::string now_text() { return local_time(std::chrono::system_clock::now(), "%Y-%m-%d-%H:%M:%S"); }

/// The session that hooks of an evaluation see.
class EvaluationSession final : public Session {
 public:
  EvaluationSession(const RunConfig& config, std::int64_t global_step, Path output_dir,
                    EvaluationEvents& events)
      : config_(config),
        global_step_(global_step),
        output_dir_(std::move(output_dir)),
        events_(events) {}

  Mode mode() const override { return Mode::kEval; }
  const RunConfig& config() const override { return config_; }
  std::int64_t global_step() const override { return global_step_; }
  const Path& output_dir() const override { return output_dir_; }
  double loss() override { return spec_.loss.item<double>(); }
  const EstimatorSpec& spec() const override { return spec_; }
  std::int64_t step_examples() const override { return examples_; }
  std::map<std::string, double> learning_rates() const override { return {}; }
  EventWriter& events() override { return events_.of(output_dir_); }
  std::vector<NamedTensor> variables() const override { return {}; }
  void save_checkpoint(const SavingListeners&) override {
    throw FailedPrecondition("an evaluation saves no checkpoint");
  }
  void request_stop(std::string_view reason) override {
    if (!stopping_) log::info("ending the evaluation: {}", reason);
    stopping_ = true;
  }
  bool stop_requested() const override { return stopping_; }

  void set_step(EstimatorSpec spec, std::int64_t examples) {
    spec_ = std::move(spec);
    examples_ = examples;
  }

 private:
  const RunConfig& config_;
  std::int64_t global_step_;
  Path output_dir_;
  EstimatorSpec spec_;
  std::int64_t examples_ = 0;
  EvaluationEvents& events_;
  bool stopping_ = false;
};

// "Evaluation [i/N]": every one of a few, a tenth of many and the last; without N the tens of each
// size.
void log_progress(std::int64_t done, std::optional<std::int64_t> steps) {
  if (steps) {
    const std::int64_t period = *steps < 20 ? 1 : *steps / 10;
    if (done % period == 0 || done == *steps) log::info("Evaluation [{}/{}]", done, *steps);
  } else {
    log::progress(fmt::format("evaluation: {} batches", done));
  }
}

std::string describe_result(const EvaluationResult& result) {
  std::string text;
  for (const auto& [name, value] : result) {
    text += fmt::format("{}{} = {:g}", text.empty() ? "" : ", ", name, value);
  }
  return text;
}

EstimatorSpec call_with_place(EvaluationModel& model, const Batch& batch, std::int64_t before) {
  try {
    return model.call(batch, Mode::kEval);
  } catch (Error& error) {
    error.add_context(fmt::format("evaluating batch {}", before + 1));
    throw;
  }
}

void write_result(EvaluationSession& session, const EvaluationResult& result,
                  const std::map<std::string, MetricTable>& tables, const Path& checkpoint) {
  const std::int64_t step = session.global_step();
  log::info("Saving dict for global step {}: {}", step, describe_result(result));
  EventWriter& events = session.events();
  for (const auto& [name, value] : result) {
    if (name != "global_step") events.add_scalar(name, value, step);
  }
  write_tables(events, tables, step);
  nlohmann::json line;
  if (!checkpoint.empty()) {
    events.add_text("checkpoint_path", checkpoint.string(), step);
    line["checkpoint"] = checkpoint.string();
  }
  events.flush();
  for (const auto& [name, value] : result) line[name] = value;
  line["global_step"] = step;
  const auto file =
      file_system_for(session.output_dir()).append(session.output_dir() / "metrics.jsonl");
  file->write(line.dump() + "\n");
  file->close();
}

}  // namespace

EvaluationResult run_evaluation(EvaluationModel& model, const RunConfig& config,
                                const InputFn& input_fn, const EvaluateOptions& evaluate_options,
                                const Path& output_dir, EvaluationEvents& events) {
  if (evaluate_options.steps && *evaluate_options.steps <= 0) {
    throw InvalidArgument("evaluate: steps must be positive: {}", *evaluate_options.steps);
  }
  log::info("Starting evaluation at {}", now_text());
  if (!model.checkpoint().empty()) {
    log::info("Restoring parameters from {}", model.checkpoint().string());
  }
  model.warn_of_unsettled_averages();
  file_system_for(output_dir).create_directories(output_dir);
  EvaluationSession session(config, model.global_step(), output_dir, events);
  const auto each_hook = [&](void (Hook::*call)(Session&)) {
    for (const auto& hook : evaluate_options.hooks) (hook.get()->*call)(session);
  };
  const auto input =
      input_fn(InputContext(Mode::kEval, 1, 0, derive_key(config.seed(), seed_stream::kEvalInput)))
          .iterate();
  const torch::NoGradGuard no_grad;
  MetricSet metrics;
  ExactSum losses;
  std::int64_t batches = 0;
  each_hook(&Hook::before_evaluation);
  each_hook(&Hook::begin);
  each_hook(&Hook::after_create_session);
  while (!session.stop_requested() &&
         (!evaluate_options.steps || batches < *evaluate_options.steps)) {
    auto batch = input->next();
    if (!batch) break;
    each_hook(&Hook::before_run);
    EstimatorSpec spec = call_with_place(model, *batch, batches);
    metrics.merge(spec.metrics);
    losses.add(spec.loss.item<double>() + model.decay_loss());
    session.set_step(std::move(spec), batch->size());
    each_hook(&Hook::after_run);
    log_progress(++batches, evaluate_options.steps);
  }
  log::progress("");
  if (batches == 0) throw InvalidArgument("evaluate: the input had no batch");
  each_hook(&Hook::end);
  log::info("Finished evaluation at {}", now_text());
  EvaluationResult result = metrics.compute();
  result["loss"] = losses.value() / static_cast<double>(batches);
  result["global_step"] = static_cast<double>(model.global_step());
  write_result(session, result, metrics.tables(), model.checkpoint());
  for (const auto& hook : evaluate_options.hooks) hook->after_evaluation(session, result);
  return result;
}

}  // namespace muster
