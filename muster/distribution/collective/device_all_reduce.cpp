#include "muster/distribution/collective/device_all_reduce_internal.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <torch/types.h>

#include <algorithm>
#include <utility>

namespace muster::internal {
DeviceAllReduce::DeviceAllReduce(const GenerationPlan& plan, std::size_t rank,
                                 std::int64_t replicas, const at::Tensor& flat,
                                 std::vector<FlatRange> pieces, DeviceLink* link)
    : members_(plan.members),
      rank_(rank),
      replicas_(replicas),
      pieces_(std::move(pieces)),
      link_(link),
      beside_(flat.device()),
      exchange_(exchange_of(plan.members, rank)),
      whole_(at::empty_like(flat)),
      losses_(at::zeros({replicas}, flat.options())) {
  const auto runs_first = [](const GenerationMember& one) { return one.replicas.contains(0); };
  first_rank_ = static_cast<std::size_t>(
      std::distance(members_.begin(), std::ranges::find_if(members_, runs_first)));
}

// Those that the replicas of a task, or of neighbouring ones, make up.
DeviceAllReduce::Nodes DeviceAllReduce::parts_of(const ReplicaRange& replicas) const {
  TreeSum<char> sum(replicas_, [](char&, char&&) {});
  for (std::int64_t r = replicas.first; r < replicas.last; ++r) {
    const bool has_batch = has_batch_[static_cast<std::size_t>(r)];
    sum.report(r, has_batch ? std::optional<char>(1) : std::nullopt);
  }
  return sum.take_parts();
}

at::Tensor DeviceAllReduce::losses_of(const RankRange& ranks) const {
  const ReplicaRange replicas = replicas_of(members_, ranks);
  return losses_.narrow(0, replicas.first, replicas.size());
}

bool DeviceAllReduce::has_buffers(const RankRange& ranks) const {
  return packed_.has_value() && first_rank_ >= ranks.first && first_rank_ < ranks.last;
}

// --------------------------------------------------------------------- what a step begins with

void DeviceAllReduce::pack(const std::vector<at::Tensor>& buffers) {
  if (buffers.empty()) return;
  if (!packed_) packed_.emplace(buffers, whole_.device());
  if (has_buffers({rank_, rank_ + 1})) copy_tensors(buffers, packed_->tensors());
}

void DeviceAllReduce::take_losses(const PartialSums& own) {
  for (std::size_t r = 0; r < own.losses.size(); ++r) {
    if (!own.losses[r].defined()) continue;
    losses_.narrow(0, static_cast<std::int64_t>(r), 1)
        .copy_(own.losses[r].to(at::kFloat).reshape({1}));
  }
}

// --------------------------------------------------------------------- halves to and fro

// Sends this task's sums of a range and, with the first piece, the losses of its block and, where
// the other lacks them, the buffers.
void DeviceAllReduce::send_block(std::size_t to, const RankRange& own, const RankRange& others,
                                 const FlatRange& range) {
  for (const auto& [part, values] : dense_) {
    if (values && size_of(range) > 0) link_->send(view_of(*values, range_.first, range), to);
  }
  if (!has_notes_) return;
  if (replicas_of(members_, own).size() > 0) link_->send(losses_of(own), to);
  if (has_buffers(own) && !has_buffers(others)) link_->send(packed_->memory(), to);
}

DeviceAllReduce::Parts DeviceAllReduce::receive_block(std::size_t from, const RankRange& own,
                                                      const RankRange& others,
                                                      const FlatRange& range) {
  Parts received;
  for (const auto& [part, has_sum] : parts_of(replicas_of(members_, others))) {
    auto& values = received[part];
    if (!has_sum) continue;
    values = at::empty({size_of(range)}, whole_.options());
    if (size_of(range) > 0) link_->receive(*values, from);
  }
  if (!has_notes_) return received;
  if (replicas_of(members_, others).size() > 0) link_->receive(losses_of(others), from);
  if (has_buffers(others) && !has_buffers(own)) link_->receive(packed_->memory(), from);
  return received;
}

void DeviceAllReduce::add(Parts received, const FlatRange& keep) {
  TreeSum<at::Tensor> sum(replicas_, [](at::Tensor& into, at::Tensor&& from) { into.add_(from); });
  for (auto& [part, values] : dense_) {
    sum.report_part(part,
                    values ? std::optional(view_of(*values, range_.first, keep)) : std::nullopt);
  }
  for (auto& [part, values] : received) sum.report_part(part, std::move(values));
  dense_ = sum.take_parts();
  range_ = keep;
}

void DeviceAllReduce::reduce(const Exchange::Stage& stage, const SharedRange& shared) {
  link_->begin();
  send_block(stage.partner, stage.own, stage.others, shared.given);
  Parts received = receive_block(stage.partner, stage.own, stage.others, shared.kept);
  link_->end();
  add(std::move(received), shared.kept);
}

// `range` is the one that the stage began with: each has the sum of its half.
void DeviceAllReduce::spread(const Exchange::Stage& stage, const FlatRange& range) {
  const SharedRange shared = share(range, stage);
  link_->begin();
  if (size_of(shared.kept) > 0) link_->send(view_of(whole_, 0, shared.kept), stage.partner);
  if (size_of(shared.given) > 0) link_->receive(view_of(whole_, 0, shared.given), stage.partner);
  link_->end();
}

// --------------------------------------------------------------------- tasks without stages

void DeviceAllReduce::be_summed_by(const Exchange::Stage& neighbour) {
  link_->begin();
  send_block(neighbour.partner, neighbour.own, neighbour.others, range_);
  link_->end();
  link_->begin();
  link_->receive(view_of(whole_, 0, piece_), neighbour.partner);
  if (has_notes_) link_->receive(losses_, neighbour.partner);
  const bool has_them = has_buffers(neighbour.own);
  if (has_notes_ && packed_ && !has_them) link_->receive(packed_->memory(), neighbour.partner);
  link_->end();
}

void DeviceAllReduce::take_in(const Exchange::Stage& neighbour) {
  link_->begin();
  Parts received = receive_block(neighbour.partner, neighbour.own, neighbour.others, range_);
  link_->end();
  add(std::move(received), range_);
}

void DeviceAllReduce::give_back_to(const Exchange::Stage& neighbour) {
  link_->begin();
  link_->send(view_of(whole_, 0, piece_), neighbour.partner);
  if (has_notes_) link_->send(losses_, neighbour.partner);
  const bool has_them = has_buffers(neighbour.others);
  if (has_notes_ && packed_ && !has_them) link_->send(packed_->memory(), neighbour.partner);
  link_->end();
}

// The range at the beginning of each stage. In the last one both partners add up all of what is
// left, which is as many bytes as half of it to and fro, and one message less to wait for.
void DeviceAllReduce::go_through_stages() {
  std::vector<FlatRange> ranges;
  for (const Exchange::Stage& stage : exchange_.stages) {
    const bool is_last = &stage == &exchange_.stages.back();
    if (!is_last) ranges.push_back(range_);
    reduce(stage, is_last ? SharedRange{.kept = range_, .given = range_} : share(range_, stage));
  }
  if (size_of(range_) > 0) view_of(whole_, 0, range_).copy_(*dense_.begin()->second);
  for (std::size_t i = ranges.size(); i-- > 0;) spread(exchange_.stages[i], ranges[i]);
}

// --------------------------------------------------------------------- all of a step

void DeviceAllReduce::sum_piece() {
  for (const Exchange::Stage& neighbour : exchange_.taken_from) take_in(neighbour);
  if (exchange_.given_to) {
    be_summed_by(*exchange_.given_to);
  } else {
    go_through_stages();
  }
  for (const Exchange::Stage& neighbour : exchange_.taken_from) give_back_to(neighbour);
}

// Where there are as many marks as pieces, each is that of a piece.
void DeviceAllReduce::hold_until_whole(const PartialSums& own, std::size_t piece) const {
  if (own.marks.size() == pieces_.size()) return own.marks[piece].hold_stream();
  for (const DeviceMark& mark : own.marks) mark.hold_stream();
}

void DeviceAllReduce::sum_pieces(const PartialSums& own, const std::vector<at::Tensor>& buffers) {
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    hold_until_whole(own, i);
    piece_ = pieces_[i];
    has_notes_ = i == 0;
    if (has_notes_) {
      take_losses(own);
      pack(buffers);
    }
    dense_.clear();
    for (const auto& [part, sum] : own.sums) {
      dense_[part] = sum ? std::optional(view_of(sum->flat, 0, piece_)) : std::nullopt;
    }
    range_ = piece_;
    sum_piece();
  }
}

void DeviceAllReduce::add_up(PartialSums& own, const std::vector<at::Tensor>& buffers) {
  if (members_.size() == 1) return;
  const torch::NoGradGuard no_grad;
  if (own.marks.empty()) {
    sum_pieces(own, buffers);
  } else {
    beside_.run([&] { sum_pieces(own, buffers); });
  }
  own.marks = {};
  if (packed_ && first_rank_ != rank_) copy_tensors(packed_->tensors(), buffers);
  own.sums.clear();
  own.sums[{0, replicas_}] = Gradients{.flat = whole_};
  own.present = std::ranges::count(has_batch_, true);
  for (std::size_t r = 0; r < has_batch_.size(); ++r) {
    if (has_batch_[r]) own.losses[r] = losses_.narrow(0, static_cast<std::int64_t>(r), 1);
  }
  dense_.clear();
}

}  // namespace muster::internal
