#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "muster/distribution/body_codec_internal.h"
#include "muster/engine/strategy.h"
#include "muster/net/buffer.h"
#include "muster/optim/updater.h"

// What a task tells the others in a step, as a header and pieces of memory.
namespace muster::internal {

/// The elements that the task of this rank adds up, of `ranks`.
FlatRange slice_of(std::int64_t elements, std::size_t rank, std::size_t ranks);

/// What a process adds to a step beside gradients.
struct StepNotes {
  /// Only those of the replicas that the process runs are sent.
  InputPositions positions{};
  /// Replica 0's. They are sent by the process that runs it, and written to by the others.
  std::vector<at::Tensor> buffers{};
  /// Elements of the flat gradients, and how many tables have gradients by rows.
  std::int64_t flat_size = 0;
  std::size_t tables = 0;
};
StepNotes notes_of(Participant& participant);

/// Sent from the memory of `parts` and `notes`, which must live until then. These ranges of the
/// dense gradients are in it, one behind the other; everything else is, whole. Buffers are in it
/// when the task runs replica 0.
EncodedMessage encode_step(std::int64_t step, std::int64_t sequence, const PartialSums& parts,
                           const StepNotes& notes, ReplicaRange replicas,
                           std::span<const FlatRange> dense);

/// What another task told. Tensors keep the message's body.
struct ReceivedStep {
  PartialSums parts{};
  /// Those that the sender ran.
  ReplicaRange replicas{};
  /// Of the sender's replicas, in their order.
  InputPositions positions{};
  std::vector<at::Tensor> buffers{};
};
/// `dense_size` elements of dense gradients are in it. Throws DataLoss for a message that does not
/// fit the run: another step, other replicas, other sizes than this task's own, which `notes` has.
ReceivedStep decode_step(std::string_view header, net::Buffer body, std::int64_t step,
                         std::int64_t sequence, std::int64_t replicas, std::int64_t dense_size,
                         const StepNotes& notes);

/// In words, where the batches of two tasks are not of one size: they should be, unless an input is
/// small or ends. Else empty.
std::string batch_difference(const std::string& task, const PartialSums& parts,
                             const std::string& other, const PartialSums& of_other);

/// Writes the positions of the sender's replicas into those of the run.
void copy_positions(const ReceivedStep& from, InputPositions& positions);

/// The parts of all tasks together, added in the order of the tree.
PartialSums add_parts(std::int64_t replicas, PartialSums own, std::vector<ReceivedStep> received);

}  // namespace muster::internal
