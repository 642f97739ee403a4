#include "muster/train/engine/local_participant.h"

#include <memory>
#include <utility>

#include "muster/nn/optim/weight_decay.h"

namespace muster {

RunSnapshot LocalParticipant::snapshot() {
  return {.step = run_.step(),
          .skipped_batches = run_.nan_guard.bad_steps(),
          .inputs_from = run_.inputs.first(),
          .state_json = to_json(run_.run_state()),
          .tensors = run_.state.variables()};
}

ReadSaved LocalParticipant::last_saved() {
  auto from = run_.last_saved();
  if (!from) return nullptr;
  return [this, saved = std::make_shared<ResumePoint>(std::move(*from))](const std::string& name) {
    return decode(saved->checkpoint.bundle, name, run_.state.layouts().of(name));
  };
}

double LocalParticipant::decay_loss() const {
  return decay_loss_ahead_ ? *decay_loss_ahead_ : weight_decay();
}

double LocalParticipant::weight_decay() const {
  return run_.options.weight_decay.factor > 0
             ? weight_decay_loss(run_.state.towers().variables(), run_.options.weight_decay)
             : 0.0;
}

StepResult LocalParticipant::update(std::int64_t step, PartialSums total) {
  return update_held(step, std::move(total), nullptr).value();
}

// Those of all gradients, of which others hold some where they are to be joined.
std::optional<SquareSums> LocalParticipant::norms_of(const Gradients& mean,
                                                     const JoinNorms& join) const {
  const HostUpdate& host_update = run_.state.host_update();
  if (join == nullptr) return host_update.norms(mean);
  if (host_update.rules().needs_norms_of_all()) return join(mean);
  return SquareSums(run_.state.towers().variables());
}

std::optional<StepResult> LocalParticipant::update_held(std::int64_t step, PartialSums total,
                                                        const JoinNorms& join) {
  StepResult result{
      .present = total.present, .examples = total.examples, .losses = std::move(total.losses)};
  if (result.present == 0) return result;
  HostUpdate& host_update = run_.state.host_update();
  LossScale& scale = run_.state.scale();
  Gradients mean = take_mean(total);
  if (!all_finite(result.losses)) {
    result.not_finite = "loss";
    return result;
  }
  result.decay_loss = host_update.prepare(mean, scale.value());
  const std::optional<SquareSums> norms = norms_of(mean, join);
  if (!norms) return std::nullopt;
  const bool finite = host_update.is_finite(mean, *norms);
  // An overflow of float16 is the scale's business: it shrinks, and the batch is skipped.
  result.overflowed = scale.enabled() && !scale.update(finite);
  if (result.overflowed) return result;
  if (!finite) {
    result.not_finite = "gradient";
    return result;
  }
  host_update.apply(mean, step, *norms);
  return result;
}

StepResult LocalParticipant::prepare_local_gradients(PartialSums& own) {
  StepResult result{.present = own.present, .examples = own.examples, .losses = own.losses};
  if (own.present == 0) return result;
  std::optional<Gradients> total;
  for (auto& [part, sum] : own.sums) {
    if (!sum) continue;
    if (total) {
      add_gradients(*total, *sum);
    } else {
      total = std::move(sum);
    }
  }
  const ReplicaRange mine = run_.mine;
  own.sums = {{{mine.first, mine.last}, std::move(total)}};
  const HostUpdate& host_update = run_.state.host_update();
  Gradients mean = take_mean(own);
  if (!all_finite(result.losses)) {
    result.not_finite = "loss";
  } else {
    host_update.prepare(mean, run_.state.scale().value());
    const SquareSums norms = host_update.norms(mean);
    if (!host_update.is_finite(mean, norms)) result.not_finite = "gradient";
    host_update.clip(mean, norms);
  }
  const bool is_finite = result.not_finite.empty();
  if (!is_finite) {
    run_.nan_guard.inspect(run_.inputs.batches());
    run_.nan_guard.stop_if_none_allowed(result.not_finite, run_.step() + 1);
  }
  own.sums[{mine.first, mine.last}] = is_finite ? std::optional(std::move(mean)) : std::nullopt;
  return result;
}

}  // namespace muster
