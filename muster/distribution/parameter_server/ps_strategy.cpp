#include <torch/types.h>

#include <algorithm>
#include <utility>

#include "muster/base/log.h"
#include "muster/distribution/membership/snapshot_internal.h"
#include "muster/distribution/parameter_server/ps_strategy_internal.h"
#include "muster/engine/arithmetic.h"
#include "muster/estimator/estimator.h"

namespace muster::internal {

void PsStrategy::check(const EstimatorOptions& options) const {
  if (options.moving_average) {
    throw Unimplemented(
        "moving_average needs the variables in the process; train without ps tasks");
  }
  if (config_.reproducibility.precision == ComputeType::kFloat16) {
    throw Unimplemented(
        "RunConfig: precision float16 needs the variables in the process, where its loss scale is; "
        "train without ps tasks, or with bfloat16");
  }
}

// Those who hold the variables have no GPU, and are held to the same words.
RunTerms PsStrategy::join(const RunTerms& own) {
  RunTerms terms = own;
  terms.arithmetic = arithmetic(config_.reproducibility.own_cpu_kernels).fingerprint();
  terms = membership_.join(terms_of_run(std::move(terms)));
  log_terms(terms);
  return terms;
}

void PsStrategy::attach(Participant& participant) {
  participant_ = &participant;
  variables_ = &participant.run_variables();
  layout_.emplace(*variables_, static_cast<std::size_t>(config_.cluster.task.num_ps_replicas));
}

std::optional<StepResult> PsStrategy::apply(std::int64_t step, PartialSums own) {
  has_slots_ = false;
  // Of the values that the step began with, as where one process makes it.
  const double decay_loss = participant_->decay_loss();
  auto result = push(step, std::move(own));
  if (result) result->decay_loss = decay_loss;
  return result;
}

void PsStrategy::fetch_slots() {
  if (has_slots_) return;
  pull_slots();
  has_slots_ = true;
}

std::optional<Values> PsStrategy::take_answer(std::size_t server, const std::string& what,
                                              const std::vector<at::Tensor>& buffers) {
  return group_->take<Values>(server_rank(server), what,
                              {.flat_size = layout_->flat_size(server),
                               .tables = table_shapes(*variables_),
                               .buffers = buffers});
}

std::optional<std::vector<Values>> PsStrategy::take_answers(
    const std::string& what, const std::vector<at::Tensor>& buffers) {
  std::vector<Values> answers;
  for (std::size_t server = 0; server < layout_->servers(); ++server) {
    auto answer = take_answer(server, what, buffers);
    if (!answer) return std::nullopt;
    answers.push_back(std::move(*answer));
  }
  const torch::NoGradGuard no_grad;
  for (std::size_t server = 0; server < answers.size(); ++server) {
    write_values(answers[server], server, *layout_, *variables_, buffers);
  }
  return answers;
}

std::optional<RunSnapshot> PsStrategy::take_state() {
  const auto values = take_answers("the state of the run", untrained(*variables_));
  if (!values) return std::nullopt;
  return snapshot_of(values->front());
}

RunSnapshot PsStrategy::snapshot_of(const Values& values) {
  return {.step = values.step,
          .left_out = values.left_out,
          .inputs_from = values.inputs_from,
          .state_json = values.state_json};
}

// False when the run has ended.
bool PsStrategy::join_state(const Source& source) {
  if (!source.go_back) {
    if (!is_sent_state(source)) return true;
    const auto state = take_state();
    if (!state) return false;
    log::info("going on from step {} of the servers", state->step);
    participant_->take_over(*state);
    return true;
  }
  if (group_->rank() != source.rank) {
    participant_->take_over(receive_snapshot(*group_, source.rank, participant_->snapshot()));
    return true;
  }
  if (was_in_run_) {
    log::warning("a server has lost its variables: all go back to the last checkpoint");
    participant_->go_back();
  }
  const RunSnapshot own = participant_->snapshot();
  for (const std::size_t to : source.to) send_snapshot(*group_, own, to);
  return true;
}

void PsStrategy::synchronize() {
  has_slots_ = false;
  const auto take = [this](Group& group, const Source& source) {
    group_ = &group;
    if (!join_state(source)) return false;
    has_state_ = true;
    was_in_run_ = true;
    on_generation();
    return true;
  };
  internal::synchronize(
      membership_, synchronize_deadline(config_, has_state_), [this] { return progress(); }, take);
  group_ = &membership_.group();
}

void PsStrategy::ask_for_slots() {
  for (std::size_t server = 0; server < layout_->servers(); ++server) {
    group_->send(server_rank(server), SlotsRequest{});
  }
}

bool PsStrategy::has_slots(std::size_t server) const {
  return std::ranges::any_of(
      slot_pieces(*layout_, server, *variables_, participant_->run_updater()),
      [](const at::Tensor& piece) { return piece.numel() > 0; });
}

void PsStrategy::take_slots_of(std::size_t server) {
  const torch::NoGradGuard no_grad;
  for (const at::Tensor& piece :
       slot_pieces(*layout_, server, *variables_, participant_->run_updater())) {
    if (piece.numel() == 0) continue;
    const auto slot = group_->take<SlotPiece>(server_rank(server), "the slots");
    if (!slot) throw Internal("slots were asked for after the end of the run");
    piece.copy_(slot->values.as_tensor(piece.sizes(), piece.scalar_type()));
  }
}

void PsStrategy::take_slots() {
  for (std::size_t server = 0; server < layout_->servers(); ++server) take_slots_of(server);
}

}  // namespace muster::internal

namespace muster {

std::unique_ptr<Strategy> make_parameter_server(const RunConfig& config,
                                                const ParameterServerOptions& options) {
  if (config.cluster.task.num_ps_replicas == 0) {
    throw InvalidArgument("the cluster {} has no ps task to hold variables",
                          config.cluster.task.cluster.to_string());
  }
  return config.cluster.sync ? internal::make_sync_strategy(config, options)
                             : internal::make_async_strategy(config, options);
}

}  // namespace muster
