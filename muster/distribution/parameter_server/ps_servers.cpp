#include "muster/distribution/parameter_server/ps_servers_internal.h"

#include <torch/types.h>

#include <algorithm>
#include <utility>

#include "muster/base/error.h"

namespace muster::internal {

void PsServers::attach(const Participant& participant) {
  variables_ = &participant.run_variables();
  const int servers = membership_.config().cluster.task.num_ps_replicas;
  layout_.emplace(*variables_, static_cast<std::size_t>(servers));
  parts_.emplace(*layout_, *variables_, participant.run_updater());
}

std::optional<Values> PsServers::take_answer(std::size_t server, const std::string& what,
                                             const std::vector<at::Tensor>& buffers) {
  return group().take<Values>(rank(server), what,
                              {.flat_size = layout_->flat_size(server),
                               .tables = table_shapes(*variables_),
                               .buffers = buffers});
}

std::optional<std::vector<Values>> PsServers::take_answers(const std::string& what,
                                                           const std::vector<at::Tensor>& buffers) {
  std::vector<Values> answers;
  for (std::size_t server = 0; server < count(); ++server) {
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

std::optional<RunSnapshot> PsServers::take_state() {
  const auto values = take_answers("the state of the run", untrained(*variables_));
  if (!values) return std::nullopt;
  return snapshot_of(values->front());
}

RunSnapshot PsServers::snapshot_of(const Values& values) {
  return {.step = values.step,
          .skipped_batches = values.skipped_batches,
          .inputs_from = values.inputs_from,
          .state_json = values.state_json};
}

void PsServers::ask_for_slots(bool without_parts) {
  for (std::size_t server = 0; server < count(); ++server) {
    group().send(rank(server), SlotsRequest{without_parts});
  }
}

bool PsServers::has_slots(std::size_t server) const {
  return std::ranges::any_of(
      slot_pieces(*layout_, server, *variables_, membership_.participant().run_updater()),
      [](const at::Tensor& piece) { return piece.numel() > 0; });
}

void PsServers::take_slots_of(std::size_t server, bool without_parts) {
  const torch::NoGradGuard no_grad;
  for (const at::Tensor& piece :
       slot_pieces(*layout_, server, *variables_, membership_.participant().run_updater(),
                   without_parts ? &*parts_ : nullptr)) {
    if (piece.numel() == 0) continue;
    const auto slot = group().take<SlotPiece>(rank(server), "the slots");
    if (!slot) throw Internal("slots were asked for after the end of the run");
    piece.copy_(slot->values.as_tensor(piece.sizes(), piece.scalar_type()));
  }
}

void PsServers::take_slots() {
  for (std::size_t server = 0; server < count(); ++server) take_slots_of(server);
}

}  // namespace muster::internal
