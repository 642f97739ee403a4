#pragma once

#include <memory>

#include "muster/base/file_system.h"
#include "muster/data/checkpoint/snapshot_writer.h"
#include "muster/distribution/membership/membership_internal.h"
#include "muster/train/engine/tensor_codec.h"

namespace muster::internal {

/// Begins to write this task's part of the chief's checkpoint, which the request describes, and
/// tells the coordinator when that is done or has failed. Values must stay as they are until
/// `writer` has copied them. The writer and the membership outlive what is written.
void begin_part(SnapshotWriter& writer, Membership& membership, const Path& model_dir,
                const PartRequest& request, const std::shared_ptr<EncodedTensors>& part);

}  // namespace muster::internal
