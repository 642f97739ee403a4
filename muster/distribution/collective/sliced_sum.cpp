#include "muster/distribution/collective/sliced_sum_internal.h"

#include <algorithm>

namespace muster::internal {
namespace {

// Of a slice's sum: while one piece is on its way the next is added up.
constexpr std::int64_t kSlicePiece = 256 * 1024;

bool is_empty(const FlatRange& range) { return range.first == range.last; }

at::Tensor view_of(const at::Tensor& flat, const FlatRange& range) {
  return flat.narrow(0, range.first, range.last - range.first);
}

}  // namespace

FlatRange slice_of(std::int64_t elements, std::size_t rank, std::size_t ranks) {
  // Whole cache lines, so that additions are aligned.
  constexpr std::int64_t kLine = 16;
  const std::int64_t lines = (elements + kLine - 1) / kLine;
  const auto start = [&](std::size_t place) {
    return std::min(elements, lines * static_cast<std::int64_t>(place) /
                                  static_cast<std::int64_t>(ranks) * kLine);
  };
  return {start(rank), start(rank + 1)};
}

SlicedSum::SlicedSum(Group& group, std::int64_t replicas, const PartialSums& own,
                     const std::vector<ReceivedStep>& received, const at::Tensor& whole)
    : group_(group), replicas_(replicas), own_(own), received_(received), whole_(whole) {}

// Of a task's slice; empty behind its end.
FlatRange SlicedSum::piece_of(std::size_t rank, std::int64_t number) const {
  const FlatRange slice = slice_of(whole_.numel(), rank, group_.size());
  const std::int64_t first = std::min(slice.last, slice.first + number * kSlicePiece);
  return {first, std::min(slice.last, first + kSlicePiece)};
}

template <typename Work>
void SlicedSum::for_others(const Work& work) const {
  for (std::size_t i = 1; i < group_.size(); ++i) work((group_.rank() + i) % group_.size());
}

// The next piece from that task.
template <typename Message>
std::optional<at::Tensor> SlicedSum::take(std::size_t from, const FlatRange& range) {
  const auto message = group_.take_unless_stopped<Message>(from, what_);
  if (!message) return std::nullopt;
  return message->values.as_tensor({range.last - range.first}, at::kFloat);
}

void SlicedSum::send_parts(std::int64_t number) {
  for_others([&](std::size_t to) {
    const FlatRange range = piece_of(to, number);
    if (is_empty(range)) return;
    for (const auto& [part, sum] : own_.sums) {
      if (sum) group_.send(to, SlicePart{{.bytes = bytes_of(view_of(sum->flat, range))}});
    }
  });
}

// Of this task's own slice, for all.
bool SlicedSum::add_piece(std::int64_t number) {
  const FlatRange range = piece_of(group_.rank(), number);
  if (is_empty(range)) return true;
  TreeSum<at::Tensor> sum(replicas_, [](at::Tensor& into, at::Tensor&& from) { into.add_(from); });
  for (const auto& [part, value] : own_.sums) {
    sum.report_part(part, value ? std::optional(view_of(value->flat, range)) : std::nullopt);
  }
  std::size_t from = 0;
  for (const ReceivedStep& other : received_) {
    if (from == group_.rank()) ++from;
    for (const auto& [part, value] : other.parts.sums) {
      std::optional<at::Tensor> piece;
      if (value) {
        piece = take<SlicePart>(from, range);
        if (!piece) return false;
      }
      sum.report_part(part, std::move(piece));
    }
    ++from;
  }
  const at::Tensor result = *sum.take();
  for_others([&](std::size_t to) { group_.send(to, SliceSum{{.bytes = bytes_of(result)}}); });
  view_of(whole_, range).copy_(result);
  return true;
}

bool SlicedSum::take_sums(std::int64_t number) {
  bool all = true;
  for_others([&](std::size_t from) {
    const FlatRange range = piece_of(from, number);
    if (!all || is_empty(range)) return;
    const auto sum = take<SliceSum>(from, range);
    all = sum.has_value();
    if (sum) view_of(whole_, range).copy_(*sum);
  });
  return all;
}

bool SlicedSum::add(const std::string& what) {
  what_ = what;
  const std::int64_t pieces =
      (slice_of(whole_.numel(), 0, group_.size()).last + kSlicePiece) / kSlicePiece;
  // Always one piece ahead, so that nobody waits for what is only now being sent. Both sides take
  // in the order in which the other sends: parts 0, parts 1, sum 0, parts 2, sum 1, ...
  send_parts(0);
  for (std::int64_t piece = 0; piece < pieces; ++piece) {
    send_parts(piece + 1);
    if (!add_piece(piece)) return false;
    if (piece > 0 && !take_sums(piece - 1)) return false;
  }
  return take_sums(pieces - 1);
}

}  // namespace muster::internal
