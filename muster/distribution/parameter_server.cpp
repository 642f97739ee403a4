#include "muster/distribution/parameter_server.h"

#include <torch/types.h>

#include <algorithm>
#include <utility>

#include "muster/base/log.h"
#include "muster/distribution/async_parameter_server_internal.h"
#include "muster/distribution/body_codec_internal.h"
#include "muster/distribution/image_internal.h"
#include "muster/distribution/membership_internal.h"
#include "muster/distribution/ps_messages_internal.h"
#include "muster/distribution/step_codec_internal.h"

namespace muster {
namespace internal {
namespace {

/// The side of those that train.
class ParameterServer final : public Strategy {
 public:
  ParameterServer(const RunConfig& config, const ParameterServerOptions& options)
      : config_(config), membership_(config, options.peers), has_state_(config.is_chief()) {}

  std::string describe() const override {
    const std::string backups =
        config_.backup_replicas == 0
            ? std::string()
            : fmt::format(
                  "; a step is made without the last {} replicas, and the weights depend on which",
                  config_.backup_replicas);
    return fmt::format("parameter server, synchronous: {} tasks train, {} hold the variables{}",
                       config_.task.num_worker_replicas, config_.task.num_ps_replicas, backups);
  }
  RunTerms join(const RunTerms& own) override {
    return membership_.join(terms_with_backups(own, config_.backup_replicas));
  }
  bool keeps_variables() const override { return true; }
  void attach(const Variables& variables, const Updater& updater) override;
  void synchronize(const std::function<RunImage()>& image,
                   const std::function<void(const RunImage&)>& take,
                   const std::function<void()>& go_back) override;
  ReplicaRange replicas() const override { return group_->replicas(); }
  std::optional<StepParts> sum(std::int64_t, StepParts, StepNotes&) override {
    throw Internal("the servers add gradients up");
  }
  std::optional<StepOutcome> update(std::int64_t step, StepParts own, StepNotes& notes) override;
  void fetch_slots() override;
  void finish(std::int64_t step, bool early) override { membership_.finish(step, early); }

 private:
  std::size_t server_rank(std::size_t server) const { return group_->plan().trainers + server; }
  std::optional<std::vector<ValuesMessage>> take_values(const std::string& what,
                                                        const std::vector<at::Tensor>& buffers);
  void write(const std::vector<ValuesMessage>& values, const std::vector<at::Tensor>& buffers);
  bool join_state(const Source& source, const std::function<RunImage()>& image,
                  const std::function<void(const RunImage&)>& take,
                  const std::function<void()>& go_back);

