#include "muster/distribution/collective/all_reduce_internal.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <utility>

namespace muster::internal {
namespace {

// Bytes that a fast network between distant hosts carries, 10 Gbit/s.
constexpr double kBytesPerMicrosecond = 1250;
constexpr std::int64_t kMostBytesAhead = std::int64_t{64} << 20;

bool is_empty(const FlatRange& range) { return range.first == range.last; }

}  // namespace

Halves halves_of(const FlatRange& range) {
  constexpr std::int64_t kLine = 16;
  const std::int64_t middle = range.first + size_of(range) / 2 / kLine * kLine;
  return {{range.first, middle}, {middle, range.last}};
}

SharedRange share(const FlatRange& range, const Exchange::Stage& stage) {
  const Halves halves = halves_of(range);
  const bool is_left = stage.others.first < stage.own.first;
  return is_left ? SharedRange{halves.upper, halves.lower}
                 : SharedRange{halves.lower, halves.upper};
}

/// A piece of a part, and, where it is in what this task has of the part, all of that.
struct AllReduce::Addend {
  at::Tensor values;
  at::Tensor home{};
};

AllReduce::AllReduce(Group& group, ExpectedTensors sizes, const SliceOptions& slices,
                     std::string what, PartOrder* order)
    : group_(group),
      sizes_(std::move(sizes)),
      slices_(slices),
      what_(std::move(what)),
      order_(order),
      exchange_(exchange_of(group.plan().members, group.rank())),
      halving_(is_divided() ? halving_of(group.plan().members, group.rank()) : Halving{}),
      range_{0, is_sliced() ? sizes_.flat_size : 0},
      sum_(is_divided() ? at::Tensor() : whole_) {
  if (is_sliced()) receiving_ahead_.emplace(group_);
}

std::int64_t AllReduce::pieces_of(const FlatRange& range) const {
  return (size_of(range) + slices_.piece - 1) / slices_.piece;
}

// Empty after the end of the range.
FlatRange AllReduce::piece_of(const FlatRange& range, std::int64_t number) const {
  const std::int64_t first = std::min(range.last, range.first + number * slices_.piece);
  return {first, std::min(range.last, first + slices_.piece)};
}

void AllReduce::send_block(std::size_t to) {
  group_.send(to, block_);
  if (order_ != nullptr) group_.send(to, *order_);
}

// A task's gradients of that block's replicas. The order of messages is the same on both sides.
std::optional<StepGradients> AllReduce::take_block(std::size_t from, const RankRange& block,
                                                   const StepGradients& own) {
  ExpectedTensors expected = sizes_;
  if (is_sliced()) expected.flat_size = 0;
  auto message = group_.take_unless_stopped<StepGradients>(from, what_, expected);
  if (!message) return std::nullopt;
  check_turn(*message, own.step, own.sequence);
  const ReplicaRange due = replicas_of(group_.plan().members, block);
  if (message->replicas != due) {
    throw DataLoss("{} sent gradients of the replicas [{}, {}), and [{}, {}) were due",
                   group_.task(from), message->replicas.first, message->replicas.last, due.first,
                   due.last);
  }
  if (order_ != nullptr) {
    const auto order = group_.take_unless_stopped<PartOrder>(from, what_);
    if (!order) return std::nullopt;
    if (!order->id.empty()) order_->id = order->id;
    order_->is_last |= order->is_last;
  }
  return message;
}

// The next of its kind: sums may come between parts, wherever the sender has got to.
template <typename Message>
std::optional<Message> AllReduce::take_slice(std::size_t from) {
  auto& due = std::get<std::deque<Message>>(early_);
  while (due.empty()) {
    const auto number = group_.await(from, what_);
    if (!number) return std::nullopt;
    if (*number == kKind<SliceSum>.number) {
      auto sum = group_.take<SliceSum>(from, what_);
      if (!sum) return std::nullopt;
      std::get<std::deque<SliceSum>>(early_).push_back(std::move(*sum));
    } else {
      auto part = group_.take<SlicePart>(from, what_);
      if (!part) return std::nullopt;
      std::get<std::deque<SlicePart>>(early_).push_back(std::move(*part));
    }
  }
  std::optional<Message> message(std::move(due.front()));
  due.pop_front();
  return message;
}

template <typename Message>
std::optional<at::Tensor> AllReduce::take_values(std::size_t from, const FlatRange& piece) {
  const auto message = take_slice<Message>(from);
  if (!message) return std::nullopt;
  const at::ScalarType type = slices_.is_compressed ? at::kBFloat16 : at::kFloat;
  return message->values.as_tensor({size_of(piece)}, type).to(at::kFloat);
}

// --------------------------------------------------------------------- dense gradients in slices

// As it travels.
at::Tensor AllReduce::packed(const at::Tensor& values) const {
  return slices_.is_compressed ? values.to(at::kBFloat16) : values;
}

// Pieces that are sent before the first of the partner's has come: one on the same host, and as
// many as a fast network carries meanwhile where the partner is far away. Each side has its own
// view.
std::int64_t AllReduce::pieces_ahead(std::size_t partner) const {
  if (slices_.pieces_ahead) return *slices_.pieces_ahead;
  const auto round_trip = group_.round_trip(partner);
  if (!round_trip) return 1;
  const std::int64_t bytes = slices_.piece * (slices_.is_compressed ? 2 : 4);
  const auto on_the_way = static_cast<std::int64_t>(static_cast<double>(round_trip->count()) / 2 *
                                                    kBytesPerMicrosecond);
  return 1 + std::min(on_the_way, kMostBytesAhead) / bytes;
}

// With the block, whose own way would else be waited for first.
void AllReduce::send_first_parts(std::size_t to, const FlatRange& give) {
  ahead_ = pieces_ahead(to);
  for (std::int64_t number = 0; number < ahead_; ++number) send_parts(to, piece_of(give, number));
}

void AllReduce::send_parts(std::size_t to, const FlatRange& piece) {
  if (is_empty(piece)) return;
  for (const auto& [part, values] : dense_) {
    if (!values) continue;
    const at::Tensor part_of_it = packed(view_of(*values, range_.first, piece));
    group_.send(to, SlicePart{{.bytes = bytes_of(part_of_it)}});
  }
}

// Adds what the other has of a piece, as it comes; `next` is what this task then has of `keep`.
bool AllReduce::add_piece(std::size_t from, const StepGradients& other, const FlatRange& piece,
                          const FlatRange& keep, Parts& next) {
  // a + b is b + a to the bit: sums stay where this task has its own.
  TreeSum<Addend> sum(sizes_.replicas, [](Addend& into, Addend&& added) {
    if (!into.home.defined() && added.home.defined()) std::swap(into, added);
    into.values.add_(added.values);
  });
  for (const auto& [part, values] : dense_) {
    std::optional<Addend> addend;
    if (values) {
      addend = {view_of(*values, range_.first, piece), view_of(*values, range_.first, keep)};
    }
    sum.report_part(part, std::move(addend));
  }
  for (const TreePart& part : other.sums) {
    std::optional<Addend> addend;
    if (part.sum) {
      auto values = take_values<SlicePart>(from, piece);
      if (!values) return false;
      addend = {std::move(*values)};
    }
    sum.report_part({part.first, part.last}, std::move(addend));
  }
  for (auto& [part, value] : sum.take_parts()) {
    auto& to = next[part];
    if (!value) continue;
    if (!to) to = value->home.defined() ? value->home : at::empty({size_of(keep)}, at::kFloat);
    if (!value->home.defined()) view_of(*to, keep.first, piece).copy_(value->values);
  }
  return true;
}

void AllReduce::send_sum(std::size_t to, const FlatRange& piece) {
  if (is_empty(piece)) return;
  const at::Tensor sum = packed(view_of(sum_, sum_begin_, piece));
  group_.send(to, SliceSum{{.bytes = bytes_of(sum)}});
}

bool AllReduce::take_sum(std::size_t from, const FlatRange& piece) {
  if (is_empty(piece)) return true;
  const auto values = take_values<SliceSum>(from, piece);
  if (!values) return false;
  view_of(sum_, sum_begin_, piece).copy_(*values);
  return true;
}

// Gives one range to the partner, which has been sent its first pieces, and adds what it has of the
// other. At the last stage what is added up is the sum over all, and goes back at once where all
// tasks get all.
bool AllReduce::reduce(std::size_t partner, const StepGradients& other, const FlatRange& give,
                       const FlatRange& keep, bool is_last) {
  const bool is_summed = is_last && !is_divided() && block_.present + other.present > 0;
  Parts next;
  // Always some pieces ahead, so that no side waits for one that is only now being sent: parts 0,
  // parts 1, sum 0, parts 2, sum 1, ... where one is enough.
  const std::int64_t pieces = std::max(pieces_of(give), pieces_of(keep));
  for (std::int64_t number = 0; number < pieces; ++number) {
    send_parts(partner, piece_of(give, number + ahead_));
    const FlatRange piece = piece_of(keep, number);
    if (!is_empty(piece) && !add_piece(partner, other, piece, keep, next)) return false;
    if (!is_summed) continue;
    if (!is_empty(piece)) {
      const at::Tensor sum = view_of(*next.begin()->second, keep.first, piece);
      view_of(sum_, sum_begin_, piece).copy_(packed(sum));
    }
    send_sum(partner, piece);
    const std::int64_t due = number - ahead_;
    if (due >= 0 && !take_sum(partner, piece_of(give, due))) return false;
  }
  for (std::int64_t due = std::max<std::int64_t>(0, pieces - ahead_); is_summed && due < pieces;
       ++due) {
    if (!take_sum(partner, piece_of(give, due))) return false;
  }
  dense_ = std::move(next);
  range_ = keep;
  return true;
}

// Slices of the sum, each to the other.
bool AllReduce::swap_sums(std::size_t partner, const FlatRange& give, const FlatRange& take) {
  const std::int64_t ahead = pieces_ahead(partner);
  for (std::int64_t number = 0; number < ahead; ++number) {
    send_sum(partner, piece_of(give, number));
  }
  for (std::int64_t number = 0; number < std::max(pieces_of(give), pieces_of(take)); ++number) {
    send_sum(partner, piece_of(give, number + ahead));
    if (!take_sum(partner, piece_of(take, number))) return false;
  }
  return true;
}

// --------------------------------------------------------------------- all of a step

void AllReduce::add_block(StepGradients other, bool is_left) {
  block_ = is_left ? merge_steps(std::move(other), std::move(block_), sizes_.replicas)
                   : merge_steps(std::move(block_), std::move(other), sizes_.replicas);
}

// Elements of the sum that are for these ranks.
FlatRange AllReduce::sum_for(const RankRange& ranks) const {
  return is_divided() ? slices_.shards->of(ranks) : FlatRange{0, sizes_.flat_size};
}

// For a task that takes part in no stage.
bool AllReduce::be_summed_by(const Exchange::Stage& neighbour) {
  send_block(neighbour.partner);
  if (is_sliced()) {
    send_first_parts(neighbour.partner, range_);
    if (!reduce(neighbour.partner, {}, range_, {}, /*is_last=*/false)) return false;
  }
  auto all = take_block(neighbour.partner, {0, group_.size()}, block_);
  if (!all) return false;
  block_ = std::move(*all);
  if (!is_sliced() || block_.present == 0) return true;
  const FlatRange mine = sum_for(neighbour.own);
  if (is_divided()) {
    sum_ = at::empty({size_of(mine)}, at::kFloat);
    sum_begin_ = mine.first;
  }
  return swap_sums(neighbour.partner, {}, mine);
}

// Takes the gradients of such a neighbour and adds them.
bool AllReduce::take_in(const Exchange::Stage& neighbour) {
  auto other = take_block(neighbour.partner, neighbour.others, block_);
  if (!other) return false;
  if (is_sliced() && !reduce(neighbour.partner, *other, {}, range_, /*is_last=*/false)) {
    return false;
  }
  add_block(std::move(*other), /*is_left=*/false);
  return true;
}

bool AllReduce::give_back_to(const Exchange::Stage& neighbour) {
  send_block(neighbour.partner);
  return !is_sliced() || block_.present == 0 ||
         swap_sums(neighbour.partner, sum_for(neighbour.others), {});
}

SharedRange AllReduce::share_at(std::size_t stage) const {
  if (!is_divided()) return share(range_, exchange_.stages[stage]);
  const ShardLayout& layout = *slices_.shards;
  const Halving::Stage& halves = halving_.stages[stage];
  return {layout.at_places(halves.kept), layout.at_places(halves.given)};
}

bool AllReduce::exchange(const Exchange::Stage& stage, const SharedRange& shared, bool is_last) {
  send_block(stage.partner);
  if (is_sliced()) send_first_parts(stage.partner, shared.given);
  auto other = take_block(stage.partner, stage.others, block_);
  if (!other) return false;
  if (is_sliced()) {
    if (!reduce(stage.partner, *other, shared.given, shared.kept, is_last)) return false;
  }
  add_block(std::move(*other), /*is_left=*/stage.others.first < stage.own.first);
  return true;
}

bool AllReduce::go_through_stages() {
  // Ranges that were kept and given, by stage.
  std::vector<SharedRange> shared;
  for (std::size_t i = 0; i < exchange_.stages.size(); ++i) {
    shared.push_back(is_sliced() ? share_at(i) : SharedRange{});
    const bool is_last = i + 1 == exchange_.stages.size();
    if (!exchange(exchange_.stages[i], shared.back(), is_last)) return false;
  }
  const bool is_summed = is_sliced() && block_.present > 0;
  if (is_divided()) {
    if (is_summed && !is_empty(range_)) sum_ = std::move(*dense_.begin()->second);
    sum_begin_ = range_.first;
    dense_.clear();
    return true;
  }
  // Where one task has added up all there is.
  if (is_summed && shared.empty()) whole_.copy_(packed(*dense_.begin()->second));
  for (std::size_t i = shared.size(); is_summed && i-- > 0;) {
    const bool was_sent = i + 1 == shared.size();
    if (was_sent) continue;
    if (!swap_sums(exchange_.stages[i].partner, shared[i].kept, shared[i].given)) return false;
  }
  return true;
}

std::optional<StepGradients> AllReduce::sum(StepGradients own, Parts dense) {
  dense_ = std::move(dense);
  block_ = std::move(own);
  for (const Exchange::Stage& neighbour : exchange_.taken_from) {
    if (!take_in(neighbour)) return std::nullopt;
  }
  const bool is_there =
      exchange_.given_to ? be_summed_by(*exchange_.given_to) : go_through_stages();
  if (!is_there) return std::nullopt;
  for (const Exchange::Stage& neighbour : exchange_.taken_from) {
    if (!give_back_to(neighbour)) return std::nullopt;
  }
  if (is_divided() && block_.present > 0 && whole_.numel() > 0) {
    whole_.copy_(packed(view_of(sum_, sum_begin_, slices_.shards->of(group_.rank()))));
  }
  return std::move(block_);
}

}  // namespace muster::internal
