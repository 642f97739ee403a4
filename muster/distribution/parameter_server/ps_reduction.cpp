#include "muster/distribution/parameter_server/ps_reduction_internal.h"

#include <string_view>
#include <utility>

#include "muster/base/file_system.h"
#include "muster/base/log.h"
#include "muster/base/random_token.h"
#include "muster/data/checkpoint/checkpoint_parts.h"

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

void PsReduction::end_generation() {
  has_slots_ = false;
  is_folder_shared_.reset();
}

std::optional<StepResult> PsReduction::apply(std::int64_t step, PartialSums own) {
  has_slots_ = false;
  // Decay loss of the values that the step began with, as where one process makes it.
  const double decay_loss = participant().decay_loss();
  auto result = push(step, std::move(own));
  if (result) result->decay_loss = decay_loss;
  return result;
}

void PsReduction::fetch_slots() {
  if (has_slots_) return;
  pull_slots();
  has_slots_ = true;
}

// --------------------------------------------------------------------------------- parts

// Whether it is worth it, and possible.
bool PsReduction::can_have_parts() {
  if (!config().is_chief() || has_slots_ || !servers_are_at_its_step()) return false;
  if (servers().parts().bytes() / servers().count() < part_bytes_) return false;
  if (const auto last = parts_.lock();
      last != nullptr && last->failure() && is_folder_shared_.value_or(false)) {
    log::warning("the chief writes checkpoints alone until tasks come or go: {}", *last->failure());
    is_folder_shared_ = false;
  }
  if (!is_folder_shared_) is_folder_shared_ = do_servers_see_folder();
  return *is_folder_shared_;
}

// A folder of the same name may be another one there: each writes what the other has to find.
bool PsReduction::do_servers_see_folder() {
  FileSystem& files = file_system_for(config().model_dir);
  const std::string text = random_token();
  const FolderQuestions questions(config().model_dir);
  const std::string file = FolderQuestions::name_of(text.substr(0, 8));
  const auto reply_of = [&](std::size_t server) { return fmt::format("{}.{}", file, server); };
  write_file_atomically(config().model_dir / file, text, /*durable=*/false);
  for (std::size_t server = 0; server < servers().count(); ++server) {
    servers().send(server, FolderRequest{file, reply_of(server), text});
  }
  std::string blind;
  for (std::size_t server = 0; server < servers().count(); ++server) {
    const auto answer =
        group().take<FolderAnswer>(servers().rank(server), "whether it sees model_dir");
    const Path reply = config().model_dir / reply_of(server);
    const bool is_shared =
        answer && answer->is_seen && files.status(reply) && read_file(reply) == text;
    if (!is_shared && blind.empty()) blind = servers().name(server);
  }
  if (blind.empty()) {
    log::info("servers write their parts of checkpoints: all see {}", config().model_dir.string());
  } else {
    log::info("the chief writes checkpoints alone: {} does not see its {}", blind,
              config().model_dir.string());
  }
  return blind.empty();
}

std::shared_ptr<CheckpointParts> PsReduction::begin_parts(std::int64_t step) {
  if (!can_have_parts()) return nullptr;
  std::vector<std::string> writers;
  writers.reserve(servers().count());
  for (std::size_t server = 0; server < servers().count(); ++server) {
    writers.push_back(servers().name(server));
  }
  const auto parts = std::make_shared<CheckpointParts>(
      config().model_dir, fmt::format("model.ckpt-{}", step), writers, servers().parts().names());
  tasks().expect_parts(parts);
  if (const auto why = parts->failure()) throw PeersChanged("{}", *why);
  parts_ = parts;
  for (std::size_t server = 0; server < servers().count(); ++server) {
    servers().send(server, PartRequest{parts->id(), parts->name(), static_cast<int>(server) + 1,
                                       parts->num_shards()});
  }
  servers().ask_for_slots(/*without_parts=*/true);
  for (std::size_t server = 0; server < servers().count(); ++server) {
    const auto begun = group().take<PartBegun>(servers().rank(server),
                                               "the beginning of its part of a checkpoint");
    if (!begun || begun->id != parts->id()) {
      throw Internal("{} was not asked for the part of a checkpoint that it writes",
                     servers().name(server));
    }
    servers().take_slots_of(server, /*without_parts=*/true);
  }
  return parts;
}

}  // namespace muster::internal
