#include <torch/types.h>

#include <algorithm>
#include <utility>

#include "muster/base/log.h"
#include "muster/distribution/parameter_server/ps_strategy_internal.h"
#include "muster/distribution/wire/step_parts_internal.h"

namespace muster::internal {
namespace {

/// Logs how old the values are that gradients were computed with, as the first server counts.
class StalenessLog {
 public:
  void note(const Values& answer, const RunConfig& config);
  void log_end() const;

 private:
  /// Now, and when they were last logged.
  Staleness staleness_;
  Staleness logged_;
  std::int64_t too_old_ = 0;
};

/// Tasks that go on by themselves.
class AsyncMembership final : public PsMembership {
 public:
  AsyncMembership(const RunConfig& config, const ParameterServerOptions& options)
      : PsMembership(config, options) {}

  void end(std::int64_t step, int signal) override {
    staleness_.log_end();
    PsMembership::end(step, signal);
  }
  StalenessLog& staleness() { return staleness_; }

 private:
  RunContract terms_of_run(RunContract own) const override {
    return asynchronous_terms(std::move(own), config().cluster.max_staleness);
  }
  // Others have made updates meanwhile: whatever this task has is old.
  Progress progress() const override { return {.step = -1}; }
  bool is_sent_state(const Source& /*source*/) const override { return true; }

  StalenessLog staleness_;
};

/// Every push is applied as it comes.
class AsyncReduction final : public PsReduction {
 public:
  AsyncReduction(const ParameterServerOptions& options, AsyncMembership& membership)
      : PsReduction(options, membership), log_(membership.staleness()) {}

 private:
  std::optional<StepResult> push(std::int64_t step, PartialSums own) override;
  void pull_slots() override;
  // Each server is at a step of its own, and the chief counts them when it is sent their state.
  bool servers_are_at_its_step() const override { return false; }
  AsyncPush push_of(const PartialSums& own) const;
  void send(std::size_t server, AsyncPush push, const StepNotes& notes);
  std::optional<std::vector<Values>> push_to_all(const AsyncPush& push, const StepNotes& notes);

  StalenessLog& log_;
};

std::string describe_async(const RunConfig& config) {
  const std::string bound = config.cluster.max_staleness > 0
                                ? fmt::format(", max_staleness={}", config.cluster.max_staleness)
                                : std::string();
  return fmt::format(
      "parameter server, asynchronous: {} tasks train, {} hold the variables{}; the weights depend "
      "on who was faster",
      config.cluster.task.num_worker_replicas, config.cluster.task.num_ps_replicas, bound);
}

// --------------------------------------------------------------------------------- a step

AsyncPush AsyncReduction::push_of(const PartialSums& own) const {
  AsyncPush push{.replicas = group().replicas(), .present = own.present, .examples = own.examples};
  for (const at::Tensor& loss : own.losses) {
    if (loss.defined()) push.loss += loss.item<double>() / static_cast<double>(own.present);
  }
  if (own.present > 0 && own.sums.begin()->second) {
    push.gradients = {own.sums.begin()->second->flat, {}, own.sums.begin()->second->rows};
  }
  return push;
}

// The server's part of it; what belongs to the whole run goes to the first.
void AsyncReduction::send(std::size_t server, AsyncPush push, const StepNotes& notes) {
  if (push.gradients) {
    push.gradients->ranges = servers().layout().flat(server);
    std::vector<RowGradient>& rows = push.gradients->rows;
    for (std::size_t table = 0; table < rows.size(); ++table) {
      rows[table] = servers().layout().rows_of(server, table, rows[table]);
    }
  }
  if (server == 0) {
    const auto first = notes.positions.begin();
    push.positions.assign(first + push.replicas.first, first + push.replicas.last);
    if (push.gradients && push.replicas.contains(0)) push.buffers.tensors = notes.buffers;
  }
  servers().send(server, push);
}

// The answers of all servers; nothing when the run has ended.
std::optional<std::vector<Values>> AsyncReduction::push_to_all(const AsyncPush& push,
                                                               const StepNotes& notes) {
  // A push without gradients is for the first server alone, which also says who may push where a
  // bound is set: two servers that both made tasks wait could wait for each other.
  const std::size_t count = push.gradients ? servers().count() : 1;
  const bool in_turn = config().cluster.max_staleness > 0;
  std::vector<Values> replies;
  const auto take = [&](std::size_t server) {
    auto reply = servers().take_answer(
        server, push.present > 0 ? "the values after a push" : "the next step", notes.buffers);
    if (reply) replies.push_back(std::move(*reply));
    return reply.has_value();
  };
  send(0, push, notes);
  if (in_turn && !take(0)) return std::nullopt;
  if (in_turn && replies.front().notes.dropped) return replies;
  for (std::size_t server = 1; server < count; ++server) send(server, push, notes);
  for (std::size_t server = in_turn ? 1 : 0; server < count; ++server) {
    if (!take(server)) return std::nullopt;
  }
  return replies;
}

std::optional<StepResult> AsyncReduction::push(std::int64_t /*step*/, PartialSums own) {
  // Gradients of this process alone are judged here, before others hear of them: a task that gets
  // the replica of a batch that ends the run is to stop there too.
  StepResult mine = participant().prepare_local_gradients(own);
  if (!tasks().check()) return std::nullopt;
  const StepNotes notes = notes_of(participant());
  auto replies = push_to_all(push_of(own), notes);
  if (!replies) return std::nullopt;
  const torch::NoGradGuard no_grad;
  for (std::size_t server = 0; server < replies->size(); ++server) {
    write_values((*replies)[server], server, servers().layout(), servers().variables(),
                 notes.buffers);
  }
  Values& first = replies->front();
  log_.note(first, config());
  // Without a batch it is told of the steps of others.
  StepResult result = own.present > 0 ? std::move(mine) : result_of(first.outcome);
  result.positions = std::move(first.positions);
  result.step = first.step;
  return result;
}

// Values too, so that both are of one moment of each server.
void AsyncReduction::pull_slots() {
  servers().ask_for_slots();
  if (!servers().take_state()) throw Internal("slots were asked for after the end of the run");
  servers().take_slots();
}

// ------------------------------------------------------------------------------------ staleness

void StalenessLog::note(const Values& answer, const RunConfig& config) {
  staleness_ = answer.notes.staleness;
  too_old_ = answer.notes.too_old;
  // The server that counted is lost, and another counts.
  if (staleness_.updates < logged_.updates) logged_ = {};
  const Staleness since{.updates = staleness_.updates - logged_.updates,
                        .sum = staleness_.sum - logged_.sum};
  if (!config.is_chief() || config.log_step_count_steps == 0) return;
  if (since.updates < config.log_step_count_steps) return;
  log::info("staleness: mean={:.2f} of the last {} updates, max={} of all, step = {}", since.mean(),
            since.updates, staleness_.max, answer.step);
  logged_ = staleness_;
}

void StalenessLog::log_end() const {
  log::info(
      "asynchronous run: staleness mean={:.2f} max={} of {} updates, {} pushes were too old and "
      "dropped",
      staleness_.mean(), staleness_.max, staleness_.updates, too_old_);
}

}  // namespace

std::unique_ptr<Strategy> make_async_strategy(const RunConfig& config,
                                              const ParameterServerOptions& options) {
  auto membership = std::make_unique<AsyncMembership>(config, options);
  auto reduction = std::make_unique<AsyncReduction>(options, *membership);
  return make_ps_strategy(describe_async(config), std::move(membership), std::move(reduction));
}

}  // namespace muster::internal
