#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "muster/distribution/collective/shard_layout_internal.h"
#include "muster/distribution/membership/group_internal.h"
#include "muster/train/engine/participant.h"

// How tasks that hold a part each give it to the others.
namespace muster::internal {

/// Brings the values that every task has of its own range of `flat` to all tasks, over the
/// connections of the exchange: what a task has doubles from stage to stage. Messages are of at
/// most `piece` elements. False when the run has ended, or this task is to stop. Throws
/// PeersChanged.
bool gather_values(Group& group, const ShardLayout& layout, const at::Tensor& flat,
                   std::int64_t piece, const std::string& what);

/// How a task finds out whether it sees the chief's folder: a file there, and what is in it.
struct FolderProof {
  std::string file{};
  std::string text{};
};

/// Brings slots and averages of the chief's last checkpoint to the tasks that hold them, tensor
/// after tensor: every task passes on what others hold, and has memory for one tensor beside its
/// own. Where there is no checkpoint, all have what a run begins with. `proof` is the chief's, and
/// is returned. Throws PeersChanged.
FolderProof spread_held(Group& group, HeldParts& held, FolderProof proof);

}  // namespace muster::internal
