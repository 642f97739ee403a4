#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "muster/base/log.h"
#include "muster/distribution/membership/group_internal.h"
#include "muster/distribution/membership/stop_grace_internal.h"

namespace muster::internal {

namespace {

/// How long a waiting thread polls before it sleeps.
constexpr std::chrono::microseconds kLooking{300};

}  // namespace

Group::Group(GenerationPlan plan, std::size_t rank,
             std::vector<std::unique_ptr<net::Connection>> connections, const GroupOptions& options)
    : plan_(std::move(plan)), rank_(rank), options_(options), peers_(connections.size()) {
  for (std::size_t r = 0; r < peers_.size(); ++r) peers_[r].connection = std::move(connections[r]);
  for (std::size_t r = 0; r < peers_.size(); ++r) {
    if (peers_[r].connection == nullptr) continue;
    if (options_.waiters_receive) {
      peers_[r].connection->before_waiting_to_send([this, r] { set_sender_waiting(r, true); });
    }
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

// With the mutex held: those who wait look again.
void Group::changed() {
  changed_.notify_all();
  if (waits_at_connection_) waiter_.set();
}

void Group::wake() {
  const std::lock_guard lock(mutex_);
  if (receives_from_ && awaits_since_ && stops(*awaits_since_, options_.stop_grace)) {
    gave_up_ = true;
    peers_[*receives_from_].connection->close();
  }
  changed();
}

void Group::receive_ahead(int more) {
  const std::lock_guard lock(mutex_);
  receiving_ahead_ += more;
  if (receiving_ahead_ > 0) {
    receives_ahead_.set();
  } else {
    receives_ahead_.reset();
  }
}

void Group::set_sender_waiting(std::size_t rank, bool waits) {
  if (std::exchange(peers_[rank].keeps_sender_waiting, waits) != waits) {
    receive_ahead(waits ? +1 : -1);
  }
}

// Until the last byte of what has begun to arrive. False when nothing more comes. With
// peer.receiving held.
bool Group::receive_arrived(Peer& peer) {
  std::string why;
  try {
    do {
      auto frame = peer.connection->receive(Deadline::never());
      if (!frame) {
        why = fmt::format("{} closed the connection", peer.connection->peer());
        break;
      }
      const std::lock_guard lock(mutex_);
      peer.frames.push_back(std::move(*frame));
      changed();
    } while (peer.connection->has_begun());
  } catch (const Error& error) {
    why = error.what();
  }
  if (why.empty()) return true;
  peer.is_over = true;
  note_broken(why);
  return false;
}

void Group::receive_from(std::size_t rank) {
  Peer& peer = peers_[rank];
  for (;;) {
    // A thread that waits for messages may take them before this one does.
    const bool others_receive = options_.looks || options_.waiters_receive;
    if (options_.waiters_receive) peer.connection->wait_for_end(receives_ahead_);
    if (others_receive) peer.connection->wait_for_bytes();
    const std::lock_guard turn(peer.receiving);
    if (peer.is_over) return;
    if (others_receive && !peer.connection->wait_readable(Deadline::after({}))) continue;
    if (!receive_arrived(peer)) return;
  }
}

// Notes the rank to receive from, which end(), interrupt() and wake() break off; false when there
// is no point in it any more.
bool Group::note_receiving(std::optional<std::size_t> from) {
  const std::lock_guard lock(mutex_);
  receives_from_ = from;
  return !ended_ && broken_.empty();
}

void Group::receive_if_there(std::size_t rank) {
  Peer& peer = peers_[rank];
  if (peer.connection == nullptr) return;
  const std::unique_lock turn(peer.receiving, std::try_to_lock);
  if (!turn || peer.is_over || !peer.connection->wait_readable(Deadline::after({}))) return;
  if (!note_receiving(rank)) return;
  receive_arrived(peer);
  note_receiving(std::nullopt);
}

// Until something has come from that task or changed() is called.
void Group::receive_awaited(std::size_t rank, const WaitReason& reason) {
  Peer& peer = peers_[rank];
  std::unique_lock turn(peer.receiving, std::defer_lock);
  if (!turn.try_lock()) {
    // A thread of the group has begun with a message, and goes on to its end.
    if (note_receiving(rank)) turn.lock();
    note_receiving(std::nullopt);
  }
  if (!turn || peer.is_over) return;
  if (!peer.connection->wait_readable(waiter_, reason)) return;
  if (note_receiving(rank)) receive_arrived(peer);
  note_receiving(std::nullopt);
}

// For a moment, at the tasks [first, last), until that is so, which is asked with the mutex held.
template <typename Done>
void Group::look_for(std::size_t first, std::size_t last, const Done& is_done) {
  if (!options_.looks) return;
  const auto end = Deadline::Clock::now() + kLooking;
  do {
    {
      const std::lock_guard lock(mutex_);
      if (is_done() || ended_ || !broken_.empty()) return;
    }
    for (std::size_t rank = first; rank < last; ++rank) receive_if_there(rank);
    std::this_thread::yield();
  } while (Deadline::Clock::now() < end);
}

// Messages that others have begun to send are still good.
void Group::note_broken(const std::string& why) {
  const std::lock_guard lock(mutex_);
  if (broken_.empty()) broken_ = why;
  changed();
}

void Group::interrupt(const std::string& why) {
  note_broken(why);
  const std::lock_guard lock(mutex_);
  // A waiting thread may receive a message that never comes to its end.
  if (receives_from_) peers_[*receives_from_].connection->close();
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
  // Messages under way are not needed, and a task that is stopped would never take them.
  for (const auto& rank : {sends_to_, receives_from_}) {
    if (rank) peers_[*rank].connection->close();
  }
  changed();
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
    set_sender_waiting(to, false);
    const std::lock_guard lock(mutex_);
    sends_to_.reset();
  } catch (const Error& error) {
    set_sender_waiting(to, false);
    const std::lock_guard lock(mutex_);
    sends_to_.reset();
    // The thread that ends the run closes its connections.
    if (ended_) return;
    throw PeersChanged("{}", error.what());
  }
}

void Group::throw_unexpected(std::size_t from, const net::Frame& frame,
                             const std::string& what) const {
  throw Internal("{} sent {} where something else was due: {}", task(from),
                 describe_message(frame.type), what);
}

// Until that task has sent something, there is no point in waiting any more, or `is_over()`.
// Returns with the mutex held.
template <typename Over>
std::unique_lock<std::mutex> Group::wait_for(std::size_t from, const std::string& what,
                                             const Over& is_over) {
  const Peer& peer = peers_[from];
  look_for(from, from + 1, [&] { return !peer.frames.empty(); });
  const WaitReason reason = [&] { return fmt::format("{}: {}", task(from), what); };
  const auto is_done = [&] {
    return !peer.frames.empty() || ended_ || !broken_.empty() || is_over();
  };
  std::unique_lock lock(mutex_);
  while (options_.waiters_receive && receiving_ahead_ == 0 && !is_done()) {
    waiter_.reset();
    waits_at_connection_ = true;
    lock.unlock();
    receive_awaited(from, reason);
    lock.lock();
    waits_at_connection_ = false;
  }
  wait(changed_, lock, Deadline::never(), reason, is_done);
  return lock;
}

std::optional<std::uint32_t> Group::await(std::size_t from, const std::string& what) {
  const Peer& peer = peers_[from];
  const auto start = Deadline::Clock::now();
  {
    const std::lock_guard noting(mutex_);
    awaits_since_ = start;
  }
  const auto lock = wait_for(from, what, [&] { return stops(start, options_.stop_grace); });
  awaits_since_.reset();
  if (!peer.frames.empty()) return peer.frames.front().type;
  if (!broken_.empty() && !ended_ && !gave_up_) throw PeersChanged("{}", broken_);
  if (!ended_) {
    log::warning("{} has not sent {}, and is waited for no longer, since signal {} has come",
                 plan_.members[from].task, what, StopSignals::received());
  }
  return std::nullopt;
}

std::optional<net::Frame> Group::take_frame(std::size_t from, const std::string& what) {
  Peer& peer = peers_[from];
  const auto lock = wait_for(from, what, [] { return false; });
  // Messages that have come are good also when the sender is gone by now.
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
  std::size_t from = ranks;
  const auto any_has_sent = [&] {
    for (std::size_t i = 0; i < ranks; ++i) {
      const std::size_t rank = (next_turn_ + i) % ranks;
      if (peers_[rank].frames.empty()) continue;
      from = rank;
      return true;
    }
    return false;
  };
  const ReceivingAhead ahead(*this);
  look_for(0, ranks, any_has_sent);
  std::unique_lock lock(mutex_);
  const bool in_time = wait_until(changed_, lock, deadline, reason,
                                  [&] { return any_has_sent() || ended_ || !broken_.empty(); });
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
