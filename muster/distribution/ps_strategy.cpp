#include <torch/types.h>

#include <algorithm>

#include "muster/base/log.h"
#include "muster/distribution/body_codec_internal.h"
#include "muster/distribution/image_internal.h"
#include "muster/distribution/ps_strategy_internal.h"

namespace muster::internal {

void PsStrategy::attach(const Variables& variables, const Updater& updater) {
  variables_ = &variables;
  updater_ = &updater;
  layout_.emplace(variables, static_cast<std::size_t>(config_.task.num_ps_replicas));
}

RunImage PsStrategy::image_of(const ValuesMessage& values) {
  return {.step = values.step,
          .left_out = values.left_out,
          .inputs_from = values.inputs_from,
          .state_json = values.state_json};
}

// False when the run has ended.
bool PsStrategy::join_state(const Source& source, const std::function<RunImage()>& image,
                            const std::function<void(const RunImage&)>& take,
                            const std::function<void()>& go_back) {
  if (!source.go_back) {
    if (!is_sent_state(source)) return true;
    const auto state = take_state();
    if (!state) return false;
    log::info("going on from step {} of the servers", state->step);
    take(*state);
    return true;
  }
  if (group_->rank() != source.rank) {
    take(receive_image(*group_, source.rank, image()));
    return true;
  }
  if (was_in_run_) {
    log::warning("a server has lost its variables: all go back to the last checkpoint");
    go_back();
  }
  const RunImage own = image();
  for (const std::size_t to : source.to) send_image(*group_, own, to);
  return true;
}

void PsStrategy::synchronize(const std::function<RunImage()>& image,
                             const std::function<void(const RunImage&)>& take,
                             const std::function<void()>& go_back) {
  const Deadline deadline = synchronize_deadline(config_, has_state_);
  for (;;) {
    const auto source = membership_.begin_epoch(progress(image), deadline);
    group_ = &membership_.group();
    if (!source) return;
    try {
      if (!join_state(*source, image, take, go_back)) return;
      has_state_ = true;
      was_in_run_ = true;
      on_epoch();
      return;
    } catch (const PeersChanged& error) {
      log::warning("epoch {} ends before it began: {}", group_->plan().number, error.what());
    }
  }
}

void PsStrategy::ask_for_slots() {
  for (std::size_t server = 0; server < layout_->servers(); ++server) {
    group_->send(server_rank(server), MessageType::kFetch, {}, {});
  }
}

bool PsStrategy::has_slots(std::size_t server) const {
  return std::ranges::any_of(slot_pieces(*layout_, server, *variables_, *updater_),
                             [](const at::Tensor& piece) { return piece.numel() > 0; });
}

void PsStrategy::take_slots_of(std::size_t server) {
  const torch::NoGradGuard no_grad;
  for (const at::Tensor& piece : slot_pieces(*layout_, server, *variables_, *updater_)) {
    if (piece.numel() == 0) continue;
    auto frame = group_->take(server_rank(server), MessageType::kSlots, "the slots");
    if (!frame) throw Internal("slots were asked for after the end of the run");
    BodyReader body(std::move(frame->body));
    piece.copy_(body.tensor(piece.sizes(), piece.scalar_type()));
  }
}

void PsStrategy::take_slots() {
  for (std::size_t server = 0; server < layout_->servers(); ++server) take_slots_of(server);
}

}  // namespace muster::internal
