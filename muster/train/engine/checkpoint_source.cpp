#include "muster/train/engine/checkpoint_source.h"

#include <utility>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/data/checkpoint/checkpoint.h"
#include "muster/data/checkpoint/checkpoint_parts.h"
#include "muster/train/engine/tensor_codec.h"

namespace muster {

// Others write what they have where that is worth it, or it is brought here.
void CheckpointSource::fetch() {
  // They were written before, for a save of this step that has failed or is only now made.
  if (parts_ && parts_step_ == run_.step() && !parts_->failure() && !parts_->is_published()) return;
  parts_step_ = run_.step();
  auto next = may_have_parts() ? reduction_.begin_parts(parts_step_) : nullptr;
  parts_ = std::move(next);
  if (!parts_) reduction_.fetch_slots();
}

// A process that is lost while it writes its part of the first checkpoint would leave none to go
// back to.
bool CheckpointSource::may_have_parts() {
  if (!has_checkpoint_ && run_.config.is_chief() && run_.is_shared()) {
    has_checkpoint_ = latest_checkpoint(run_.config.model_dir).has_value();
  }
  return has_checkpoint_;
}

void CheckpointSource::fetch_last() {
  if (!parts_ || parts_step_ != run_.step()) fetch();
  if (!parts_) return;
  try {
    parts_->wait();
  } catch (const Unavailable& error) {
    log::warning("the last checkpoint is written by the chief alone: {}", error.what());
    parts_.reset();
    reduction_.fetch_slots();
  }
}

CheckpointContent CheckpointSource::content() const {
  const RunState state = run_.run_state();
  if (!state.input_obstacle.empty() && !run_.progress.saved_any()) {
    log::warning("the input's position is not saved, a resume will restart it: {}",
                 state.input_obstacle);
  }
  auto tensors = run_.state.checkpoint_tensors(run_.step());
  if (parts_) {
    std::erase_if(tensors,
                  [this](const NamedTensor& named) { return parts_->contains(named.name); });
  }
  const auto encoded =
      std::make_shared<EncodedTensors>(encode(std::move(tensors), run_.state.layouts()));
  return {
      .tensors = encoded->views, .state_json = to_json(state), .owner = encoded, .parts = parts_};
}

}  // namespace muster
