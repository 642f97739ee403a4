#include "muster/distribution/parameter_server/ps_membership_internal.h"

#include <utility>

#include "muster/base/log.h"
#include "muster/distribution/membership/snapshot_internal.h"
#include "muster/train/engine/arithmetic.h"

namespace muster::internal {

// Those who hold the variables have no GPU, and are held to the same words.
RunContract PsMembership::join(const RunContract& own) {
  RunContract terms = own;
  terms.arithmetic = numerics_fingerprint(config().reproducibility.own_cpu_kernels).fingerprint();
  terms = tasks().join(terms_of_run(std::move(terms)));
  log_terms(terms);
  return terms;
}

void PsMembership::attach(Participant& participant) {
  ClusterMembership::attach(participant);
  servers_.attach(participant);
}

// False when the run has ended.
bool PsMembership::join_state(const Source& source) {
  if (!source.go_back) {
    if (!is_sent_state(source)) return true;
    const auto state = servers_.take_state();
    if (!state) return false;
    log::info("going on from step {} of the servers", state->step);
    participant().restore_snapshot(*state);
    return true;
  }
  if (group().rank() != source.rank) {
    participant().restore_snapshot(
        receive_snapshot(group(), source.rank, participant().snapshot()));
    return true;
  }
  if (was_in_run_) {
    log::warning("a server has lost its variables: all go back to the last checkpoint");
    participant().roll_back_to_checkpoint();
  }
  const RunSnapshot own = participant().snapshot();
  for (const std::size_t to : source.to) send_snapshot(group(), own, to);
  return true;
}

void PsMembership::synchronize() {
  end_generation_();
  const auto take = [this](Group& next, const Source& source) {
    set_group(next);
    if (!join_state(source)) return false;
    note_state();
    was_in_run_ = true;
    return true;
  };
  internal::synchronize(
      tasks(), synchronize_deadline(config(), has_state()), [this] { return progress(); }, take);
  set_group(tasks().group());
}

}  // namespace muster::internal
