#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "muster/distribution/wire/messages_internal.h"
#include "muster/train/engine/strategy.h"

// A step's messages between tasks: made of the sums of own replicas, and added to those of others.
namespace muster::internal {

/// A process's contribution to a step beside gradients.
struct StepNotes {
  /// Only those of the replicas that the process runs are sent.
  InputPositions positions{};
  /// Replica 0's. They are sent by the process that runs it, and written to by the others.
  std::vector<at::Tensor> buffers{};
  /// Elements of the flat gradients, and the tables that have gradients by rows.
  std::int64_t flat_size = 0;
  std::vector<TableShape> tables{};
};
StepNotes notes_of(Participant& participant);

/// Made of the memory of `parts` and `notes`. These ranges of the dense gradients are in it, one
/// after the other; everything else is, whole. Buffers are in it when the task runs replica 0.
StepGradients step_gradients(std::int64_t step, std::int64_t sequence, const PartialSums& parts,
                             const StepNotes& notes, const ReplicaRange& replicas,
                             std::span<const FlatRange> dense);

/// The gradients of two tasks for a step, the replicas of `right` after those of `left`, added up
/// by the tree of a run of this many replicas. Sums are made in the memory of either.
StepGradients merge_steps(StepGradients left, StepGradients right, std::int64_t replicas);

/// Contribution of another task to a step. Tensors keep the message's body.
struct ReceivedStep {
  PartialSums parts{};
  /// Those that the sender ran.
  ReplicaRange replicas{};
  /// Input positions of the sender's replicas, in their order.
  InputPositions positions{};
  std::vector<at::Tensor> buffers{};
};
/// Unpacks the message in a run of this many replicas.
ReceivedStep received_step(StepGradients message, std::int64_t replicas);
/// Throws DataLoss for a message about another step.
void check_turn(const StepGradients& message, std::int64_t step, std::int64_t sequence);

/// In words, where the batches of two tasks are not of one size: they should be, unless an input is
/// small or ends. Else empty.
std::string batch_difference(const std::string& task, const PartialSums& parts,
                             const std::string& other, const PartialSums& of_other);

/// Moves the positions of the sender's replicas into those of the run.
void take_positions(ReceivedStep& from, InputPositions& positions);

/// The parts of all tasks together, added in the order of the tree.
PartialSums add_parts(std::int64_t replicas, PartialSums own, std::vector<ReceivedStep> received);

}  // namespace muster::internal
