#include <torch/types.h>

#include <algorithm>
#include <random>
#include <utility>

#include "muster/base/file_system.h"
#include "muster/base/log.h"
#include "muster/data/checkpoint/checkpoint_parts.h"
#include "muster/distribution/membership/snapshot_internal.h"
#include "muster/distribution/parameter_server/ps_strategy_internal.h"
#include "muster/train/engine/arithmetic.h"
#include "muster/train/estimator/estimator.h"

namespace muster::internal {
namespace {

/// The files of questions whether servers see a folder. They are removed when it comes and when it
/// goes: a task that is lost breaks a question off, and a server may write its reply even then.
class FolderQuestions {
 public:
  explicit FolderQuestions(const Path& folder) : folder_(folder) { remove_files(); }
  ~FolderQuestions() {
    try {
      remove_files();
    } catch (const Error& error) {
      log::warning("{}", error.what());
    }
  }
  FolderQuestions(const FolderQuestions&) = delete;
  FolderQuestions& operator=(const FolderQuestions&) = delete;

  static std::string name_of(std::string_view number) {
    return fmt::format("{}{}", kPrefix, number);
  }

 private:
  // By such a name they are also removed with what an interrupted save has left.
  static constexpr std::string_view kPrefix = ".model.ckpt-shared.tmp-";

  void remove_files() const {
    FileSystem& files = file_system_for(folder_);
    for (const std::string& name : files.list(folder_)) {
      if (name.starts_with(kPrefix)) files.remove(folder_ / name);
    }
  }

