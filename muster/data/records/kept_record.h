#pragma once

#include "muster/data/records/record.h"

namespace muster {

/// Gives a record memory of its own where it is in a block with others (shared_block.h). Called
/// by stages that keep records for long and let them go in no order, as a shuffle does: a block of
/// n records stays until the last of them has left, about log(n) times as long as one of them.
void copy_out_of_block(Record& record);
/// Leaves a value that is no record as it is.
template <typename T>
void copy_out_of_block(T&) {}

}  // namespace muster
