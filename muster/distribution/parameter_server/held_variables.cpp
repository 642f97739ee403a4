#include "muster/distribution/parameter_server/held_variables_internal.h"

#include "muster/distribution/membership/snapshot_internal.h"
#include "muster/distribution/parameter_server/ps_values_internal.h"
#include "muster/engine/arithmetic.h"
#include "muster/engine/packed_tensors.h"
#include "muster/engine/run_terms.h"
#include "muster/engine/towers.h"

namespace muster::internal {

HeldVariables::HeldVariables(const EstimatorOptions& options, const RunConfig& run_config,
                             const ParameterServerOptions& server_options)
    : config(run_config),
      membership(config, server_options.peers),
      model(Towers::make_model(options.model, config.seed())),
      terms(terms_of(options, config, *model)),
      variables(Variables::adopt(*model, adopt_options(variables_of(*model)))),
      updater(variables, options.optimizer),
      layout(variables, static_cast<std::size_t>(config.cluster.task.num_ps_replicas)),
      number(static_cast<std::size_t>(config.cluster.task.task.index)),
      buffers(model->buffers()),
      gradients(variables.make_gradients()) {
  set_cpu_threads(update_threads(layout.flat_size(number)));
}

RunTerms HeldVariables::own_terms() const {
  return {.replicas = 0,
          .threads_per_replica = 0,
          .seed = config.seed(),
          .precision = config.reproducibility.precision,
          .arithmetic = arithmetic(config.reproducibility.own_cpu_kernels).fingerprint(),
          .others = terms};
}

RunSnapshot HeldVariables::snapshot() const {
  auto tensors = variables.tensors();
  auto slots = updater.tensors();
  tensors.insert(tensors.end(), slots.begin(), slots.end());
  return {.step = step, .left_out = left_out, .tensors = std::move(tensors)};
}

void HeldVariables::take_snapshot(std::size_t from) {
  const RunSnapshot taken = receive_snapshot(*group, from, snapshot());
  state = parse_run_state(taken.state_json, "the state of the chief");
  step = taken.step;
  left_out = taken.left_out;
  inputs_from = taken.inputs_from;
  has_state = true;
}

ExpectedTensors HeldVariables::expected() const {
  return {.replicas = membership.terms().replicas,
          .flat_size = layout.flat_size(number),
          .tables = table_shapes(variables),
          .buffers = number == 0 ? buffers : std::vector<at::Tensor>{},
          .trainers = trainers()};
}

void HeldVariables::take_buffers(const std::vector<at::Tensor>& values) const {
  copy_tensors(values, buffers);
}

Values HeldVariables::state_values() {
  state.global_step = step;
  Values message{
      .step = step, .left_out = left_out, .inputs_from = inputs_from, .state_json = to_json(state)};
  put_all_values(message, number, layout, variables);
  return message;
}

void HeldVariables::put_new_values(Values& message, std::vector<RowGradient> rows) const {
  message.values = {variables.flat(), layout.flat(number), std::move(rows)};
  if (number == 0) message.buffers.tensors = buffers;
}

void HeldVariables::send_slots(std::size_t to) {
  for (const at::Tensor& piece : slot_pieces(layout, number, variables, updater)) {
    if (piece.numel() == 0) continue;
    group->send(to, SlotPiece{{.bytes = bytes_of(piece)}});
  }
}

}  // namespace muster::internal
