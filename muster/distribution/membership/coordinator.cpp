#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <set>
#include <utility>

#include "muster/base/log.h"
#include "muster/base/wait.h"
#include "muster/distribution/membership/coordinator_internal.h"
#include "muster/platform/cluster/task_environment.h"
#include "muster/train/engine/run_terms.h"

namespace muster::internal {
namespace {

using namespace std::chrono_literals;

// A task that says its peers broke off is heard a moment before the one that is gone is missed.
constexpr auto kBrokenGrace = 300ms;
// Tasks often come and go together: one generation is for all of them.
constexpr auto kGather = 30ms;
constexpr auto kLeaveGrace = 5s;

std::string host_of(const std::string& address) { return address.substr(0, address.rfind(':')); }

// "worker:10" comes after "worker:9".
std::string padded(const std::string& task) {
  const auto colon = task.rfind(':');
  const std::string index = colon == std::string::npos ? "" : task.substr(colon + 1);
  const std::size_t zeros = 20 - std::min<std::size_t>(20, index.size());
  return task.substr(0, colon) + ":" + std::string(zeros, '0') + index;
}

// As connections know a task: its name is proved, what it says of itself is not.
bool is_server_name(const std::string& task) {
  return task.starts_with(std::string(job::kPs) + ":");
}

}  // namespace

std::string difference(const RunContract& chief, const RunContract& task, bool is_server) {
  if (chief.arithmetic != task.arithmetic) {
    return fmt::format(
        "the chief computes with '{}', this task with '{}'; give all tasks the same libtorch, BLAS "
        "and kind of processor",
        chief.arithmetic, task.arithmetic);
  }
  if (chief.precision != task.precision) {
    return fmt::format("the chief's precision is {}, this task's {}; give all tasks the same",
                       muster::name_of(chief.precision), muster::name_of(task.precision));
  }
  if (chief.seed != task.seed) {
    return fmt::format("the chief's seed is {}, this task's {}; give all tasks the same",
                       chief.seed, task.seed);
  }
  if (task.replicas > 0 && chief.replicas != task.replicas) {
    return fmt::format(
        "the chief's run has {} replicas, this task was given {}; give all tasks the same, or 0 to "
        "take the chief's",
        chief.replicas, task.replicas);
  }
  if (task.threads_per_replica > 0 && chief.threads_per_replica != task.threads_per_replica) {
    return fmt::format(
        "the chief has {} threads per replica, this task was given {}; give all tasks the same, or "
        "0 to take the chief's",
        chief.threads_per_replica, task.threads_per_replica);
  }
  return muster::difference(chief.others, task.others, is_server);
}

Coordinator::Coordinator(CoordinatorOptions options)
    : options_(std::move(options)),
      due_(Clock::now() + options_.join_timeout),
      missing_since_(options_.servers > 0 || options_.least_trainers > 0
                         ? std::optional(Clock::now())
                         : std::nullopt),
      watcher_([this] { watch(); }) {}

Coordinator::~Coordinator() { stop(); }

void Coordinator::stop() {
  const std::lock_guard lock(mutex_);
  stopped_ = true;
  changed_.notify_all();
  for (const auto& parts : awaited_parts()) parts->fail_all("the chief leaves the run");
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

std::vector<bool> Coordinator::share(std::size_t tasks, std::size_t processors) {
  std::vector<bool> shares(tasks, false);
  if (processors == 0 || tasks <= processors) return shares;
  const auto blocks = deal(static_cast<std::int64_t>(tasks), std::bit_floor(processors));
  for (const ReplicaRange& block : blocks) {
    for (auto task = block.first + 1; task < block.last; ++task) {
      shares[static_cast<std::size_t>(task)] = true;
    }
  }
  return shares;
}

void Coordinator::serve(std::shared_ptr<net::Connection> connection) {
  std::string why = "it left";
  try {
    auto first = connection->receive(Deadline::after(options_.peer_timeout));
    if (!first) return;
    if (!is_message<Join>(*first)) {
      throw DataLoss("the first message is {}, no request to join", describe_message(first->type));
    }
    if (!admit(connection, decode<Join>(std::move(*first)))) return;
    while (auto frame = connection->receive(Deadline::never())) {
      if (is_message<Leave>(*frame)) break;
      handle(connection, std::move(*frame));
    }
  } catch (const Error& error) {
    why = error.what();
  }
  remove(connection, why);
}

Coordinator::Order Coordinator::order_of(const std::string& task, const Join& join) const {
  const bool is_worker = !join.is_chief && !join.is_server;
  const std::string host = host_of(join.address);
  const bool is_elsewhere = is_worker && host != host_of(options_.chief_address);
  return {join.is_chief ? 0 : join.is_server ? 2 : 1, is_elsewhere ? host : "", padded(task)};
}

// Messages that cannot be sent are lost; the thread that receives from the task notices.
void Coordinator::tell(Member& member, std::uint32_t number, const EncodedMessage& message) {
  try {
    member.connection->send(number, message.header, message.body, Deadline::after(kTellTimeout));
  } catch (const Cancelled&) {
    // Closed on this side, where the reason was given; the thread that serves it removes it.
  } catch (const Error& error) {
    log::warning("{} cannot be reached: {}", member.task, error.what());
    member.connection->close();
  }
}

// Why the task cannot take part; empty if it can.
std::string Coordinator::obstacle(const net::Connection& connection, const Join& join) const {
  const std::string& task = connection.peer_task();
  const bool is_server = task.starts_with(fmt::format("{}:", job::kPs));
  if (join.is_chief != (task == options_.chief) || join.is_server != is_server) {
    return fmt::format("{} says that it is another kind of task", task);
  }
  return difference(options_.terms, join.terms, is_server);
}

bool Coordinator::admit(const std::shared_ptr<net::Connection>& connection, const Join& join) {
  const std::string why = obstacle(*connection, join);
  if (!why.empty()) {
    log::error("{} cannot take part: {}", connection->peer(), why);
    try {
      send(*connection, Refused{why}, Deadline::after(kTellTimeout));
    } catch (const Error& error) {
      log::warning("{} could not be told: {}", connection->peer(), error.what());
    }
    // When it knows: what follows may end this process.
    note_refusal(connection->peer_task(), why);
    return false;
  }
  const std::lock_guard lock(mutex_);
  if (stopped_) return false;
  auto& member = members_[order_of(connection->peer_task(), join)];
  // The task came back before anybody missed it.
  if (member.connection != nullptr) {
    member.connection->close();
    note_loss(member.task, "it was lost and came back");
  }
  member = {connection->peer_task(), join.address, connection,
            join.is_server,          Clock::now(), std::nullopt,
            join.processors};
  refused_.erase(member.task);
  if (member.task == refused_server_) {
    refused_server_since_.reset();
    for (const auto& refused : refused_) {
      if (!is_server_name(refused.first)) continue;
      refused_server_ = refused.first;
      refused_server_since_ = Clock::now();
    }
  }
  log::info("{} joins the run, {} of {} tasks are here", member.task, members_.size(),
            options_.trainers + options_.servers);
  // First: a task that has the terms continues.
  tell(member, LogRun{options_.log_run});
  tell(member, Admitted{options_.terms});
  if (end_) {
    tell(member, *end_);
    ++late_;
  } else if (is_ending_) {
    tell(member, RunEnding{});
  } else if (refused_server_since_) {
    tell_of_refused_server();
  } else if (!started_ && is_complete()) {
    begin_generation();
  } else if (started_ || (options_.least_trainers > 0 && !is_short())) {
    begin_generation_soon();
  }
  return true;
}

void Coordinator::begin_generation_soon() {
  const auto soon = Clock::now() + kGather;
  due_ = due_ && started_ ? std::min(*due_, soon) : soon;
  changed_.notify_all();
}

// A task that was refused is not waited for. A refused connection that names a task which is here
// already, or comes when the run is over, changes nothing for the others.
void Coordinator::note_refusal(const std::string& task, const std::string& why) {
  const std::lock_guard lock(mutex_);
  if (stopped_ || is_ending_) return;
  for (const auto& [order, member] : members_) {
    if (member.task == task) return;
  }
  refused_[task] = why;
  if (is_server_name(task)) {
    refused_server_ = task;
    if (!refused_server_since_) refused_server_since_ = Clock::now();
    tell_of_refused_server();
  } else if (!started_ && !members_.empty() && is_complete()) {
    begin_generation();
  }
}

// Whether no more tasks are to come.
bool Coordinator::is_complete() const {
  return members_.size() + refused_.size() >= options_.trainers + options_.servers;
}

// When all are there to hear it, or had time to come: the chief ends with this.
void Coordinator::tell_of_refused_server() {
  if (!is_complete() && Clock::now() - *refused_server_since_ < kLeaveGrace) return;
  const std::string why = fmt::format("{} cannot take part, and the run cannot do without: {}",
                                      refused_server_, refused_[refused_server_]);
  tell_all(RunFailed{why});
}

void Coordinator::handle(const std::shared_ptr<net::Connection>& connection, net::Frame frame) {
  const std::lock_guard lock(mutex_);
  Member* member = member_of(*connection);
  if (member == nullptr) return;
  member->heard = Clock::now();
  const bool is_known = dispatch<Heartbeat, Ready, Broken, PartWritten>(
      frame, Handle{[](const Heartbeat&) {},
                    [&](const Ready& ready) {
                      if (ready.generation != generation_) return;
                      member->ready = ready.progress;
                      choose_source();
                    },
                    [this](const Broken& broken) { note_broken(broken.generation); },
                    [&](PartWritten part) { note_part(*member, std::move(part)); }});
  if (!is_known) {
    throw DataLoss("{} came where tasks talk about who takes part", describe_message(frame.type));
  }
}

void Coordinator::note_broken(std::int64_t generation) {
  if (generation != generation_ || due_ || is_ending_) return;
  due_ = Clock::now() + kBrokenGrace;
  changed_.notify_all();
}

void Coordinator::expect_parts(const std::shared_ptr<CheckpointParts>& parts,
                               std::int64_t generation) {
  const std::lock_guard lock(mutex_);
  std::erase_if(parts_, [](const auto& before) { return before.expired(); });
  parts_.push_back(parts);
  // A task that was lost since may be one of the writers.
  if (generation != generation_ || due_ || missing_since_ || stopped_) {
    parts->fail_all("another generation begins");
  }
}

void Coordinator::note_part(const Member& member, PartWritten part) {
  for (const auto& parts : awaited_parts()) {
    if (parts->id() != part.id) continue;
    if (part.failure.empty()) {
      parts->take(member.task, std::move(part.index));
    } else {
      parts->fail(member.task, part.failure);
    }
    return;
  }
}

void Coordinator::note_loss(const std::string& task, const std::string& why) {
  for (const auto& parts : awaited_parts()) parts->fail(task, why);
}

std::vector<std::shared_ptr<CheckpointParts>> Coordinator::awaited_parts() const {
  std::vector<std::shared_ptr<CheckpointParts>> awaited;
  for (const auto& parts : parts_) {
    if (auto alive = parts.lock()) awaited.push_back(std::move(alive));
  }
  return awaited;
}

Coordinator::Member* Coordinator::member_of(const net::Connection& connection) {
  for (auto& [order, member] : members_) {
    if (member.connection.get() == &connection) return &member;
  }
  return nullptr;
}

void Coordinator::remove(const std::shared_ptr<net::Connection>& connection,
                         const std::string& why) {
  connection->close();
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find_if(
      members_, [&](const auto& entry) { return entry.second.connection == connection; });
  // Replaced by another process of the same task.
  if (found == members_.end()) return;
  if (!end_ && !stopped_) log::warning("{} is gone: {}", found->second.task, why);
  note_loss(found->second.task, why);
  members_.erase(found);
  changed_.notify_all();
  if (started_ && !stopped_ && !is_ending_ && !members_.empty()) begin_generation_soon();
}

std::size_t Coordinator::count(bool servers) const {
  return static_cast<std::size_t>(std::ranges::count_if(
      members_, [&](const auto& entry) { return entry.second.is_server == servers; }));
}

bool Coordinator::has_chief() const {
  return std::ranges::any_of(
      members_, [&](const auto& entry) { return entry.second.task == options_.chief; });
}

std::string Coordinator::missing_servers() const {
  std::string missing;
  for (std::size_t i = 0; i < options_.servers; ++i) {
    const std::string task = fmt::format("{}:{}", job::kPs, i);
    const bool here =
        std::ranges::any_of(members_, [&](const auto& entry) { return entry.second.task == task; });
    if (!here) missing += (missing.empty() ? "" : ", ") + task;
  }
  return missing;
}

// Whether tasks are missing that the run cannot do without.
bool Coordinator::is_short() const {
  return count(true) < options_.servers || count(false) < options_.least_trainers;
}

// Who that is.
std::string Coordinator::missing() const {
  if (count(true) < options_.servers) return missing_servers();
  return fmt::format("{} more of at least {} workers", options_.least_trainers - count(false),
                     options_.least_trainers - 1);
}

// The members of a host are neighbours.
void Coordinator::note_shared_processors(GenerationPlan& plan) const {
  auto member = members_.begin();
  for (std::size_t first = 0; first < plan.members.size();) {
    const std::string host = host_of(plan.members[first].address);
    std::set<std::int64_t> processors;
    std::size_t last = first;
    for (; last < plan.members.size() && host_of(plan.members[last].address) == host; ++last) {
      processors.insert(member->second.processors.begin(), member->second.processors.end());
      ++member;
    }
    const std::vector<bool> shares = share(last - first, processors.size());
    for (std::size_t i = 0; i < shares.size(); ++i) {
      plan.members[first + i].shares_processor = shares[i];
    }
    first = last;
  }
}

// Those that the run cannot do without are waited for; the others are told when all of them are
// there.
void Coordinator::begin_generation() {
  due_.reset();
  // The chief has the checkpoints that all may have to go back to. Its process lives, or this would
  // not: it comes back in a moment when its connection was lost.
  if (!has_chief()) {
    due_ = Clock::now() + kBrokenGrace;
    return;
  }
  if (is_short()) {
    if (!missing_since_) {
      missing_since_ = Clock::now();
      log::warning("the run waits for {}, which it cannot do without", missing());
    }
    return;
  }
  missing_since_.reset();
  started_ = true;
  ++generation_;
  generation_began_ = Clock::now();
  GenerationPlan plan{.number = generation_, .trainers = count(false)};
  auto ranges = deal(options_.terms.replicas, plan.trainers);
  ranges.resize(members_.size());
  std::string who;
  for (auto& [order, member] : members_) {
    const ReplicaRange range = ranges[plan.members.size()];
    plan.members.push_back({member.task, member.address, range});
    member.ready.reset();
    who += fmt::format("{}{}", who.empty() ? "" : ", ", member.task);
    if (!member.is_server) who += fmt::format(" [{}, {})", range.first, range.last);
  }
  log::info("generation {}: replicas of {}", generation_, who);
  if (plan.trainers == plan.members.size()) note_shared_processors(plan);
  tell_all(plan);
}

// The one that is furthest; those who are behind get its state.
Source Coordinator::source_among_trainers() const {
  if (options_.goes_back) return {.generation = generation_, .rank = 0, .go_back = true};
  Source source{.generation = generation_};
  std::size_t rank = 0;
  for (const auto& [order, member] : members_) {
    if (rank == 0 || source.progress < *member.ready) {
      source.progress = *member.ready;
      source.rank = rank;
    }
    ++rank;
  }
  return source;
}

// The state on the servers counts. One that has lost it makes all go back.
Source Coordinator::source_with_servers() const {
  Source source{.generation = generation_};
  std::size_t rank = 0;
  for (const auto& [order, member] : members_) {
    if (member.is_server && member.ready->step < 0) {
      return {.generation = generation_, .rank = 0, .go_back = true};
    }
    if (member.is_server && source.progress < *member.ready) {
      source.progress = *member.ready;
      source.rank = rank;
    }
    ++rank;
  }
  return source;
}

void Coordinator::choose_source() {
  // The members are others than the plan's, or will be.
  if (due_ || missing_since_) return;
  const bool all_ready = std::ranges::all_of(
      members_, [](const auto& entry) { return entry.second.ready.has_value(); });
  if (!all_ready) return;
  Source source = options_.servers > 0 ? source_with_servers() : source_among_trainers();
  std::size_t rank = 0;
  for (const auto& [order, member] : members_) {
    const bool behind = source.go_back ? rank != source.rank : *member.ready < source.progress;
    if (behind) source.to.push_back(rank);
    ++rank;
  }
  log::info("generation {}: {} tasks are ready seconds={:.3f}", generation_, members_.size(),
            std::chrono::duration<double>(Clock::now() - generation_began_).count());
  tell_all(source);
}

void Coordinator::begin_generation_if_due() {
  if (is_ending_) return;
  const auto now = Clock::now();
  const double seconds = std::chrono::duration<double>(options_.join_timeout).count();
  const bool is_missing = missing_since_ && is_short();
  if (is_missing && now - *missing_since_ > options_.join_timeout) {
    const std::string why = fmt::format(
        "{} did not come within {:.0f} s, and the run cannot do without", missing(), seconds);
    log::error("{}", why);
    tell_all(RunFailed{why});
    missing_since_ = now;
  }
  if (!due_ || now < *due_) return;
  if (!started_ && has_chief() && options_.least_trainers == 0) {
    log::warning("{} of {} tasks have come within {:.0f} s: the run begins without the others",
                 members_.size(), options_.trainers + options_.servers, seconds);
  }
  begin_generation();
}

// Says that the coordinator lives, and finds those who say so no longer.
void Coordinator::watch() {
  std::unique_lock lock(mutex_);
  auto before = Clock::now();
  auto next_beat = before;
  while (!stopped_) {
    const auto now = Clock::now();
    if (now >= next_beat) {
      // A process that was stopped itself has heard no task, and says nothing of the others.
      beat(now, /*was_stopped=*/now - before > options_.peer_timeout);
      before = now;
      next_beat = now + kHeartbeatInterval;
    }
    if (refused_server_since_) tell_of_refused_server();
    begin_generation_if_due();
    changed_.wait_until(lock, due_ ? std::min(*due_, next_beat) : next_beat);
  }
}

void Coordinator::beat(Clock::time_point now, bool was_stopped) {
  for (auto& [order, member] : members_) {
    if (was_stopped) member.heard = now;
    if (now - member.heard > options_.peer_timeout) {
      log::warning("{} has not been heard of for {:.1f} s", member.task,
                   std::chrono::duration<double>(now - member.heard).count());
      member.connection->close();  // Its thread removes it.
    } else {
      tell(member, Heartbeat{});
    }
  }
}

void Coordinator::announce_end() {
  const std::lock_guard lock(mutex_);
  is_ending_ = true;
  due_.reset();
  tell_all(RunEnding{});
}

void Coordinator::end(std::int64_t step, int signal) {
  std::unique_lock lock(mutex_);
  is_ending_ = true;
  end_ = RunEnded{step, signal};
  due_.reset();
  tell_all(*end_);
  // Others of a run that ended while the chief was away look for it.
  const std::size_t expected = started_ ? 0 : options_.trainers + options_.servers;
  const std::size_t to_come = expected - std::min(expected, members_.size());
  // The chief's own connection stays.
  const auto others_left = [&] { return members_.size() <= 1 && late_ >= to_come; };
  if (!changed_.wait_for(lock, kLeaveGrace, others_left) && members_.size() > 1) {
    log::warning("{} tasks have not left {} s after the end of the run", members_.size() - 1,
                 std::chrono::duration_cast<std::chrono::seconds>(kLeaveGrace).count());
  }
}

}  // namespace muster::internal
