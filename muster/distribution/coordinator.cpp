#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "muster/base/log.h"
#include "muster/base/wait.h"
#include "muster/distribution/coordinator_internal.h"

namespace muster::internal {
namespace {

using namespace std::chrono_literals;

// Messages are small: a task that does not take one in this time is stopped or gone.
constexpr auto kTellTimeout = 2s;
constexpr auto kBeatEvery = 500ms;
// A task that says its peers broke off is heard a moment before whoever is really gone is missed.
constexpr auto kBrokenGrace = 300ms;
constexpr auto kLeaveGrace = 5s;

// "worker:10" comes after "worker:9".
std::pair<int, std::string> order_of(const std::string& task, bool is_chief) {
  const auto colon = task.rfind(':');
  const std::string index = colon == std::string::npos ? "" : task.substr(colon + 1);
  const std::string padded = std::string(20 - std::min<std::size_t>(20, index.size()), '0') + index;
  return {is_chief ? 0 : 1, task.substr(0, colon) + ":" + padded};
}

}  // namespace

Coordinator::Coordinator(CoordinatorOptions options)
    : options_(std::move(options)),
      due_(Clock::now() + options_.join_timeout),
      watcher_([this] { watch(); }) {}

Coordinator::~Coordinator() { stop(); }

void Coordinator::stop() {
  const std::lock_guard lock(mutex_);
  stopped_ = true;
  changed_.notify_all();
  for (auto& [order, member] : members_) member.connection->close();
}

std::vector<ReplicaRange> Coordinator::deal(std::int64_t replicas, std::size_t tasks) {
  std::vector<ReplicaRange> ranges;
  const auto count = static_cast<std::int64_t>(tasks);
  std::int64_t first = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t size = replicas / count + (i < replicas % count ? 1 : 0);
    ranges.push_back({first, first + size});
    first += size;
  }
  return ranges;
}

void Coordinator::serve(std::shared_ptr<net::Connection> connection) {
  std::string why = "it left";
  try {
    const auto first = connection->receive(Deadline::after(options_.peer_timeout));
    if (!first) return;
    if (first->type != static_cast<std::uint32_t>(MessageType::kJoin)) {
      throw DataLoss("the first message is of type {}, no request to join", first->type);
    }
    if (!admit(connection, decode_join(first->head))) return;
    while (const auto frame = connection->receive(Deadline::never())) {
      if (frame->type == static_cast<std::uint32_t>(MessageType::kLeave)) break;
      handle(connection, *frame);
    }
  } catch (const Error& error) {
    why = error.what();
  }
  remove(connection, why);
}

bool Coordinator::admit(const std::shared_ptr<net::Connection>& connection, const Join& join) {
  const std::string obstacle = difference(options_.terms, join.terms);
  if (!obstacle.empty()) {
    log::error("{} cannot take part: {}", connection->peer(), obstacle);
    connection->send(static_cast<std::uint32_t>(MessageType::kRefused), obstacle,
                     Deadline::after(kTellTimeout));
    return false;
  }
  const std::lock_guard lock(mutex_);
  if (stopped_) return false;
  auto& member = members_[order_of(connection->peer_task(), join.is_chief)];
  // The task came back before anybody missed it.
  if (member.connection != nullptr) member.connection->close();
  member = {connection->peer_task(), join.address, connection, Clock::now(), std::nullopt};
  log::info("{} joins the run, {} of {} tasks are here", member.task, members_.size(),
            options_.expected);
  tell(member, MessageType::kTerms, encode(options_.terms));
  if (end_step_) {
    tell(member, MessageType::kEnd, encode_number(*end_step_));
  } else if (started_ || members_.size() >= options_.expected) {
    begin_epoch();
  }
  return true;
}

void Coordinator::handle(const std::shared_ptr<net::Connection>& connection,
                         const net::Frame& frame) {
  const std::lock_guard lock(mutex_);
  Member* member = member_of(*connection);
  if (member == nullptr) return;
  member->heard = Clock::now();
  switch (static_cast<MessageType>(frame.type)) {
    case MessageType::kBeat:
      return;
    case MessageType::kReady: {
      const Ready ready = decode_ready(frame.head);
      if (ready.epoch != epoch_) return;
      member->ready = ready.progress;
      choose_source();
      return;
    }
    case MessageType::kBroken:
      if (decode_number(frame.head) == epoch_ && !due_) {
        due_ = Clock::now() + kBrokenGrace;
        changed_.notify_all();
      }
      return;
    default:
      throw DataLoss("a message of type {} came where tasks talk about who takes part", frame.type);
  }
}

