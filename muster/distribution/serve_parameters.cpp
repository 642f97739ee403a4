#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "muster/base/freed_memory.h"
#include "muster/base/log.h"
#include "muster/base/signals.h"
#include "muster/distribution/body_codec_internal.h"
#include "muster/distribution/head_codec_internal.h"
#include "muster/distribution/image_internal.h"
#include "muster/distribution/membership_internal.h"
#include "muster/distribution/parameter_server.h"
#include "muster/distribution/ps_messages_internal.h"
#include "muster/distribution/serve_async_internal.h"
#include "muster/distribution/step_codec_internal.h"
#include "muster/estimator/arithmetic.h"
#include "muster/estimator/run_state.h"
#include "muster/optim/clipping.h"
#include "muster/optim/tensor_kernels_internal.h"
#include "muster/optim/weight_decay.h"

namespace muster {
namespace internal {
namespace {

bool all_finite(const std::vector<at::Tensor>& losses) {
  return std::ranges::all_of(losses, [](const at::Tensor& loss) {
    return !loss.defined() || std::isfinite(loss.item<double>());
  });
}

/// A task that holds a part of the variables and of the optimizers' slots. It has memory for all of
/// them, of which only its part counts.
class Server {
 public:
  Server(const EstimatorOptions& options, const RunConfig& config,
         const ParameterServerOptions& server_options);

  void run();

 private:
  /// A step whose gradients are added up, but which is not made: the others may not have theirs.
  struct Pending {
    Gradients mean{};
    StepOutcome outcome{};
    std::vector<std::optional<std::string>> positions{};
    std::vector<at::Tensor> buffers{};
  };

  bool synchronize();
  bool take_source(const Source& source);
  bool make_step();
  std::optional<std::vector<ReceivedStep>> take_pushes();
  void prepare(std::vector<ReceivedStep> received);
  bool exchange_squares(SquareSums& sums);
  void commit(SquareSums& sums);
  void send_values();
  void send_state(std::size_t to);
  void send_slots(std::size_t to);
  void send(std::size_t to, const ValuesMessage& message);
  void add_decay();
  bool may_skip() const { return options_.nan_policy.action != NanPolicy::Action::kStop; }
  bool needs_norms() const { return options_.clip.norm || options_.clip.global_norm || may_skip(); }
  std::size_t trainers() const { return group_->plan().trainers; }
  RunImage image();

  const EstimatorOptions& options_;
  const RunConfig config_;
  Membership membership_;
  Group* group_ = nullptr;
  std::shared_ptr<Model> model_;
  Variables variables_;
  Updater updater_;
  PsLayout layout_;
  /// This task's place among the servers.
  std::size_t number_ = 0;
  /// What replica 0's forward changes.
  std::vector<at::Tensor> buffers_;
  Gradients gradients_;

