#include <algorithm>
#include <utility>

#include "muster/base/log.h"
#include "muster/distribution/membership/group_internal.h"
#include "muster/distribution/membership/stop_grace_internal.h"

namespace muster::internal {

Group::Group(GenerationPlan plan, std::size_t rank,
             std::vector<std::unique_ptr<net::Connection>> connections)
    : plan_(std::move(plan)), rank_(rank), peers_(connections.size()) {
  for (std::size_t r = 0; r < peers_.size(); ++r) peers_[r].connection = std::move(connections[r]);
  for (std::size_t r = 0; r < peers_.size(); ++r) {
    if (peers_[r].connection == nullptr) continue;
    peers_[r].receiver = std::jthread([this, r] { receive_from(r); });
  }
}

Group::~Group() {
  close_all();
  // The threads end before what they use.
  for (Peer& peer : peers_) {
    if (peer.receiver.joinable()) peer.receiver.join();
  }
}

void Group::close_all() {
  for (Peer& peer : peers_) {
    if (peer.connection != nullptr) peer.connection->close();
  }
}

void Group::receive_from(std::size_t rank) {
  Peer& peer = peers_[rank];
  std::string why;
  try {
    while (auto frame = peer.connection->receive(Deadline::never())) {
      const std::lock_guard lock(mutex_);
      peer.frames.push_back(std::move(*frame));
      changed_.notify_all();
    }
    why = fmt::format("{} closed the connection", peer.connection->peer());
  } catch (const Error& error) {
    why = error.what();
  }
  interrupt(why);
}

void Group::interrupt(const std::string& why) {
  const std::lock_guard lock(mutex_);
  if (broken_.empty()) broken_ = why;
  changed_.notify_all();
}

void Group::leave_behind(const GenerationPlan& next) {
  for (std::size_t r = 0; r < peers_.size(); ++r) {
    const auto is_it = [&](const GenerationMember& one) {
      return one.task == plan_.members[r].task;
    };
    const bool stays = std::ranges::any_of(next.members, is_it);
    if (!stays && peers_[r].connection != nullptr) peers_[r].connection->close();
  }
}

void Group::end() {
  const std::lock_guard lock(mutex_);
  ended_ = true;
  // Nobody needs what is under way, and a task that is stopped would never take it.
  if (sends_to_) peers_[*sends_to_].connection->close();
  changed_.notify_all();
}

void Group::send_encoded(std::size_t to, std::uint32_t number, const EncodedMessage& message) {
  if (peers_[to].connection == nullptr) {
    throw Internal("{} and {} are not connected", task(rank_), task(to));
  }
  {
    const std::lock_guard lock(mutex_);
    if (ended_) return;
    if (!broken_.empty()) throw PeersChanged("{}", broken_);
    sends_to_ = to;
  }
  try {
    peers_[to].connection->send(number, message.header, message.body, Deadline::never());
    const std::lock_guard lock(mutex_);
    sends_to_.reset();
  } catch (const Error& error) {
    const std::lock_guard lock(mutex_);
    sends_to_.reset();
    // Whoever ends the run closes its connections.
    if (ended_) return;
    throw PeersChanged("{}", error.what());
  }
}

void Group::throw_unexpected(std::size_t from, const net::Frame& frame,
                             const std::string& what) const {
  throw Internal("{} sent {} where something else was due: {}", task(from),
                 describe_message(frame.type), what);
}

std::optional<std::uint32_t> Group::await(std::size_t from, const std::string& what) {
  const Peer& peer = peers_[from];
  const auto start = Deadline::Clock::now();
  std::unique_lock lock(mutex_);
  wait(
      changed_, lock, Deadline::never(),
      [&] { return fmt::format("{}: {}", plan_.members[from].task, what); },
      [&] { return !peer.frames.empty() || ended_ || !broken_.empty() || stops(start); });
  if (!peer.frames.empty()) return peer.frames.front().type;
  if (!broken_.empty() && !ended_) throw PeersChanged("{}", broken_);
  if (!ended_) {
    log::warning("{} has not sent {}, and is waited for no longer, since signal {} has come",
                 plan_.members[from].task, what, StopSignals::received());
  }
  return std::nullopt;
}

std::optional<net::Frame> Group::take_frame(std::size_t from, const std::string& what) {
  Peer& peer = peers_[from];
  std::unique_lock lock(mutex_);
  // What has come is good also when the sender is gone by now.
  wait(
      changed_, lock, Deadline::never(),
      [&] { return fmt::format("{}: {}", plan_.members[from].task, what); },
      [&] { return !peer.frames.empty() || ended_ || !broken_.empty(); });
  if (!peer.frames.empty()) {
    net::Frame frame = std::move(peer.frames.front());
    peer.frames.pop_front();
    return frame;
  }
  if (ended_) return std::nullopt;
  throw PeersChanged("{}", broken_);
}

std::optional<Group::Arrival> Group::take_next(std::size_t ranks, const Deadline& deadline,
                                               const WaitReason& reason) {
  std::unique_lock lock(mutex_);
  std::size_t from = ranks;
  const auto somebody_has_sent = [&] {
    for (std::size_t i = 0; i < ranks; ++i) {
      const std::size_t rank = (next_turn_ + i) % ranks;
      if (peers_[rank].frames.empty()) continue;
      from = rank;
      return true;
    }
    return false;
  };
  const bool in_time = wait_until(changed_, lock, deadline, reason, [&] {
    return somebody_has_sent() || ended_ || !broken_.empty();
  });
  if (from < ranks) {
    next_turn_ = from + 1;
    Arrival arrival{from, std::move(peers_[from].frames.front())};
    peers_[from].frames.pop_front();
    return arrival;
  }
  if (ended_ || !in_time) return std::nullopt;
  throw PeersChanged("{}", broken_);
}

bool Group::check() {
  const std::lock_guard lock(mutex_);
  if (!ended_ && !broken_.empty()) throw PeersChanged("{}", broken_);
  return !ended_;
}

bool Group::ended() {
  const std::lock_guard lock(mutex_);
  return ended_;
}

}  // namespace muster::internal