  const Path& folder_;
};

}  // namespace

void PsStrategy::check(const EstimatorOptions& options) const {
  if (options.moving_average) {
    throw Unimplemented(
        "moving_average needs the variables in the process; train without ps tasks");
  }
  if (config_.reproducibility.precision == ComputeType::kFloat16) {
    throw Unimplemented(
        "RunConfig: precision float16 needs the variables in the process, where its loss scale is; "
        "train without ps tasks, or with bfloat16");
  }
}

// Those who hold the variables have no GPU, and are held to the same words.
RunContract PsStrategy::join(const RunContract& own) {
  RunContract terms = own;
  terms.arithmetic = numerics_fingerprint(config_.reproducibility.own_cpu_kernels).fingerprint();
  terms = membership_.join(terms_of_run(std::move(terms)));
  log_terms(terms);
  return terms;
}

void PsStrategy::attach(Participant& participant) {
  participant_ = &participant;
  variables_ = &participant.run_variables();
  layout_.emplace(*variables_, static_cast<std::size_t>(config_.cluster.task.num_ps_replicas));
  server_parts_.emplace(*layout_, *variables_, participant.run_updater());
}

std::optional<StepResult> PsStrategy::apply(std::int64_t step, PartialSums own) {
  has_slots_ = false;
  // Of the values that the step began with, as where one process makes it.
  const double decay_loss = participant_->decay_loss();
  auto result = push(step, std::move(own));
  if (result) result->decay_loss = decay_loss;
  return result;
}

void PsStrategy::fetch_slots() {
  if (has_slots_) return;
  pull_slots();
  has_slots_ = true;
}

std::optional<Values> PsStrategy::take_answer(std::size_t server, const std::string& what,
                                              const std::vector<at::Tensor>& buffers) {
  return group_->take<Values>(server_rank(server), what,
                              {.flat_size = layout_->flat_size(server),
                               .tables = table_shapes(*variables_),
                               .buffers = buffers});
}

std::optional<std::vector<Values>> PsStrategy::take_answers(
    const std::string& what, const std::vector<at::Tensor>& buffers) {
  std::vector<Values> answers;
  for (std::size_t server = 0; server < layout_->servers(); ++server) {
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

std::optional<RunSnapshot> PsStrategy::take_state() {
  const auto values = take_answers("the state of the run", untrained(*variables_));
  if (!values) return std::nullopt;
  return snapshot_of(values->front());
}

RunSnapshot PsStrategy::snapshot_of(const Values& values) {
  return {.step = values.step,
          .skipped_batches = values.skipped_batches,
          .inputs_from = values.inputs_from,
          .state_json = values.state_json};
}

// False when the run has ended.
bool PsStrategy::join_state(const Source& source) {
  if (!source.go_back) {
    if (!is_sent_state(source)) return true;
    const auto state = take_state();
    if (!state) return false;
    log::info("going on from step {} of the servers", state->step);
    participant_->restore_snapshot(*state);
    return true;
  }
  if (group_->rank() != source.rank) {
    participant_->restore_snapshot(
        receive_snapshot(*group_, source.rank, participant_->snapshot()));
    return true;
  }
  if (was_in_run_) {
    log::warning("a server has lost its variables: all go back to the last checkpoint");
    participant_->roll_back_to_checkpoint();
  }
  const RunSnapshot own = participant_->snapshot();
  for (const std::size_t to : source.to) send_snapshot(*group_, own, to);
  return true;
}

void PsStrategy::synchronize() {
  has_slots_ = false;
  is_folder_shared_.reset();
  const auto take = [this](Group& group, const Source& source) {
    group_ = &group;
    if (!join_state(source)) return false;
    has_state_ = true;
    was_in_run_ = true;
    on_generation();
    return true;
  };
  internal::synchronize(
      membership_, synchronize_deadline(config_, has_state_), [this] { return progress(); }, take);
  group_ = &membership_.group();
}

void PsStrategy::ask_for_slots(bool without_parts) {
  for (std::size_t server = 0; server < layout_->servers(); ++server) {
    group_->send(server_rank(server), SlotsRequest{without_parts});
  }
}

bool PsStrategy::has_slots(std::size_t server) const {
  return std::ranges::any_of(
      slot_pieces(*layout_, server, *variables_, participant_->run_updater()),
      [](const at::Tensor& piece) { return piece.numel() > 0; });
}

void PsStrategy::take_slots_of(std::size_t server, bool without_parts) {
  const torch::NoGradGuard no_grad;
  for (const at::Tensor& piece :
       slot_pieces(*layout_, server, *variables_, participant_->run_updater(),
                   without_parts ? &*server_parts_ : nullptr)) {
    if (piece.numel() == 0) continue;
    const auto slot = group_->take<SlotPiece>(server_rank(server), "the slots");
    if (!slot) throw Internal("slots were asked for after the end of the run");
    piece.copy_(slot->values.as_tensor(piece.sizes(), piece.scalar_type()));
  }
}

void PsStrategy::take_slots() {
  for (std::size_t server = 0; server < layout_->servers(); ++server) take_slots_of(server);
}

// --------------------------------------------------------------------------------- parts

// Whether it is worth it, and possible.
bool PsStrategy::can_have_parts() {
  if (!config_.is_chief() || has_slots_ || !servers_are_at_its_step()) return false;
  if (server_parts_->bytes() / layout_->servers() < part_bytes_) return false;
  if (const auto last = parts_.lock();
      last != nullptr && last->failure() && is_folder_shared_.value_or(false)) {
    log::warning("the chief writes checkpoints alone until tasks come or go: {}", *last->failure());
    is_folder_shared_ = false;
  }
  if (!is_folder_shared_) is_folder_shared_ = do_servers_see_folder();
  return *is_folder_shared_;
}

// A folder of the same name may be another one there: each writes what the other has to find.
bool PsStrategy::do_servers_see_folder() {
  FileSystem& files = file_system_for(config_.model_dir);
  std::random_device random;
  const std::string text =
      fmt::format("{:08x}{:08x}{:08x}{:08x}", random(), random(), random(), random());
  const FolderQuestions questions(config_.model_dir);
  const std::string file = FolderQuestions::name_of(text.substr(0, 8));
  const auto reply_of = [&](std::size_t server) { return fmt::format("{}.{}", file, server); };
  write_file_atomically(config_.model_dir / file, text, /*durable=*/false);
  for (std::size_t server = 0; server < layout_->servers(); ++server) {
    group_->send(server_rank(server), FolderRequest{file, reply_of(server), text});
  }
  std::string blind;
  for (std::size_t server = 0; server < layout_->servers(); ++server) {
    const auto answer =
        group_->take<FolderAnswer>(server_rank(server), "whether it sees model_dir");
    const Path reply = config_.model_dir / reply_of(server);
    const bool is_shared =
        answer && answer->is_seen && files.status(reply) && read_file(reply) == text;
    if (!is_shared && blind.empty()) blind = server_name(server);
  }
  if (blind.empty()) {
    log::info("servers write their parts of checkpoints: all see {}", config_.model_dir.string());
  } else {
    log::info("the chief writes checkpoints alone: {} does not see its {}", blind,
              config_.model_dir.string());
  }
  return blind.empty();
}

std::shared_ptr<CheckpointParts> PsStrategy::begin_parts(std::int64_t step) {
  if (!can_have_parts()) return nullptr;
  std::vector<std::string> writers;
  writers.reserve(layout_->servers());
  for (std::size_t server = 0; server < layout_->servers(); ++server) {
    writers.push_back(server_name(server));
  }
  const auto parts = std::make_shared<CheckpointParts>(
      config_.model_dir, fmt::format("model.ckpt-{}", step), writers, server_parts_->names());
  membership_.expect_parts(parts);
  if (const auto why = parts->failure()) throw PeersChanged("{}", *why);
  parts_ = parts;
  for (std::size_t server = 0; server < layout_->servers(); ++server) {
    group_->send(
        server_rank(server),
        PartRequest{parts->id(), parts->name(), static_cast<int>(server) + 1, parts->num_shards()});
  }
  ask_for_slots(/*without_parts=*/true);
  for (std::size_t server = 0; server < layout_->servers(); ++server) {
    const auto begun =
        group_->take<PartBegun>(server_rank(server), "the beginning of its part of a checkpoint");
    if (!begun || begun->id != parts->id()) {
      throw Internal("{} was not asked for the part of a checkpoint that it writes",
                     server_name(server));
    }
    take_slots_of(server, /*without_parts=*/true);
  }
  return parts;
}

}  // namespace muster::internal

namespace muster {

std::unique_ptr<Strategy> make_parameter_server(const RunConfig& config,
                                                const ParameterServerOptions& options) {
  if (config.cluster.task.num_ps_replicas == 0) {
    throw InvalidArgument("the cluster {} has no ps task to hold variables",
                          config.cluster.task.cluster.to_string());
  }
  return config.cluster.sync ? internal::make_sync_strategy(config, options)
                             : internal::make_async_strategy(config, options);
}

}  // namespace muster
