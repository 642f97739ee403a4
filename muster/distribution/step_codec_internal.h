#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "muster/estimator/strategy.h"
#include "muster/net/buffer.h"
#include "muster/optim/updater.h"

// What a task tells the others in a step, as a head and pieces of memory.
namespace muster::internal {

/// The elements that the task of this rank adds up, of `ranks`.
FlatRange slice_of(std::int64_t elements, std::size_t rank, std::size_t ranks);

struct StepMessage {
  std::string head{};
  /// Memory of `parts` and `notes`, which must live until it is sent.
  std::vector<std::span<const std::byte>> body{};
};
/// These ranges of the dense gradients are in it, one behind the other; everything else is, whole.
/// Buffers are in it when the task runs replica 0.
StepMessage encode_step(std::int64_t step, std::int64_t sequence, const StepParts& parts,
                        const StepNotes& notes, ReplicaRange replicas,
                        std::span<const FlatRange> dense);

/// What another task told. Tensors keep the message's body.
struct ReceivedStep {
  StepParts parts{};
  /// Those that the sender ran.
  ReplicaRange replicas{};
  /// Of the sender's replicas, in their order.
  std::vector<std::optional<std::string>> positions{};
  std::vector<at::Tensor> buffers{};
};
/// `dense_size` elements of dense gradients are in it. Throws DataLoss for a message that does not
/// fit the run: another step, other replicas, other sizes than this task's own, which `notes` has.
ReceivedStep decode_step(std::string_view head, net::Buffer body, std::int64_t step,
                         std::int64_t sequence, std::int64_t replicas, std::int64_t dense_size,
                         const StepNotes& notes);

/// In words, where the batches of two tasks are not of one size: they should be, unless an input is
/// small or ends. Else empty.
std::string batch_difference(const std::string& task, const StepParts& parts,
                             const std::string& other, const StepParts& of_other);

/// Writes the positions of the sender's replicas into those of the run.
void copy_positions(const ReceivedStep& from, std::vector<std::optional<std::string>>& positions);

/// The parts of all tasks together, added in the order of the tree.
StepParts add_parts(std::int64_t replicas, StepParts own, std::vector<ReceivedStep> received);

}  // namespace muster::internal