  bool has_state_ = false;
  std::int64_t step_ = 0;
  std::int64_t left_out_ = 0;
  std::int64_t inputs_from_ = 0;
  RunState state_;
  std::int64_t sequence_ = 0;
  std::optional<Pending> pending_;
  /// Of the last step that was made: by them another server makes it too.
  std::vector<double> last_squares_;
};

Server::Server(const EstimatorOptions& options, const RunConfig& config,
               const ParameterServerOptions& server_options)
    : options_(options),
      config_(config),
      membership_(config, server_options.peers),
      model_(Towers::make_model(options.model, config.seed())),
      variables_(Variables::adopt(*model_, adopt_options(variables_of(*model_)))),
      updater_(variables_, options.optimizers),
      layout_(variables_, static_cast<std::size_t>(config.task.num_ps_replicas)),
      buffers_(model_->buffers()),
      gradients_(variables_.make_gradients()) {}

RunImage Server::image() {
  auto tensors = variables_.tensors();
  auto slots = updater_.tensors();
  tensors.insert(tensors.end(), slots.begin(), slots.end());
  return {.step = step_, .left_out = left_out_, .tensors = std::move(tensors)};
}

void Server::run() {
  // The chief ends the run; a signal to all tasks must not take the variables away before it saved.
  const StopSignals signals([](int signal) {
    log::info(
        "signal {}: the variables stay until the chief ends the run; a second one ends this "
        "task at once",
        signal);
  });
  membership_.join({.replicas = 0,
                    .threads_per_replica = 0,
                    .seed = config_.seed(),
                    .precision = config_.precision,
                    .arithmetic = arithmetic().fingerprint()});
  const torch::NoGradGuard no_grad;
  keep_freed_memory();
  for (bool going_on = true; going_on;) {
    going_on = synchronize();
    try {
      while (going_on && make_step()) continue;
      going_on = false;
    } catch (const PeersChanged& error) {
      log::info("step {}: {}", step_ + 1, error.what());
    }
  }
  log::info("the run has ended at step {}", step_);
  membership_.finish(step_, false);
}

// False when the run has ended.
bool Server::synchronize() {
  const Deadline deadline = synchronize_deadline(config_, has_state_);
  for (;;) {
    const Progress progress = has_state_ ? Progress{step_, left_out_} : Progress{.step = -1};
    const auto source = membership_.begin_epoch(progress, deadline);
    group_ = &membership_.group();
    if (!source) return false;
    number_ = group_->rank() - trainers();
    try {
      if (!take_source(*source)) return false;
      sequence_ = 0;
      return true;
    } catch (const PeersChanged& error) {
      log::warning("epoch {} ends before it began: {}", group_->plan().number, error.what());
    }
  }
}

bool Server::take_source(const Source& source) {
  const auto is_behind = [&](std::size_t rank) {
    return std::ranges::find(source.to, rank) != source.to.end();
  };
  if (source.go_back) {
    const RunImage from = receive_image(*group_, source.rank, image());
    state_ = parse_run_state(from.state_json, "the state of the chief");
    step_ = from.step;
    left_out_ = from.left_out;
    inputs_from_ = from.inputs_from;
    has_state_ = true;
    pending_.reset();
    return true;
  }
  if (is_behind(group_->rank())) {
    if (!pending_) {
      throw Internal("{} is at step {}, others are at {}, and it has no gradients to go on with",
                     membership_.task(), step_, source.progress.step);
    }
    SquareSums sums(variables_);
    const auto frame = group_->take(source.rank, MessageType::kSquares, "the norms of the step");
    if (!frame) return false;
    if (frame->body.size() != sums.blocks().size() * sizeof(double)) {
      throw DataLoss("norms of {} bytes came where {} blocks were due", frame->body.size(),
                     sums.blocks().size());
    }
    std::memcpy(sums.blocks().data(), frame->body.data(), frame->body.size());
    commit(sums);
  } else if (group_->rank() == source.rank) {
    for (const std::size_t to : source.to) {
      if (to < trainers()) continue;
      const auto bytes = std::as_bytes(std::span(last_squares_));
      group_->send(to, MessageType::kSquares, {}, std::span(&bytes, 1));
    }
  }
  pending_.reset();
  for (const std::size_t to : source.to) {
    if (to < trainers()) send_state(to);
  }
  return true;
}

// What every task that trains has of the step; nothing when the run has ended.
std::optional<std::vector<ReceivedStep>> Server::take_pushes() {
  const StepNotes notes{.buffers = number_ == 0 ? buffers_ : std::vector<at::Tensor>{},
                        .flat_size = layout_.flat_size(number_),
                        .tables = variables_.sparse_count()};
  const std::string what = fmt::format("the gradients of step {}", step_ + 1);
  std::vector<ReceivedStep> received;
  for (std::size_t rank = 0; rank < trainers(); ++rank) {
    auto frame = group_->take_any(rank, what);
    while (frame && frame->type == static_cast<std::uint32_t>(MessageType::kFetch)) {
      send_slots(rank);
      frame = group_->take_any(rank, what);
    }
    if (!frame) return std::nullopt;
    if (frame->type != static_cast<std::uint32_t>(MessageType::kPush)) {
      throw Internal("{} sent a message of type {} where gradients were due",
                     group_->plan().members[rank].task, frame->type);
    }
    received.push_back(decode_step(frame->head, std::move(frame->body), step_, sequence_,
                                   membership_.terms().replicas, layout_.flat_size(number_),
                                   notes));
  }
  ++sequence_;
  return received;
}

// Adds up: after this the step can be made.
void Server::prepare(std::vector<ReceivedStep> received) {
  Pending pending{.positions = state_.inputs};
  pending.positions.resize(static_cast<std::size_t>(membership_.terms().replicas));
  for (const ReceivedStep& other : received) {
    copy_positions(other, pending.positions);
    if (!other.buffers.empty()) pending.buffers = other.buffers;
  }
  StepParts total = add_parts(membership_.terms().replicas, {}, std::move(received));
  pending.outcome = {.present = total.present,
                     .examples = total.examples,
                     .losses = total.losses,
                     .not_finite = all_finite(total.losses) ? "" : "loss"};
  if (total.present > 0) pending.mean = mean_of(std::move(total)).mean;
  pending_ = std::move(pending);
}

// As add_weight_decay() does it, for what this task holds.
void Server::add_decay() {
  const WeightDecay& decay = options_.weight_decay;
  for (const VariablePart& part : layout_.parts(number_)) {
    const Variable& variable = variables_.all()[part.variable];
    if (decay.filter && !decay.filter(variable.spec.name)) continue;
    if (variable.dense()) {
      add_scaled(static_cast<float>(decay.factor), part_of(variable.value, variable, part),
                 part_of(gradients_.of(variable), variable, part));
    }
  }
  for (const Variable& variable : variables_.all()) {
    if (!variable.sparse() || (decay.filter && !decay.filter(variable.spec.name))) continue;
    const RowGradient& rows = gradients_.rows[static_cast<std::size_t>(variable.rows_index)];
    if (rows.empty()) continue;
    add_scaled(static_cast<float>(decay.factor), variable.value.index_select(0, rows.rows),
               rows.values);
  }
}

// What all servers need of each other before the step: norms, and that everybody has its gradients.
// False when the run has ended.
bool Server::exchange_squares(SquareSums& sums) {
  const std::vector<double> own = sums.blocks();
  const auto bytes = std::as_bytes(std::span(own));
  for (std::size_t rank = trainers(); rank < group_->size(); ++rank) {
    if (rank != group_->rank()) {
      group_->send(rank, MessageType::kSquares, encode_number(step_), std::span(&bytes, 1));
    }
  }
  for (std::size_t rank = trainers(); rank < group_->size(); ++rank) {
    if (rank == group_->rank()) continue;
    const auto frame =
        group_->take(rank, MessageType::kSquares, fmt::format("the norms of step {}", step_ + 1));
    if (!frame) return false;
    if (decode_number(frame->head) != step_ || frame->body.size() != bytes.size()) {
      throw DataLoss("{} sent norms of another step or model", group_->plan().members[rank].task);
    }
    // Every block is somebody's, and 0 for the others: the order does not matter.
    for (std::size_t i = 0; i < own.size(); ++i) {
      double value = 0;
      std::memcpy(&value, frame->body.data() + i * sizeof value, sizeof value);
      sums.blocks()[i] += value;
    }
  }
  return true;
}

// The step itself, with the norms of all. Every server comes to the same decisions.
void Server::commit(SquareSums& sums) {
  Pending& pending = *pending_;
  last_squares_ = sums.blocks();
  if (pending.outcome.not_finite.empty() && may_skip() && !std::isfinite(sums.global_norm())) {
    pending.outcome.not_finite = "gradient";
  }
  state_.inputs = pending.positions;
  if (!pending.outcome.not_finite.empty()) {
    ++left_out_;
    return;
  }
  const ClipOptions& clip = options_.clip;
  // What others hold of the gradients is 0 here, and stays it.
  if (clip.norm) clip_by_norm(variables_, gradients_, *clip.norm, sums);
  if (clip.global_norm) clip_by_global_norm(gradients_, *clip.global_norm, sums);
  updater_.apply(gradients_, step_, layout_.flat(number_));
  for (std::size_t i = 0; i < pending.buffers.size(); ++i) buffers_[i].copy_(pending.buffers[i]);
  ++step_;
}

// False when the run has ended.
bool Server::make_step() {
  auto received = take_pushes();
  if (!received) return false;
  prepare(std::move(*received));
  if (pending_->outcome.present == 0) {
    send_values();
    pending_.reset();
    return true;
  }
  layout_.scatter(number_, pending_->mean.flat, gradients_.flat);
  gradients_.rows = pending_->mean.rows;
  SquareSums sums(variables_);
  if (pending_->outcome.not_finite.empty()) {
    if (options_.weight_decay.factor > 0) add_decay();
    if (options_.clip.value) clip_by_value(gradients_, *options_.clip.value);
    if (needs_norms()) {
      for (const VariablePart& part : layout_.parts(number_)) {
        sums.add(gradients_, part.variable, part.first, part.last);
      }
    }
  }
  if (!exchange_squares(sums)) return false;
  commit(sums);
  send_values();
  pending_.reset();
  return true;
}

void Server::send(std::size_t to, const ValuesMessage& message) {
  const EncodedMessage encoded = encode_values(message);
  group_->send(to, MessageType::kValues, encoded.head, encoded.body);
}

// What the step has made new.
void Server::send_values() {
  ValuesMessage message{.step = step_, .outcome = pending_->outcome, .positions = state_.inputs};
  if (pending_->outcome.present == 0) message.positions = pending_->positions;
  if (pending_->outcome.present > 0 && pending_->outcome.not_finite.empty()) {
    message.flat = variables_.flat();
    message.ranges = layout_.flat(number_);
    message.rows.resize(variables_.sparse_count());
    for (const Variable& variable : variables_.all()) {
      if (!variable.sparse()) continue;
      const auto table = static_cast<std::size_t>(variable.rows_index);
      const RowGradient& touched = gradients_.rows[table];
      if (touched.empty()) continue;
      message.rows[table] = {touched.rows, variable.value.index_select(0, touched.rows)};
    }
    if (number_ == 0) message.buffers = buffers_;
  }
  for (std::size_t rank = 0; rank < trainers(); ++rank) send(rank, message);
}

void Server::send_state(std::size_t to) {
  state_.global_step = step_;
  ValuesMessage message{.step = step_,
                        .left_out = left_out_,
                        .inputs_from = inputs_from_,
                        .state_json = to_json(state_)};
  put_all_values(message, number_, layout_, variables_);
  send(to, message);
}

void Server::send_slots(std::size_t to) {
  for (const at::Tensor& piece : slot_pieces(layout_, number_, variables_, updater_)) {
    if (piece.numel() == 0) continue;
    const std::span<const std::byte> bytes = bytes_of(piece);
    group_->send(to, MessageType::kSlots, {}, std::span(&bytes, 1));
  }
}

}  // namespace
}  // namespace internal

void serve_parameters(const EstimatorOptions& estimator, const RunConfig& config,
                      const ParameterServerOptions& options) {
  if (!config.sync) return internal::serve_async(estimator, config, options);
  internal::Server(estimator, config, options).run();
}

}  // namespace muster
