#include "muster/base/log.h"
#include "muster/distribution/ps_values_internal.h"
#include "muster/distribution/snapshot_internal.h"
#include "muster/distribution/variable_holder_internal.h"
#include "muster/engine/arithmetic.h"
#include "muster/engine/run_terms.h"
#include "muster/kernels/libtorch_kernels.h"

namespace muster::internal {

namespace {

// Part of the arithmetic, which a program need not have made an Estimator for.
const RunConfig& with_kernels(const RunConfig& config) {
  kernels::use_libtorch_kernels(config.own_cpu_kernels);
  return config;
}

}  // namespace

VariableHolder::VariableHolder(const EstimatorOptions& options, const RunConfig& config,
                               const ParameterServerOptions& server_options)
    : config_(with_kernels(config)),
      membership_(config, server_options.peers),
      model_(Towers::make_model(options.model, config.seed())),
      terms_(terms_of(options, config, *model_)),
      variables_(Variables::adopt(*model_, adopt_options(variables_of(*model_)))),
      updater_(variables_, options.optimizers),
      layout_(variables_, static_cast<std::size_t>(config.task.num_ps_replicas)),
      number_(static_cast<std::size_t>(config.task.task.index)),
      buffers_(model_->buffers()),
      gradients_(variables_.make_gradients()) {}

StopSignals VariableHolder::outlast_signals() {
  return StopSignals([](int signal) {
    log::info(
        "signal {}: the variables stay until the chief ends the run; a second one ends this "
        "task at once",
        signal);
  });
}

RunTerms VariableHolder::own_terms() const {
  return {.replicas = 0,
          .threads_per_replica = 0,
          .seed = config_.seed(),
          .precision = config_.precision,
          .arithmetic = arithmetic().fingerprint(),
          .others = terms_};
}

bool VariableHolder::join_group(
    const std::function<bool(Group& group, const Source& source)>& take) {
  const auto progress = [this] {
    return has_state_ ? Progress{step_, left_out_} : Progress{.step = -1};
  };
  const bool goes_on =
      internal::synchronize(membership_, synchronize_deadline(config_, has_state_), progress, take);
  group_ = &membership_.group();
  return goes_on;
}

RunSnapshot VariableHolder::snapshot() const {
  auto tensors = variables_.tensors();
  auto slots = updater_.tensors();
  tensors.insert(tensors.end(), slots.begin(), slots.end());
  return {.step = step_, .left_out = left_out_, .tensors = std::move(tensors)};
}

ExpectedTensors VariableHolder::expected() const {
  return {.replicas = membership_.terms().replicas,
          .flat_size = layout_.flat_size(number_),
          .tables = table_shapes(variables_),
          .buffers = number_ == 0 ? buffers_ : std::vector<at::Tensor>{},
          .trainers = group_->plan().trainers};
}

void VariableHolder::send_slots(std::size_t to) {
  for (const at::Tensor& piece : slot_pieces(layout_, number_, variables_, updater_)) {
    if (piece.numel() == 0) continue;
    group_->send(to, SlotPiece{{.bytes = bytes_of(piece)}});
  }
}

}  // namespace muster::internal
