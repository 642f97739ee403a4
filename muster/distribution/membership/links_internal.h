#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "muster/distribution/wire/messages_internal.h"

// Which tasks of a generation are connected with which. Where all of them train it is the pattern
// of recursive doubling: a task of N has about log2(N) neighbours, however many there are.
namespace muster::internal {

/// The ranks [first, last).
struct RankRange {
  std::size_t first = 0;
  std::size_t last = 0;

  bool operator==(const RankRange&) const = default;
};

/// The replicas of neighbouring ranks.
inline ReplicaRange replicas_of(const std::vector<GenerationMember>& members,
                                const RankRange& ranks) {
  return {members[ranks.first].replicas.first, members[ranks.last - 1].replicas.last};
}

/// How what N tasks have becomes what all have: neighbours exchange what they have, then pairs of
/// them, then fours. At each stage a task has what the ranks of a block have, which are
/// neighbours, so that sums go by the tree over replicas; and tasks of one host, whose ranks are
/// neighbours, exchange before those of several.
///
/// Tasks that share a processor (GenerationMember::shares_processor) would take turns at every
/// stage: the first of them adds up what all of them have, goes through the stages alone, and gives
/// them the result.
struct Exchange {
  struct Stage {
    std::size_t partner = 0;
    /// Ranks whose sum this task has when the stage begins, and those its partner has or gives.
    RankRange own{};
    RankRange others{};

    bool operator==(const Stage&) const = default;
  };

  /// Those that give to this task what they have, one after the other, and get the result.
  std::vector<Stage> taken_from{};
  /// The task that this one gives what it has by then to. It takes part in no stage. So it is for
  /// all but the first of those that share a processor; and for one of some neighbours where those
  /// that are left are no power of two.
  std::optional<Stage> given_to{};
  std::vector<Stage> stages{};
};
/// The exchange of the task with this rank, among tasks that all train.
Exchange exchange_of(const std::vector<GenerationMember>& members, std::size_t rank);

/// How sums are divided where each task is to end with the sum of its own range: by recursive
/// halving over the same connections. At each stage a task keeps one half of the ranges that it has
/// and gives the other to its partner, so ranges do not lie as ranks do.
struct Halving {
  /// The places [first, last) in `order`.
  struct Stage {
    RankRange kept{};
    RankRange given{};

    bool operator==(const Stage&) const = default;
  };

  /// The ranks of all tasks as their ranges lie; the same in every task. Those that give to one
  /// task what they have (Exchange::taken_from) are behind it, in their order.
  std::vector<std::size_t> order{};
  /// For each stage of the exchange of this task.
  std::vector<Stage> stages{};
};
Halving halving_of(const std::vector<GenerationMember>& members, std::size_t rank);

/// The ranks that a task is connected with, in rising order. Those that hold variables, and the
/// chief beside them, are connected with all.
std::vector<std::size_t> linked_ranks(const GenerationPlan& plan, std::size_t rank);

/// The way of a state from the source to all tasks that train, over the connections of an exchange:
/// from whom a task has it, and to whom it sends it on, those that send it to most others first.
std::optional<std::size_t> state_sender(const std::vector<GenerationMember>& members,
                                        std::size_t rank, std::size_t source);
std::vector<std::size_t> state_receivers(const std::vector<GenerationMember>& members,
                                         std::size_t rank, std::size_t source);

}  // namespace muster::internal
