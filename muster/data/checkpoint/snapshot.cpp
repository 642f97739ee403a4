#include <algorithm>
#include <cstring>
#include <new>

#include "muster/base/error.h"
#include "muster/data/checkpoint/snapshot_internal.h"

namespace muster {
namespace {

// Large enough that taking one costs nothing beside copying it, small enough to share fairly.
constexpr std::size_t kCopyBytes = std::size_t{2} << 20;
constexpr std::size_t kAlignment = 64;

std::size_t aligned(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

void Snapshot::reserve(std::size_t bytes) {
  if (bytes <= capacity_) return;
  buffer_.reset();
  capacity_ = 0;
  try {
    // Zeroes, so that the pages are there before the first copy is waited for.
    buffer_ = std::make_unique<std::byte[]>(bytes);
  } catch (const std::bad_alloc&) {
    throw ResourceExhausted("there is no memory for a snapshot of {} bytes", bytes);
  }
  capacity_ = bytes;
}

void Snapshot::plan(std::span<const TensorView> tensors) {
  chunks_.clear();
  tensors_.clear();
  texts_.clear();
  lists_.clear();
  std::size_t room = 0;
  for (const TensorView& tensor : tensors) room += aligned(tensor.bytes.size());
  reserve(room);
  std::byte* to = buffer_.get();
  for (const TensorView& tensor : tensors) {
    add(tensor, to);
    to += aligned(tensor.bytes.size());
  }
  copied_ = 0;
  next_ = 0;
}

void Snapshot::add(const TensorView& tensor, std::byte* to) {
  TensorView& copy = tensors_.emplace_back(tensor);
  copy.name = texts_.emplace_back(tensor.name);
  if (!tensor.strings.empty()) {
    auto& list = lists_.emplace_back();
    for (const std::string_view text : tensor.strings) list.push_back(texts_.emplace_back(text));
    copy.strings = list;
  }
  copy.bytes = {to, tensor.bytes.size()};
  for (std::size_t at = 0; at < tensor.bytes.size(); at += kCopyBytes) {
    chunks_.push_back(
        {tensor.bytes.data() + at, to + at, std::min(kCopyBytes, tensor.bytes.size() - at)});
  }
}

void Snapshot::copy_chunks() {
  for (std::size_t i = next_++; i < chunks_.size(); i = next_++) {
    std::memcpy(chunks_[i].to, chunks_[i].from, chunks_[i].size);
    copied_.fetch_add(1, std::memory_order_release);
  }
}

}  // namespace muster
