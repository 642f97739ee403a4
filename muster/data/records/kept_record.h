#pragma once

#include "muster/data/records/record.h"

namespace muster {

/// Gives a record memory of its own where it lies in a block with others (shared_block.h). Called
/// by whoever keeps records for long and lets them go in no order, as a shuffle does: a block of n
/// records stays until the last of them has left, about log(n) times as long as one of them.
void copy_out_of_block(Record& record);
/// What is no record stays as it is.
template <typename T>
void copy_out_of_block(T&) {}

}  // namespace muster
