#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "muster/distribution/membership/group_internal.h"
#include "muster/distribution/wire/step_parts_internal.h"

namespace muster::internal {

/// The elements that the task of this rank adds up, of `ranks`.
FlatRange slice_of(std::int64_t elements, std::size_t rank, std::size_t ranks);

/// One sum of dense gradients over all tasks of a group: every task adds up its slice, which the
/// others send it piece by piece, and sends the sum of each piece on as soon as it is there.
class SlicedSum {
 public:
  /// Of a run of so many replicas. `own` is what this task has; `received` says of the others, in
  /// the order of their ranks, which parts they have. The sum is written to `whole`.
  SlicedSum(Group& group, std::int64_t replicas, const PartialSums& own,
            const std::vector<ReceivedStep>& received, const at::Tensor& whole);

  /// False when the run has ended, or this task is to stop. `what` says what is waited for. Throws
  /// PeersChanged.
  bool add(const std::string& what);

 private:
  FlatRange piece_of(std::size_t rank, std::int64_t number) const;
  template <typename Work>
  void for_others(const Work& work) const;
  void send_parts(std::int64_t number);
  bool add_piece(std::int64_t number);
  bool take_sums(std::int64_t number);
  template <typename Message>
  std::optional<at::Tensor> take(std::size_t from, const FlatRange& range);

  Group& group_;
  const std::int64_t replicas_;
  const PartialSums& own_;
  const std::vector<ReceivedStep>& received_;
  const at::Tensor whole_;
  std::string what_;
};

}  // namespace muster::internal
