#include "muster/distribution/collective.h"

#include <ATen/ops/empty.h>
#include <torch/types.h>

#include <algorithm>
#include <utility>

#include "muster/base/log.h"
#include "muster/distribution/body_codec_internal.h"
#include "muster/distribution/membership_internal.h"
#include "muster/distribution/snapshot_internal.h"
#include "muster/distribution/step_codec_internal.h"

namespace muster {
namespace internal {
namespace {

// Of a slice's sum: while one piece is on its way the next is added up.
constexpr std::int64_t kSlicePiece = 256 * 1024;

class Collective final : public Strategy {
 public:
  Collective(const RunConfig& config, const CollectiveOptions& options)
      : config_(config),
        options_(options),
        membership_(config, options.peers),
        has_state_(config.is_chief()) {}

  std::string describe() const override;
  void check(const EstimatorOptions& options) const override;
  RunTerms join(const RunTerms& own) override { return membership_.join(own); }
  void attach(Participant& participant) override { participant_ = &participant; }
  void synchronize() override;
  std::optional<std::int64_t> last_step() override { return membership_.last_step(); }
  ReplicaRange replicas() const override { return group_->replicas(); }
  std::optional<StepResult> apply(std::int64_t step, PartialSums own) override;
  void announce_end() override { membership_.announce_end(); }
  void finish(std::int64_t step, bool early) override { membership_.finish(step, early); }

 private:
  std::optional<PartialSums> sum(std::int64_t step, PartialSums own, StepNotes& notes);
  /// Nothing also when this task is to stop and the other may be hung: the step is not made then.
  std::optional<net::Frame> take_unless_stopped(std::size_t from, MessageType type,
                                                const std::string& what) {
    if (!group_->await(from, what)) return std::nullopt;
    return group_->take(from, type, what);
  }
  void compare_batches(const PartialSums& own, const std::vector<ReceivedStep>& received);
  bool add_slices(const PartialSums& own, const std::vector<ReceivedStep>& received,
                  std::int64_t step, at::Tensor& whole);

