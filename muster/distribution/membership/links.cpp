#include <algorithm>
#include <bit>

#include "muster/distribution/membership/links_internal.h"

namespace muster::internal {
namespace {

/// Neighbouring ranks that share a processor, of which the first takes part in the exchange with
/// other blocks. Most are of one rank.
class Blocks {
 public:
  explicit Blocks(const std::vector<GenerationMember>& members) {
    for (std::size_t rank = 0; rank < members.size(); ++rank) {
      if (rank == 0 || !members[rank].shares_processor) first_ranks_.push_back(rank);
    }
    first_ranks_.push_back(members.size());
  }

  std::size_t count() const { return first_ranks_.size() - 1; }
  /// Also of the block after the last.
  std::size_t first_rank(std::size_t block) const { return first_ranks_[block]; }
  std::size_t of(std::size_t rank) const {
    const auto behind = std::ranges::upper_bound(first_ranks_, rank);
    return static_cast<std::size_t>(behind - first_ranks_.begin()) - 1;
  }
  RankRange ranks(std::size_t first, std::size_t last) const {
    return {first_rank(first), first_rank(last)};
  }

 private:
  std::vector<std::size_t> first_ranks_;
};

/// Places of the blocks that take part in the stages: the largest power of two of them. The first
/// `pairs` places are two blocks each, of which the lower one takes part.
class Places {
 public:
  explicit Places(std::size_t blocks) : places_(std::bit_floor(blocks)), pairs_(blocks - places_) {}

  std::size_t count() const { return places_; }
  bool is_given_away(std::size_t block) const { return block < 2 * pairs_ && block % 2 == 1; }
  bool is_pair(std::size_t place) const { return place < pairs_; }
  std::size_t of(std::size_t block) const {
    return block < 2 * pairs_ ? block / 2 : block - pairs_;
  }
  /// Also of the place after the last.
  std::size_t block(std::size_t place) const { return place < pairs_ ? 2 * place : place + pairs_; }

