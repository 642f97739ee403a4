#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/distribution/messages_internal.h"
#include "muster/distribution/step_codec_internal.h"

// Steps that are made without the last replicas (RunConfig::backup_replicas).
namespace muster::internal {

/// Whose gradients a step is made of. The first server chooses, and tells the others: each of them
/// hears the tasks in an order of its own.
struct StepChoice {
  /// Ranks of tasks whose gradients count; none: no step is made.
  std::vector<std::size_t> counted{};
  /// Those that have pushed for an earlier step. They get the values of this one.
  std::vector<std::size_t> late{};
};
std::string encode(const StepChoice& choice);
/// Throws DataLoss for what is none, or names a task that does not train.
StepChoice decode_choice(std::string_view header, std::size_t trainers);

/// What the tasks of a generation have pushed and got no answer to.
class WaitingPushes {
 public:
  WaitingPushes() = default;
  /// `members` are those that train, the chief at their header. A push counts when so many other
  /// servers have their parts of it, too.
  WaitingPushes(std::vector<GenerationMember> members, std::int64_t backup_replicas,
                std::size_t other_servers);

  void add(std::size_t rank, std::int64_t step, ReceivedStep push);
  /// Another server has its part of what this task pushes. Throws DataLoss for a task that does not
  /// train.
  void arrived_elsewhere(std::int64_t rank);
  bool has(std::size_t rank) const { return waiting_[rank] && elsewhere_[rank] == other_servers_; }

  /// Whose gradients make this step, or nothing while more must come. All but so many replicas are
  /// waited for, and the chief always: it saves what it has, and replica 0's buffers are its own.
  /// The end of the input needs the word of everybody.
  std::optional<StepChoice> choose(std::int64_t step) const;

  /// By rank: what counts. The others' replicas are absent, with their inputs where `positions`, or
  /// a push that came late, say. Those that get an answer now wait no longer.
  std::vector<ReceivedStep> take(const StepChoice& choice,
                                 const std::vector<std::optional<std::string>>& positions);

  /// The tasks whose pushes are not there, for a report.
  std::string missing() const;

 private:
  struct Push {
    std::int64_t step = 0;
    ReceivedStep received{};
  };
  std::vector<GenerationMember> members_;
  std::int64_t backup_replicas_ = 0;
  std::size_t other_servers_ = 0;
  std::vector<std::optional<Push>> waiting_;
  /// How many others have their parts.
  std::vector<std::size_t> elsewhere_;
};

}  // namespace muster::internal
