#include "muster/distribution/parameter_server/parameter_shard_internal.h"

#include "muster/base/file_system.h"
#include "muster/base/log.h"
#include "muster/distribution/membership/part_writing_internal.h"
#include "muster/distribution/membership/snapshot_internal.h"
#include "muster/distribution/parameter_server/ps_values_internal.h"
#include "muster/train/engine/arithmetic.h"
#include "muster/train/engine/packed_tensors.h"
#include "muster/train/engine/run_terms.h"
#include "muster/train/engine/seeded_model.h"

namespace muster::internal {
namespace {

// Longer than what a chief writes to find out whether its folder is seen.
constexpr std::uint64_t kFolderTextBytes = 1024;

}  // namespace

ParameterShard::ParameterShard(const EstimatorOptions& options, const RunConfig& run_config,
                               const ParameterServerOptions& server_options)
    : config(run_config),
      membership(config, server_options.peers),
      model(make_seeded_model(options.model, config.seed())),
      terms(terms_of(options, config, *model)),
      variables(Variables::adopt(*model, adopt_options(variables_of(*model), &options.optimizer))),
      updater(variables, options.optimizer),
      layout(variables, static_cast<std::size_t>(config.cluster.task.num_ps_replicas)),
      number(static_cast<std::size_t>(config.cluster.task.task.index)),
      buffers(model->buffers()),
      gradients(variables.make_gradients()),
      parts(layout, variables, updater) {
  set_cpu_threads(update_threads(layout.flat_size(number)));
}

RunContract ParameterShard::own_terms() const {
  return {.replicas = 0,
          .threads_per_replica = 0,
          .seed = config.seed(),
          .precision = config.reproducibility.precision,
          .arithmetic = numerics_fingerprint(config.reproducibility.own_cpu_kernels).fingerprint(),
          .others = terms};
}

RunSnapshot ParameterShard::snapshot() const {
  auto tensors = variables.tensors();
  auto slots = updater.tensors();
  tensors.insert(tensors.end(), slots.begin(), slots.end());
  return {.step = step, .skipped_batches = skipped_batches, .tensors = std::move(tensors)};
}

void ParameterShard::take_snapshot(std::size_t from) {
  wait_until_copied();
  const RunSnapshot taken = receive_snapshot(*group, from, snapshot());
  state = parse_run_state(taken.state_json, "the state of the chief");
  step = taken.step;
  skipped_batches = taken.skipped_batches;
  inputs_from = taken.inputs_from;
  has_state = true;
}

ExpectedTensors ParameterShard::expected() const {
  return {.replicas = membership.terms().replicas,
          .flat_size = layout.flat_size(number),
          .tables = table_shapes(variables),
          .buffers = number == 0 ? buffers : std::vector<at::Tensor>{},
          .trainers = trainers()};
}

void ParameterShard::take_buffers(const std::vector<at::Tensor>& values) const {
  copy_tensors(values, buffers);
}

Values ParameterShard::state_values() {
  state.global_step = step;
  Values message{.step = step,
                 .skipped_batches = skipped_batches,
                 .inputs_from = inputs_from,
                 .state_json = to_json(state)};
  put_all_values(message, number, layout, variables);
  return message;
}

void ParameterShard::put_new_values(Values& message, std::vector<RowGradient> rows) const {
  message.values = {variables.flat(), layout.flat(number), std::move(rows)};
  if (number == 0) message.buffers.tensors = buffers;
}

void ParameterShard::send_slots(std::size_t to, const SlotsRequest& request) {
  const ServerParts* const except = request.without_parts ? &parts : nullptr;
  for (const at::Tensor& piece : slot_pieces(layout, number, variables, updater, except)) {
    if (piece.numel() == 0) continue;
    group->send(to, SlotPiece{{.bytes = bytes_of(piece)}});
  }
}

bool ParameterShard::take_request(std::size_t from, net::Frame& frame) {
  return dispatch<SlotsRequest, FolderRequest, PartRequest>(
      frame, Handle{[&](const SlotsRequest& request) { send_slots(from, request); },
                    [&](const FolderRequest& question) { answer(from, question); },
                    [&](const PartRequest& request) { write_part(from, request); }});
}

// Another folder of that name, or a disk that only reads, is none that is shared.
void ParameterShard::answer(std::size_t to, const FolderRequest& question) {
  FolderAnswer told;
  const auto is_plain = [](const std::string& name) {
    return !name.empty() && name.find('/') == std::string::npos;
  };
  try {
    if (!config.model_dir.empty() && is_plain(question.file) && is_plain(question.reply) &&
        question.reply.starts_with(question.file) &&
        read_file(config.model_dir / question.file, kFolderTextBytes) == question.text) {
      write_file_atomically(config.model_dir / question.reply, question.text, /*durable=*/false);
      told.is_seen = true;
    }
  } catch (const Error& error) {
    log::info("{} is not shared with {}: {}", config.model_dir.string(), group->task(to),
              error.what());
  }
  group->send(to, told);
}

void ParameterShard::write_part(std::size_t asked_by, const PartRequest& request) {
  group->send(asked_by, PartBegun{request.id});
  // Waits for a part of an earlier checkpoint that is still being written.
  part_writer.flush();
  const auto encoded = std::make_shared<EncodedTensors>(
      parts.tensors(number, updater, CheckpointLayouts(variables_of(*model))));
  begin_part(part_writer, membership, config.model_dir, request, encoded);
}

}  // namespace muster::internal