 private:
  std::size_t places_;
  std::size_t pairs_;
};

// Adds the stages in which the first of a block exchanges with those of other blocks.
void add_stages(Exchange& exchange, const Blocks& blocks, std::size_t own) {
  const Places places(blocks.count());
  if (places.is_given_away(own)) {
    exchange.given_to = {blocks.first_rank(own - 1), blocks.ranks(own, own + 1),
                         blocks.ranks(own - 1, own)};
    return;
  }
  const std::size_t place = places.of(own);
  if (places.is_pair(place)) {
    exchange.taken_from.push_back(
        {blocks.first_rank(own + 1), blocks.ranks(own, own + 1), blocks.ranks(own + 1, own + 2)});
  }
  const auto ranks_of = [&](std::size_t first, std::size_t count) {
    return blocks.ranks(places.block(first), places.block(first + count));
  };
  for (std::size_t size = 1; size < places.count(); size *= 2) {
    const std::size_t partner = place ^ size;
    exchange.stages.push_back({.partner = blocks.first_rank(places.block(partner)),
                               .own = ranks_of(place / size * size, size),
                               .others = ranks_of(partner / size * size, size)});
  }
}

// All that a task exchanges with, those that know most others first.
std::vector<Exchange::Stage> neighbours_of(const Exchange& exchange) {
  std::vector<Exchange::Stage> neighbours;
  if (exchange.given_to) neighbours.push_back(*exchange.given_to);
  neighbours.insert(neighbours.end(), exchange.stages.begin(), exchange.stages.end());
  neighbours.insert(neighbours.end(), exchange.taken_from.rbegin(), exchange.taken_from.rend());
  return neighbours;
}

}  // namespace

Exchange exchange_of(const std::vector<GenerationMember>& members, std::size_t rank) {
  const Blocks blocks(members);
  const std::size_t own = blocks.of(rank);
  const std::size_t first = blocks.first_rank(own);
  Exchange exchange;
  if (rank != first) {
    exchange.given_to = {first, {rank, rank + 1}, {first, rank}};
    return exchange;
  }
  for (std::size_t other = first + 1; other < blocks.first_rank(own + 1); ++other) {
    exchange.taken_from.push_back({other, {first, other}, {other, other + 1}});
  }
  add_stages(exchange, blocks, own);
  return exchange;
}

Halving halving_of(const std::vector<GenerationMember>& members, std::size_t rank) {
  const Blocks blocks(members);
  const Places places(blocks.count());
  // The bits of a place the other way round: halves of halves, the first stage's bit in front.
  const auto reversed = [&](std::size_t place) {
    std::size_t turned = 0;
    for (std::size_t bit = 1; bit < places.count(); bit *= 2) {
      turned = 2 * turned + ((place & bit) != 0 ? 1 : 0);
    }
    return turned;
  };
  Halving halving;
  // Where each turned place begins in the order, and the end.
  std::vector<std::size_t> begins;
  for (std::size_t turned = 0; turned < places.count(); ++turned) {
    begins.push_back(halving.order.size());
    const std::size_t place = reversed(turned);
    const RankRange ranks = blocks.ranks(places.block(place), places.block(place + 1));
    for (std::size_t one = ranks.first; one < ranks.last; ++one) halving.order.push_back(one);
  }
  begins.push_back(halving.order.size());
  const std::size_t place = places.of(blocks.of(rank));
  const std::size_t stages = exchange_of(members, rank).stages.size();
  for (std::size_t stage = 0; stage < stages; ++stage) {
    const std::size_t size = std::size_t{2} << stage;
    const auto of_last_bits = [&](std::size_t of) {
      const std::size_t first = reversed(of % size);
      return RankRange{begins[first], begins[first + places.count() / size]};
    };
    halving.stages.push_back({of_last_bits(place), of_last_bits(place ^ (size / 2))});
  }
  return halving;
}

std::vector<std::size_t> linked_ranks(const GenerationPlan& plan, std::size_t rank) {
  const std::size_t ranks = plan.members.size();
  std::vector<std::size_t> linked;
  if (plan.trainers < ranks) {
    const bool is_with_all = rank == 0 || rank >= plan.trainers;
    for (std::size_t other = 0; other < ranks; ++other) {
      const bool is_linked = is_with_all || other == 0 || other >= plan.trainers;
      if (other != rank && is_linked) linked.push_back(other);
    }
    return linked;
  }
  for (const Exchange::Stage& stage : neighbours_of(exchange_of(plan.members, rank))) {
    linked.push_back(stage.partner);
  }
  std::ranges::sort(linked);
  return linked;
}

std::optional<std::size_t> state_sender(const std::vector<GenerationMember>& members,
                                        std::size_t rank, std::size_t source) {
  if (rank == source) return std::nullopt;
  const Blocks blocks(members);
  const std::size_t own = blocks.of(rank);
  if (rank != blocks.first_rank(own)) return blocks.first_rank(own);
  if (own == blocks.of(source)) return source;
  const Places places(blocks.count());
  if (places.is_given_away(own)) return blocks.first_rank(own - 1);
  // How far the place is from the source's, in stages.
  const std::size_t place = places.of(own);
  const std::size_t way = place ^ places.of(blocks.of(source));
  if (way == 0) return blocks.first_rank(blocks.of(source));
  return blocks.first_rank(places.block(place ^ std::bit_floor(way)));
}

std::vector<std::size_t> state_receivers(const std::vector<GenerationMember>& members,
                                         std::size_t rank, std::size_t source) {
  std::vector<std::size_t> receivers;
  for (const Exchange::Stage& stage : neighbours_of(exchange_of(members, rank))) {
    if (state_sender(members, stage.partner, source) == std::optional(rank)) {
      receivers.push_back(stage.partner);
    }
  }
  return receivers;
}

}  // namespace muster::internal