  const RunConfig config_;
  Membership membership_;
  /// The membership's current one.
  Group* group_ = nullptr;
  const Variables* variables_ = nullptr;
  const Updater* updater_ = nullptr;
  std::optional<PsLayout> layout_;
  /// Whether this process holds values of the run.
  bool has_state_;
  /// Whether it has been in an epoch.
  bool was_in_run_ = false;
  /// Messages of steps in this epoch.
  std::int64_t sequence_ = 0;
};

void ParameterServer::attach(const Variables& variables, const Updater& updater) {
  variables_ = &variables;
  updater_ = &updater;
  layout_.emplace(variables, static_cast<std::size_t>(config_.task.num_ps_replicas));
}

// One message from every server, or nothing when the run has ended.
std::optional<std::vector<ValuesMessage>> ParameterServer::take_values(
    const std::string& what, const std::vector<at::Tensor>& buffers) {
  std::vector<ValuesMessage> values;
  for (std::size_t server = 0; server < layout_->servers(); ++server) {
    auto frame = group_->take(server_rank(server), MessageType::kValues, what);
    if (!frame) return std::nullopt;
    try {
      values.push_back(decode_values(frame->head, std::move(frame->body),
                                     layout_->flat_size(server), variables_->sparse_count(),
                                     buffers));
    } catch (Error& error) {
      error.add_context(fmt::format("from {}", group_->plan().members[server_rank(server)].task));
      throw;
    }
  }
  return values;
}

void ParameterServer::write(const std::vector<ValuesMessage>& values,
                            const std::vector<at::Tensor>& buffers) {
  const torch::NoGradGuard no_grad;
  for (std::size_t server = 0; server < values.size(); ++server) {
    write_values(values[server], server, *layout_, *variables_, buffers);
  }
}

// False when the run has ended.
bool ParameterServer::join_state(const Source& source, const std::function<RunImage()>& image,
                                 const std::function<void(const RunImage&)>& take,
                                 const std::function<void()>& go_back) {
  const std::size_t rank = group_->rank();
  if (source.go_back) {
    if (rank == source.rank) {
      if (was_in_run_) {
        log::warning("a server has lost its variables: all go back to the last checkpoint");
        go_back();
      }
      const RunImage own = image();
      for (const std::size_t to : source.to) send_image(*group_, own, to);
    } else {
      take(receive_image(*group_, source.rank, image()));
    }
    return true;
  }
  if (std::ranges::find(source.to, rank) == source.to.end()) return true;
  const auto buffers = untrained(*variables_);
  const auto values = take_values("the state of the run", buffers);
  if (!values) return false;
  write(*values, buffers);
  const ValuesMessage& first = values->front();
  log::info("going on from step {} of the servers", first.step);
  take({.step = first.step,
        .left_out = first.left_out,
        .inputs_from = first.inputs_from,
        .state_json = first.state_json});
  return true;
}

void ParameterServer::synchronize(const std::function<RunImage()>& image,
                                  const std::function<void(const RunImage&)>& take,
                                  const std::function<void()>& go_back) {
  const Deadline deadline = synchronize_deadline(config_, has_state_);
  for (;;) {
    Progress progress{.step = -1};
    if (has_state_) {
      const RunImage own = image();
      progress = {own.step, own.left_out};
    }
    const auto source = membership_.begin_epoch(progress, deadline);
    group_ = &membership_.group();
    if (!source) return;
    try {
      if (!join_state(*source, image, take, go_back)) return;
      has_state_ = true;
      was_in_run_ = true;
      sequence_ = 0;
      return;
    } catch (const PeersChanged& error) {
      log::warning("epoch {} ends before it began: {}", group_->plan().number, error.what());
    }
  }
}

std::optional<StepOutcome> ParameterServer::update(std::int64_t step, StepParts own,
                                                   StepNotes& notes) {
  if (!membership_.check()) return std::nullopt;
  const std::int64_t sequence = sequence_++;
  for (std::size_t server = 0; server < layout_->servers(); ++server) {
    StepParts part{.present = own.present, .examples = own.examples, .losses = own.losses};
    for (const auto& [node, sum] : own.sums) {
      auto& mine = part.sums[node];
      if (!sum) continue;
      mine.emplace();
      mine->flat = sum->flat;
      for (std::size_t table = 0; table < sum->rows.size(); ++table) {
        mine->rows.push_back(layout_->rows_of(server, table, sum->rows[table]));
      }
    }
    StepNotes said = notes;
    if (server != 0) said.buffers.clear();
    const auto message =
        encode_step(step, sequence, part, said, group_->replicas(), layout_->flat(server));
    group_->send(server_rank(server), MessageType::kPush, message.head, message.body);
  }
  auto values = take_values(fmt::format("the values after step {}", step + 1), notes.buffers);
  if (!values) return std::nullopt;
  write(*values, notes.buffers);
  notes.positions = std::move(values->front().positions);
  StepOutcome outcome = std::move(values->front().outcome);
  // Others may have made steps without this task.
  if (config_.backup_replicas > 0) outcome.step = values->front().step;
  return outcome;
}

void ParameterServer::fetch_slots() {
  const torch::NoGradGuard no_grad;
  for (std::size_t server = 0; server < layout_->servers(); ++server) {
    group_->send(server_rank(server), MessageType::kFetch, {}, {});
  }
  for (std::size_t server = 0; server < layout_->servers(); ++server) {
    for (const at::Tensor& piece : slot_pieces(*layout_, server, *variables_, *updater_)) {
      if (piece.numel() == 0) continue;
      auto frame = group_->take(server_rank(server), MessageType::kSlots, "the slots");
      if (!frame) throw Internal("slots were asked for after the end of the run");
      BodyReader body(std::move(frame->body));
      piece.copy_(body.tensor(piece.sizes(), piece.scalar_type()));
    }
  }
}

}  // namespace
}  // namespace internal

std::unique_ptr<Strategy> make_parameter_server(const RunConfig& config,
                                                const ParameterServerOptions& options) {
  if (config.task.num_ps_replicas == 0) {
    throw InvalidArgument("the cluster {} has no ps task to hold variables",
                          config.task.cluster.to_string());
  }
  if (!config.sync) return internal::make_async_parameter_server(config, options);
  return std::make_unique<internal::ParameterServer>(config, options);
}

}  // namespace muster
