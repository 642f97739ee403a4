#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "muster/distribution/collective/shard_layout_internal.h"
#include "muster/distribution/membership/group_internal.h"
#include "muster/distribution/membership/links_internal.h"
#include "muster/distribution/wire/step_parts_internal.h"

namespace muster::internal {

inline std::int64_t size_of(const FlatRange& range) { return range.last - range.first; }
/// The elements of a range, of a tensor that begins with the element `begin`.
inline at::Tensor view_of(const at::Tensor& values, std::int64_t begin, const FlatRange& range) {
  return values.narrow(0, range.first - begin, size_of(range));
}

/// The two halves of a range, at a whole cache line.
struct Halves {
  FlatRange lower{};
  FlatRange upper{};
};
Halves halves_of(const FlatRange& range);

/// The part of a range that a task keeps at a stage, and the part that it gives to its partner.
struct SharedRange {
  FlatRange kept{};
  FlatRange given{};
};
SharedRange share(const FlatRange& range, const Exchange::Stage& stage);

/// How dense gradients go in slices.
struct SliceOptions {
  /// Where their sum is written; undefined: they are in the messages.
  at::Tensor whole{};
  /// Elements of a message.
  std::int64_t piece = 1;
  /// As bfloat16. The sum is rounded in all tasks alike.
  bool is_compressed = false;
  /// Where each task gets the sum of its own range of these alone, and `whole` has the size of that
  /// range; null: all get all.
  const ShardLayout* shards = nullptr;
  /// Pieces that are sent before the first of the partner's has come, by each side as it likes; by
  /// default as many as are on the way to where the partner is.
  std::optional<std::int64_t> pieces_ahead{};
};

/// One step's sum over all tasks of a group by recursive doubling (Exchange). Large dense gradients
/// go by recursive halving: at each stage a task gives half of what it has to its partner, adds up
/// the other half, and ends with the sum of a slice; the slices then go back the same way, unless
/// every task keeps its own.
/// Additions are those of the tree over replicas, whichever task makes them.
class AllReduce {
 public:
  /// `sizes` are those of a message with all gradients. `what` says what is waited for. `order`, of
  /// a sharded run, becomes that of the task that has one, in all tasks; it outlives this.
  AllReduce(Group& group, ExpectedTensors sizes, const SliceOptions& slices, std::string what,
            PartOrder* order = nullptr);

  /// The sum of `own`, whose memory is added to, and the other tasks' gradients; `dense` has its
  /// dense gradients where they go in slices. Nothing when the run has ended, or this task is to
  /// stop. Throws PeersChanged.
  std::optional<StepGradients> sum(StepGradients own, TreeSum<at::Tensor>::Parts dense);

 private:
  using Parts = TreeSum<at::Tensor>::Parts;
  struct Addend;

  bool is_sliced() const { return whole_.defined(); }
  bool is_divided() const { return slices_.shards != nullptr; }
  FlatRange sum_for(const RankRange& ranks) const;
  void send_block(std::size_t to);
  std::optional<StepGradients> take_block(std::size_t from, const RankRange& block,
                                          const StepGradients& own);
  bool be_summed_by(const Exchange::Stage& neighbour);
  bool take_in(const Exchange::Stage& neighbour);
  bool go_through_stages();
  bool give_back_to(const Exchange::Stage& neighbour);
  bool exchange(const Exchange::Stage& stage, const SharedRange& shared, bool is_last);
  SharedRange share_at(std::size_t stage) const;
  void add_block(StepGradients other, bool is_left);

  std::int64_t pieces_of(const FlatRange& range) const;
  FlatRange piece_of(const FlatRange& range, std::int64_t number) const;
  std::int64_t pieces_ahead(std::size_t partner) const;
  void send_first_parts(std::size_t to, const FlatRange& give);
  bool reduce(std::size_t partner, const StepGradients& other, const FlatRange& give,
              const FlatRange& keep, bool is_last);
  at::Tensor packed(const at::Tensor& values) const;
  void send_parts(std::size_t to, const FlatRange& piece);
  bool add_piece(std::size_t from, const StepGradients& other, const FlatRange& piece,
                 const FlatRange& keep, Parts& next);
  void send_sum(std::size_t to, const FlatRange& piece);
  bool take_sum(std::size_t from, const FlatRange& piece);
  bool swap_sums(std::size_t partner, const FlatRange& give, const FlatRange& take);
  template <typename Message>
  std::optional<Message> take_slice(std::size_t from);
  template <typename Message>
  std::optional<at::Tensor> take_values(std::size_t from, const FlatRange& piece);

  Group& group_;
  /// Slices come while those before are added.
  std::optional<Group::ReceivingAhead> receiving_ahead_;
  const ExpectedTensors sizes_;
  const SliceOptions slices_;
  const at::Tensor& whole_ = slices_.whole;
  const std::string what_;
  PartOrder* const order_;
  const Exchange exchange_;
  const Halving halving_;
  /// This task's partial sum so far; of dense gradients in slices, the elements of range_.
  StepGradients block_{};
  Parts dense_;
  FlatRange range_;
  /// The sum over all, of the elements from `sum_begin_` on.
  at::Tensor sum_;
  std::int64_t sum_begin_ = 0;
  /// Pieces that are sent to the partner of this stage before the first of its own has come.
  std::int64_t ahead_ = 1;
  /// Slices of the partner that came before others that are due first: it may be further ahead.
  std::tuple<std::deque<SlicePart>, std::deque<SliceSum>> early_{};
};

}  // namespace muster::internal
