#include "muster/distribution/collective.h"

#include <ATen/ops/empty.h>
#include <torch/types.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "muster/base/log.h"
#include "muster/base/wait.h"
#include "muster/distribution/body_codec_internal.h"
#include "muster/distribution/image_internal.h"
#include "muster/distribution/membership_internal.h"
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
  RunTerms join(const RunTerms& own) override { return membership_.join(own); }
  void synchronize(const std::function<RunImage()>& image,
                   const std::function<void(const RunImage&)>& take,
                   const std::function<void()>& go_back) override;
  ReplicaRange replicas() const override { return group_->replicas(); }
  std::optional<StepParts> sum(std::int64_t step, StepParts own, StepNotes& notes) override;
  void finish(std::int64_t step, bool early) override { membership_.finish(step, early); }

 private:
  bool exchange_slices(at::Tensor& flat, std::int64_t step);

  const RunConfig config_;
  const CollectiveOptions options_;
  Membership membership_;
  /// The membership's current one.
  Group* group_ = nullptr;
  /// Whether this process holds a state of the run.
  bool has_state_;
  /// Messages of steps in this epoch.
  std::int64_t sequence_ = 0;
};

std::string Collective::describe() const {
  return fmt::format("collective: {} tasks, each with a copy of the variables; chief {} at {}",
                     config_.task.num_worker_replicas, membership_.chief().task.name(),
                     membership_.chief().address);
}

void Collective::synchronize(const std::function<RunImage()>& image,
                             const std::function<void(const RunImage&)>& take,
                             const std::function<void()>& /*go_back*/) {
  const RunImage own = image();
  const Deadline deadline = synchronize_deadline(config_, has_state_);
  const Progress progress = has_state_ ? Progress{own.step, own.left_out} : Progress{.step = -1};
  for (;;) {
    const auto source = membership_.begin_epoch(progress, deadline);
    group_ = &membership_.group();
    if (!source) return;  // The run ended while this task was away: it takes part in no step.
    try {
      const std::size_t rank = group_->rank();
      if (source->rank == rank) {
        for (const std::size_t to : source->to) send_image(*group_, own, to);
      } else if (std::ranges::find(source->to, rank) != source->to.end()) {
        take(receive_image(*group_, source->rank, own));
      }
      has_state_ = true;
      sequence_ = 0;
      return;
    } catch (const PeersChanged& error) {
      log::warning("epoch {} ends before it began: {}", group_->plan().number, error.what());
    }
  }
}

// --------------------------------------------------------------------------------- a step

// Makes whole gradients of the slices that the tasks have added up. False when the run has ended.
bool Collective::exchange_slices(at::Tensor& flat, std::int64_t step) {
  const std::int64_t elements = flat.numel();
  const auto bytes = bytes_of(flat);
  const auto piece_of = [&](std::int64_t first, std::int64_t last) {
    return bytes.subspan(static_cast<std::size_t>(first) * 4,
                         static_cast<std::size_t>(last - first) * 4);
  };
  const Slice mine = slice_of(elements, group_->rank(), group_->size());
  for (std::int64_t first = mine.first; first < mine.last; first += kSlicePiece) {
    const std::span<const std::byte> piece =
        piece_of(first, std::min(mine.last, first + kSlicePiece));
    for (std::size_t i = 1; i < group_->size(); ++i) {
      group_->send((group_->rank() + i) % group_->size(), MessageType::kSlice, {},
                   std::span(&piece, 1));
    }
  }
  const std::string what = fmt::format("its part of the sum of step {}", step + 1);
  for (std::size_t i = 1; i < group_->size(); ++i) {
    const std::size_t from = (group_->rank() + group_->size() - i) % group_->size();
    const Slice slice = slice_of(elements, from, group_->size());
    for (std::int64_t first = slice.first; first < slice.last; first += kSlicePiece) {
      const auto target = piece_of(first, std::min(slice.last, first + kSlicePiece));
      const auto frame = group_->take(from, MessageType::kSlice, what);
      if (!frame) return false;
      if (frame->body.size() != target.size()) {
        throw DataLoss("{} sent {} bytes of its part of the sum where {} were due",
                       group_->plan().members[from].task, frame->body.size(), target.size());
      }
      std::ranges::copy(frame->body.bytes(), target.begin());
    }
  }
  return true;
}

std::optional<StepParts> Collective::sum(std::int64_t step, StepParts own, StepNotes& notes) {
  const std::size_t size = group_->size();
  const bool sliced = size > 1 && notes.flat_size * 4 > options_.slice_above;
  const std::int64_t sequence = sequence_++;
  const Slice all{0, notes.flat_size};
  for (std::size_t i = 1; i < size; ++i) {
    const std::size_t to = (group_->rank() + i) % size;
    const auto message = encode_step(step, sequence, own, notes, group_->replicas(),
                                     sliced ? slice_of(notes.flat_size, to, size) : all);
    group_->send(to, MessageType::kStep, message.head, message.body);
  }
  const std::string what = fmt::format("the gradients of step {}", step + 1);
  const Slice mine = sliced ? slice_of(notes.flat_size, group_->rank(), size) : all;
  std::vector<ReceivedStep> received;
  for (std::size_t r = 0; r < size; ++r) {
    if (r == group_->rank()) continue;
    auto frame = group_->take(r, MessageType::kStep, what);
    if (!frame) return std::nullopt;
    try {
      received.push_back(decode_step(frame->head, std::move(frame->body), step, sequence,
                                     membership_.terms().replicas, mine, notes));
    } catch (Error& error) {
      error.add_context(fmt::format("from {}", group_->plan().members[r].task));
      throw;
    }
  }
  if (size == 1 && !membership_.check()) return std::nullopt;
  if (sliced) {
    for (auto& [part, value] : own.sums) {
      if (value) value->flat = value->flat.slice(0, mine.first, mine.last);
    }
  }
  StepParts total = add_parts(membership_.terms().replicas, std::move(own), received);
  if (sliced && total.present > 0) {
    at::Tensor whole = at::empty({notes.flat_size}, at::kFloat);
    auto& sum = total.sums.begin()->second;
    whole.slice(0, mine.first, mine.last).copy_(sum->flat);
    if (!exchange_slices(whole, step)) return std::nullopt;
    sum->flat = std::move(whole);
  }
  // Nothing is written before everything has come.
  const torch::NoGradGuard no_grad;
  for (ReceivedStep& other : received) {
    for (std::size_t i = 0; i < other.positions.size(); ++i) {
      notes.positions[static_cast<std::size_t>(other.replicas.first) + i] =
          std::move(other.positions[i]);
    }
    for (std::size_t i = 0; i < other.buffers.size(); ++i) {
      notes.buffers[i].copy_(other.buffers[i]);
    }
  }
  return total;
}

}  // namespace
}  // namespace internal

std::unique_ptr<Strategy> make_collective(const RunConfig& config,
                                          const CollectiveOptions& options) {
  return std::make_unique<internal::Collective>(config, options);
}

}  // namespace muster
