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
  // There is no other way, and the others make no step before the first is written.
  if (reduction_.is_sharded()) return true;
  if (!has_checkpoint_ && run_.config.is_chief() && run_.is_shared()) {
    has_checkpoint_ = latest_checkpoint(run_.config.model_dir).has_value();
  }
  return has_checkpoint_;
}

void CheckpointSource::fetch_last() {
  if (!parts_ || parts_step_ != run_.step()) fetch();
  reduction_.close();
  if (!parts_) return;
  try {
    parts_->wait();
  } catch (const Unavailable& error) {
    if (reduction_.is_sharded()) return try_last_again(error);
    log::warning("the last checkpoint is written by the chief alone: {}", error.what());
    parts_.reset();
    reduction_.fetch_slots();
  }
}

// The others may be gone with what they had of it: then all go back to the checkpoint before.
void CheckpointSource::try_last_again(const Unavailable& error) {
  constexpr int kTries = 3;
  if (++last_tries_ >= kTries) throw Unavailable("{}", error.what());
  log::warning("the last checkpoint is not written: {}", error.what());
  throw PeersChanged("{}", error.what());
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
  auto encoded = std::make_shared<std::vector<EncodedTensors>>();
  if (run_.state.is_sharded()) {
    // This process's own share of what all have a part of.
    std::erase_if(tensors, [this](const NamedTensor& named) {
      const Variable* variable = run_.state.towers().variables().find(named.name);
      return variable != nullptr && variable->dense();
    });
    encoded->push_back(run_.state.encoded_held());
  }
  encoded->push_back(encode(std::move(tensors), run_.state.layouts()));
  CheckpointContent content{.state_json = to_json(state), .owner = encoded, .parts = parts_};
  for (const EncodedTensors& some : *encoded) {
    content.tensors.insert(content.tensors.end(), some.views.begin(), some.views.end());
  }
  return content;
}

}  // namespace muster