  const RunConfig config_;
  const CollectiveOptions options_;
  Membership membership_;
  /// The membership's current one.
  Group* group_ = nullptr;
  Participant* participant_ = nullptr;
  /// Whether this process holds a state of the run.
  bool has_state_;
  /// Messages of steps in this generation.
  std::int64_t sequence_ = 0;
  /// Whether the chief has looked at the sizes of the tasks' batches.
  bool has_compared_batches_ = false;
  /// The sum of all dense gradients, where it is made in slices.
  at::Tensor whole_;
};

std::string Collective::describe() const {
  return fmt::format("collective: {} tasks, each with a copy of the variables; chief {} at {}",
                     config_.task.num_worker_replicas, membership_.chief().task.name(),
                     membership_.chief().address);
}

void Collective::check(const EstimatorOptions& /*options*/) const {
  if (config_.task.num_ps_replicas == 0) return;
  throw FailedPrecondition(
      "{} makes this task {} of a cluster with ps tasks, but the strategy that "
      "RunConfig::train_distribute makes has nothing for them to do; leave the ps out of the "
      "cluster, or train_distribute unset",
      config_.task.source, config_.task.task.name());
}

void Collective::synchronize() {
  const RunSnapshot own = participant_->snapshot();
  const Progress progress = has_state_ ? Progress{own.step, own.left_out} : Progress{.step = -1};
  const auto take = [&](Group& group, const Source& source) {
    if (source.rank == group.rank()) {
      for (const std::size_t to : source.to) send_snapshot(group, own, to);
    } else if (std::ranges::find(source.to, group.rank()) != source.to.end()) {
      participant_->take_over(receive_snapshot(group, source.rank, own));
    }
    has_state_ = true;
    sequence_ = 0;
    return true;
  };
  // Where the run ended while this task was away, it takes part in no step.
  internal::synchronize(
      membership_, synchronize_deadline(config_, has_state_), [&] { return progress; }, take);
  group_ = &membership_.group();
}

// --------------------------------------------------------------------------------- a step

// Adds up the dense gradients: every task its slice, which the others send it piece by piece, and
// it sends the sum of each piece on as soon as it is there. False when the run has ended.
bool Collective::add_slices(const PartialSums& own, const std::vector<ReceivedStep>& received,
                            std::int64_t step, at::Tensor& whole) {
  const std::size_t size = group_->size();
  const std::size_t rank = group_->rank();
  const std::int64_t elements = whole.numel();
  const std::string what = fmt::format("the gradients of step {}", step + 1);
  // The piece number `piece` of a task's slice; empty behind its end.
  const auto range_of = [&](std::size_t of, std::int64_t piece) {
    const FlatRange slice = slice_of(elements, of, size);
    const std::int64_t first = std::min(slice.last, slice.first + piece * kSlicePiece);
    return FlatRange{first, std::min(slice.last, first + kSlicePiece)};
  };
  const auto view = [](const at::Tensor& flat, const FlatRange& range) {
    return flat.narrow(0, range.first, range.last - range.first);
  };
  const auto others = [&](const auto& work) {
    for (std::size_t i = 1; i < size; ++i) work((rank + i) % size);
  };
  bool ended = false;
  // The next piece from that task, as a tensor of this many elements.
  const auto take = [&](std::size_t from, MessageType type, std::int64_t count) {
    auto frame = take_unless_stopped(from, type, what);
    if (!frame) {
      ended = true;
      return at::Tensor();
    }
    return BodyReader(std::move(frame->body)).tensor({count}, at::kFloat);
  };
  const auto send = [&](std::size_t to, MessageType type, const at::Tensor& piece) {
    const std::span<const std::byte> bytes = bytes_of(piece);
    group_->send(to, type, {}, std::span(&bytes, 1));
  };
  const auto take_sums = [&](std::int64_t piece) {
    others([&](std::size_t from) {
      const FlatRange range = range_of(from, piece);
      if (ended || range.first == range.last) return;
      const at::Tensor sum = take(from, MessageType::kSlice, range.last - range.first);
      if (!ended) view(whole, range).copy_(sum);
    });
  };
  const auto send_parts = [&](std::int64_t piece) {
    others([&](std::size_t to) {
      const FlatRange range = range_of(to, piece);
      if (range.first == range.last) return;
      for (const auto& [part, sum] : own.sums) {
        if (sum) send(to, MessageType::kPart, view(sum->flat, range));
      }
    });
  };
  const std::int64_t pieces = (slice_of(elements, 0, size).last + kSlicePiece) / kSlicePiece;
  // Always one piece ahead, so that nobody waits for what is only now being sent. Both sides take
  // in the order in which the other sends: parts 0, parts 1, sum 0, parts 2, sum 1, ...
  send_parts(0);
  for (std::int64_t piece = 0; piece < pieces && !ended; ++piece) {
    send_parts(piece + 1);
    const FlatRange range = range_of(rank, piece);
    if (range.first != range.last) {
      TreeSum<at::Tensor> sum(membership_.terms().replicas,
                              [](at::Tensor& into, at::Tensor&& from) { into.add_(from); });
      for (const auto& [part, value] : own.sums) {
        sum.report_part(part, value ? std::optional(view(value->flat, range)) : std::nullopt);
      }
      std::size_t from = 0;
      for (const ReceivedStep& other : received) {
        if (from == rank) ++from;
        for (const auto& [part, value] : other.parts.sums) {
          sum.report_part(
              part, value ? std::optional(take(from, MessageType::kPart, range.last - range.first))
                          : std::nullopt);
          if (ended) return false;
        }
        ++from;
      }
      const at::Tensor result = *sum.take();
      others([&](std::size_t to) { send(to, MessageType::kSlice, result); });
      view(whole, range).copy_(result);
    }
    if (piece > 0) take_sums(piece - 1);
  }
  take_sums(pieces - 1);
  return !ended;
}

// Once, by the chief.
void Collective::compare_batches(const PartialSums& own,
                                 const std::vector<ReceivedStep>& received) {
  if (!config_.is_chief() || received.empty() || has_compared_batches_) return;
  has_compared_batches_ = true;
  const auto& members = group_->plan().members;
  for (std::size_t i = 0; i < received.size(); ++i) {
    const std::size_t rank = i < group_->rank() ? i : i + 1;
    const std::string why =
        batch_difference(membership_.task(), own, members[rank].task, received[i].parts);
    if (!why.empty()) log::warning("{}", why);
  }
}

std::optional<PartialSums> Collective::sum(std::int64_t step, PartialSums own, StepNotes& notes) {
  const std::size_t size = group_->size();
  const bool sliced = size > 1 && notes.flat_size * 4 > options_.slice_above;
  const std::int64_t sequence = sequence_++;
  const FlatRange all{0, notes.flat_size};
  const auto sent_whole = sliced ? std::span<const FlatRange>() : std::span(&all, 1);
  for (std::size_t i = 1; i < size; ++i) {
    const std::size_t to = (group_->rank() + i) % size;
    const auto message = encode_step(step, sequence, own, notes, group_->replicas(), sent_whole);
    group_->send(to, MessageType::kStep, message.header, message.body);
  }
  const std::string what = fmt::format("the gradients of step {}", step + 1);
  std::vector<ReceivedStep> received;
  for (std::size_t r = 0; r < size; ++r) {
    if (r == group_->rank()) continue;
    auto frame = take_unless_stopped(r, MessageType::kStep, what);
    if (!frame) return std::nullopt;
    try {
      received.push_back(decode_step(frame->header, std::move(frame->body), step, sequence,
                                     membership_.terms().replicas, sliced ? 0 : notes.flat_size,
                                     notes));
    } catch (Error& error) {
      error.add_context(fmt::format("from {}", group_->plan().members[r].task));
      throw;
    }
  }
  if (size == 1 && !membership_.check()) return std::nullopt;
  compare_batches(own, received);
  const torch::NoGradGuard no_grad;
  if (sliced) {
    // Its memory serves step after step: the sum is read before the next one is made.
    if (!whole_.defined() || whole_.numel() != notes.flat_size) {
      whole_ = at::empty({notes.flat_size}, at::kFloat);
    }
    const bool any = own.present > 0 || std::ranges::any_of(received, [](const ReceivedStep& one) {
                       return one.parts.present > 0;
                     });
    if (any && !add_slices(own, received, step, whole_)) return std::nullopt;
    for (auto& [part, value] : own.sums) {
      if (value) value->flat = value->flat.narrow(0, 0, 0);
    }
  }
  PartialSums total = add_parts(membership_.terms().replicas, std::move(own), received);
  if (sliced && total.present > 0) total.sums.begin()->second->flat = whole_;
  // Nothing is written before everything has come.
  for (const ReceivedStep& other : received) {
    copy_positions(other, notes.positions);
    for (std::size_t i = 0; i < other.buffers.size(); ++i) {
      notes.buffers[i].copy_(other.buffers[i]);
    }
  }
  return total;
}

std::optional<StepResult> Collective::apply(std::int64_t step, PartialSums own) {
  StepNotes notes = notes_of(*participant_);
  auto total = sum(step, std::move(own), notes);
  if (!total) return std::nullopt;
  StepResult result = participant_->update(step, std::move(*total));
  result.positions = std::move(notes.positions);
  return result;
}

}  // namespace
}  // namespace internal

std::unique_ptr<Strategy> make_collective(const RunConfig& config,
                                          const CollectiveOptions& options) {
  return std::make_unique<internal::Collective>(config, options);
}

}  // namespace muster
