#include <algorithm>
#include <bit>

#include "muster/distribution/membership/links_internal.h"

namespace muster::internal {
namespace {

/// Places of those that take part in the stages: the largest power of two of them. The first
/// `pairs` places are two ranks each, of which the lower one takes part.
class Places {
 public:
  explicit Places(std::size_t ranks) : places_(std::bit_floor(ranks)), pairs_(ranks - places_) {}

  std::size_t count() const { return places_; }
  bool is_given_away(std::size_t rank) const { return rank < 2 * pairs_ && rank % 2 == 1; }
  bool is_pair(std::size_t place) const { return place < pairs_; }
  std::size_t of(std::size_t rank) const { return rank < 2 * pairs_ ? rank / 2 : rank - pairs_; }
  /// Also of the place behind the last.
  std::size_t rank(std::size_t place) const { return place < pairs_ ? 2 * place : place + pairs_; }
  RankRange ranks(std::size_t first, std::size_t count) const {
    return {rank(first), rank(first + count)};
  }

 private:
  std::size_t places_;
  std::size_t pairs_;
};

}  // namespace

Exchange exchange_of(std::size_t rank, std::size_t ranks) {
  const Places places(ranks);
  if (places.is_given_away(rank)) return {.given_to = rank - 1};
  const std::size_t place = places.of(rank);
  Exchange exchange;
  if (places.is_pair(place)) exchange.taken_from = rank + 1;
  for (std::size_t size = 1; size < places.count(); size *= 2) {
    const std::size_t partner = place ^ size;
    exchange.stages.push_back({.partner = places.rank(partner),
                               .own = places.ranks(place / size * size, size),
                               .others = places.ranks(partner / size * size, size)});
  }
  return exchange;
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
  const Exchange exchange = exchange_of(rank, ranks);
  if (exchange.given_to) linked.push_back(*exchange.given_to);
  if (exchange.taken_from) linked.push_back(*exchange.taken_from);
  for (const Exchange::Stage& stage : exchange.stages) linked.push_back(stage.partner);
  std::ranges::sort(linked);
  return linked;
}

std::optional<std::size_t> state_sender(std::size_t rank, std::size_t source, std::size_t ranks) {
  if (rank == source) return std::nullopt;
  const Places places(ranks);
  if (places.is_given_away(rank)) return rank - 1;
  // How far the place is from the source's, in stages.
  const std::size_t place = places.of(rank);
  const std::size_t way = place ^ places.of(source);
  if (way == 0) return source;
  return places.rank(place ^ std::bit_floor(way));
}

std::vector<std::size_t> state_receivers(std::size_t rank, std::size_t source, std::size_t ranks) {
  const Exchange exchange = exchange_of(rank, ranks);
  std::vector<std::size_t> neighbours;
  for (const Exchange::Stage& stage : exchange.stages) neighbours.push_back(stage.partner);
  if (exchange.taken_from) neighbours.push_back(*exchange.taken_from);
  if (exchange.given_to) neighbours.push_back(*exchange.given_to);
  std::erase_if(neighbours, [&](std::size_t other) {
    return state_sender(other, source, ranks) != std::optional(rank);
  });
  return neighbours;
}

}  // namespace muster::internal