Coordinator::Member* Coordinator::member_of(const net::Connection& connection) {
  for (auto& [order, member] : members_) {
    if (member.connection.get() == &connection) return &member;
  }
  return nullptr;
}

// What cannot be told is lost; the thread that receives from it notices.
void Coordinator::tell(Member& member, MessageType type, const std::string& head) {
  try {
    member.connection->send(static_cast<std::uint32_t>(type), head, Deadline::after(kTellTimeout));
  } catch (const Error& error) {
    log::warning("{} cannot be reached: {}", member.task, error.what());
    member.connection->close();
  }
}

void Coordinator::remove(const std::shared_ptr<net::Connection>& connection,
                         const std::string& why) {
  connection->close();
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find_if(
      members_, [&](const auto& entry) { return entry.second.connection == connection; });
  // Replaced by another process of the same task.
  if (found == members_.end()) return;
  if (!end_step_ && !stopped_) log::warning("{} is gone: {}", found->second.task, why);
  members_.erase(found);
  changed_.notify_all();
  if (started_ && !stopped_ && !end_step_ && !members_.empty()) begin_epoch();
}

void Coordinator::begin_epoch() {
  started_ = true;
  due_.reset();
  ++epoch_;
  EpochPlan plan{.number = epoch_};
  const auto ranges = deal(options_.terms.replicas, members_.size());
  std::string who;
  for (auto& [order, member] : members_) {
    const ReplicaRange range = ranges[plan.members.size()];
    plan.members.push_back({member.task, member.address, range});
    member.ready.reset();
    who +=
        fmt::format("{}{} [{}, {})", who.empty() ? "" : ", ", member.task, range.first, range.last);
  }
  log::info("epoch {}: replicas of {}", epoch_, who);
  const std::string head = encode(plan);
  for (auto& [order, member] : members_) tell(member, MessageType::kEpoch, head);
}

void Coordinator::choose_source() {
  Source source{.epoch = epoch_};
  const Progress* furthest = nullptr;
  std::size_t rank = 0;
  for (const auto& [order, member] : members_) {
    if (!member.ready) return;
    if (furthest == nullptr || *furthest < *member.ready) {
      furthest = &*member.ready;
      source.rank = rank;
    }
    ++rank;
  }
  rank = 0;
  for (const auto& [order, member] : members_) {
    if (*member.ready < *furthest) source.to.push_back(rank);
    ++rank;
  }
  for (auto& [order, member] : members_) tell(member, MessageType::kSource, encode(source));
}

void Coordinator::begin_epoch_if_due() {
  if (end_step_ || !due_ || Clock::now() < *due_) return;
  if (members_.empty()) {
    due_ = Clock::now() + kBrokenGrace;
    return;
  }
  if (!started_) {
    log::warning("{} of {} tasks have come within {:.0f} s: the run begins without the others",
                 members_.size(), options_.expected,
                 std::chrono::duration<double>(options_.join_timeout).count());
  }
  begin_epoch();
}

// Says that the coordinator lives, and finds those who say so no longer.
void Coordinator::watch() {
  std::unique_lock lock(mutex_);
  while (!stopped_) {
    const auto now = Clock::now();
    for (auto& [order, member] : members_) {
      if (now - member.heard > options_.peer_timeout) {
        log::warning("{} has not been heard of for {:.1f} s", member.task,
                     std::chrono::duration<double>(now - member.heard).count());
        member.connection->close();  // Its thread removes it.
      } else {
        tell(member, MessageType::kBeat, {});
      }
    }
    begin_epoch_if_due();
    changed_.wait_until(lock, due_ ? std::min(*due_, now + kBeatEvery) : now + kBeatEvery);
  }
}

void Coordinator::end(std::int64_t step) {
  std::unique_lock lock(mutex_);
  end_step_ = step;
  due_.reset();
  for (auto& [order, member] : members_) tell(member, MessageType::kEnd, encode_number(step));
  // The chief's own connection stays.
  const auto others_left = [this] { return members_.size() <= 1; };
  if (!changed_.wait_for(lock, kLeaveGrace, others_left)) {
    log::warning("{} tasks have not left {} s after the end of the run", members_.size() - 1,
                 std::chrono::duration_cast<std::chrono::seconds>(kLeaveGrace).count());
  }
}

}  // namespace muster::internal
