#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/distribution/wire/step_parts_internal.h"

// Steps that are made without the last replicas (RunConfig::cluster.backup_replicas).
namespace muster::internal {

/// Pushes of the tasks of a generation that are not answered yet.
class WaitingPushes {
 public:
  WaitingPushes() = default;
  /// `members` are those that train, the chief at their head. A push counts when this many other
  /// servers have their parts of it, too.
  WaitingPushes(std::vector<GenerationMember> members, std::int64_t backup_replicas,
                std::size_t other_servers);

  void add(std::size_t rank, std::int64_t step, ReceivedStep push);
  /// Another server has its part of what this task pushes.
  void arrived_elsewhere(std::size_t rank);
  bool has(std::size_t rank) const { return waiting_[rank] && elsewhere_[rank] == other_servers_; }

  /// Whose gradients make this step, or nothing while more must come. All but this many replicas
  /// are waited for, and the chief always: it saves what it has, and replica 0's buffers are its
  /// own. The end of the input needs the word of everybody.
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
