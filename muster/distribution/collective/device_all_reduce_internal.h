#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "muster/distribution/collective/all_reduce_internal.h"
#include "muster/distribution/collective/device_link_internal.h"
#include "muster/distribution/membership/links_internal.h"
#include "muster/nn/device/gpu.h"
#include "muster/train/engine/packed_tensors.h"
#include "muster/train/engine/strategy.h"

namespace muster::internal {

/// AllReduce where gradients stay on devices: the same halves to the same partners, the same
/// additions in the order of the tree over replicas, given to a stream stage by stage, and this for
/// one piece of the gradients after the other: while the backward makes the next ones. The hosts
/// tell each other in its place which replicas have a batch.
class DeviceAllReduce final : public DeviceSums {
 public:
  /// For one generation; `flat` are the variables, and `pieces`, the same in all tasks, make up all
  /// of them. `link` outlives it, and may be null for a task that is alone.
  DeviceAllReduce(const GenerationPlan& plan, std::size_t rank, std::int64_t replicas,
                  const at::Tensor& flat, std::vector<FlatRange> pieces, DeviceLink* link);

  /// By replica of the run, before add_up(): whether it has a batch.
  void begin_step(std::vector<bool> has_batch) { has_batch_ = std::move(has_batch); }
  void add_up(PartialSums& own, const std::vector<at::Tensor>& buffers) override;

 private:
  using Parts = TreeSum<at::Tensor>::Parts;
  /// Whether a part has a sum.
  using Nodes = TreeSum<char>::Parts;

  Nodes parts_of(const ReplicaRange& replicas) const;
  void take_losses(const PartialSums& own);
  void pack(const std::vector<at::Tensor>& buffers);
  void sum_pieces(const PartialSums& own, const std::vector<at::Tensor>& buffers);
  void hold_until_whole(const PartialSums& own, std::size_t piece) const;
  void sum_piece();
  at::Tensor losses_of(const RankRange& ranks) const;

  bool has_buffers(const RankRange& ranks) const;
  void send_block(std::size_t to, const RankRange& own, const RankRange& others,
                  const FlatRange& range);
  Parts receive_block(std::size_t from, const RankRange& own, const RankRange& others,
                      const FlatRange& range);
  void add(Parts received, const FlatRange& keep);
  void reduce(const Exchange::Stage& stage, const SharedRange& shared);
  void spread(const Exchange::Stage& stage, const FlatRange& range);
  void be_summed_by(const Exchange::Stage& neighbour);
  void take_in(const Exchange::Stage& neighbour);
  void give_back_to(const Exchange::Stage& neighbour);
  void go_through_stages();

  const std::vector<GenerationMember> members_;
  const std::size_t rank_;
  const std::int64_t replicas_;
  const std::vector<FlatRange> pieces_;
  DeviceLink* link_;
  SideStream beside_;
  const Exchange exchange_;
  /// The task that runs replica 0.
  std::size_t first_rank_ = 0;
  std::vector<bool> has_batch_;

  // State of the current step. Memory serves step after step, since captured steps know it.
  /// The piece that is being summed, and whether losses and buffers go with it.
  FlatRange piece_;
  bool has_notes_ = false;
  Parts dense_;
  FlatRange range_;
  const at::Tensor whole_;
  const at::Tensor losses_;
  std::optional<PackedTensors> packed_;
};

}  // namespace muster::internal
