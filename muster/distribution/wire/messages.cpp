#include "muster/distribution/wire/messages_internal.h"

#include <ATen/ops/full.h>

namespace muster::internal {
namespace {

void check_replicas(std::string_view message, const ReplicaRange& range, std::int64_t replicas) {
  if (range.first >= 0 && range.first <= range.last && range.last <= replicas) return;
  throw DataLoss("{} is about the replicas [{}, {}) of {}", message, range.first, range.last,
                 replicas);
}

}  // namespace

void GenerationPlan::check(const ExpectedTensors& /*expected*/) const {
  if (trainers > members.size()) {
    throw DataLoss("generation {} has {} tasks, of which {} train", number, members.size(),
                   trainers);
  }
  if (!members.empty() && members.front().shares_processor) {
    throw DataLoss("generation {} begins with a task that takes turns with one before it", number);
  }
}

void StepGradients::check(const ExpectedTensors& expected) const {
  check_replicas("a message", replicas, expected.replicas);
  if (static_cast<std::int64_t>(reports.size()) != replicas.size()) {
    throw DataLoss("a message has {} reports of {} replicas", reports.size(), replicas.size());
  }
  for (const TreePart& part : sums) {
    if (part.first < replicas.first || part.last > replicas.last || part.first >= part.last ||
        !TreeSum<Gradients>::is_part({part.first, part.last}, expected.replicas)) {
      throw DataLoss("a message has a sum over the replicas [{}, {}), which is no part of {}",
                     part.first, part.last, expected.replicas);
    }
  }
}

void AsyncPush::check(const ExpectedTensors& expected) const {
  check_replicas("a push", replicas, expected.replicas);
  if (!positions.empty() && static_cast<std::int64_t>(positions.size()) != replicas.size()) {
    throw DataLoss("a push has {} positions for {} replicas", positions.size(), replicas.size());
  }
}

void PushArrived::check(const ExpectedTensors& expected) const {
  if (rank >= expected.trainers) {
    throw DataLoss("a server has heard of task {} of {}", rank, expected.trainers);
  }
}

void StepChoice::check(const ExpectedTensors& expected) const {
  for (const auto* ranks : {&counted, &late}) {
    for (const std::size_t rank : *ranks) {
      if (rank < expected.trainers) continue;
      throw DataLoss("a choice names task {} of {}", rank, expected.trainers);
    }
  }
}

StepOutcome outcome_of(const StepResult& result) {
  StepOutcome outcome{
      .present = result.present, .examples = result.examples, .not_finite = result.not_finite};
  for (const at::Tensor& loss : result.losses) {
    outcome.losses.push_back(loss.defined() ? std::optional(loss.item<double>()) : std::nullopt);
  }
  return outcome;
}

StepResult result_of(const StepOutcome& outcome) {
  StepResult result{.present = outcome.present,
                    .examples = outcome.examples,
                    .losses = {},
                    .decay_loss = 0,
                    .not_finite = outcome.not_finite};
  for (const auto& loss : outcome.losses) {
    result.losses.push_back(loss ? at::full({}, *loss, at::kFloat) : at::Tensor());
  }
  return result;
}

}  // namespace muster::internal
