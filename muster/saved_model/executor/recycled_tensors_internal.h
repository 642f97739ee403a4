#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>

/// A request of one row makes hundreds of tensors of a few bytes, each of which takes three pieces
/// of memory and gives them back. Those of plans are used again instead: a step writes to the
/// tensor that an earlier step of the thread needs no more. So a value has a place for as long as
/// the plan needs it, and no lock is taken. What leaves a plan, or shares memory with what does, is
/// not used again.
namespace muster::executor {

/// A contiguous tensor of the host with these sizes, whose elements have no values; undefined for
/// types and sizes that are not kept.
at::Tensor recycled(at::IntArrayRef sizes, at::ScalarType type);

/// Keeps a tensor of recycled() for the next one in this thread, if nothing else refers to it or
/// its memory. Others are let go.
void recycle(at::Tensor&& tensor);

/// Bytes that a thread keeps at most.
std::size_t most_recycled_bytes();

}  // namespace muster::executor
