#pragma once

#include <fmt/core.h>

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "muster/base/wait.h"
#include "muster/distribution/membership/stop_grace_internal.h"
#include "muster/distribution/wire/message_table_internal.h"
#include "muster/platform/net/connection.h"
#include "muster/platform/net/waker.h"

namespace muster::internal {

/// How a group receives; neither is for encrypted connections.
struct GroupOptions {
  /// A waiting thread polls for messages for a moment before it sleeps. Where there are processors
  /// enough: to be woken takes longer than most messages take.
  bool looks = false;
  /// A thread that waits for a task receives from it, so that a message wakes one thread, and none
  /// while no thread waits. The group's threads receive only for a ReceivingAhead and while a send
  /// waits.
  bool waiters_receive = false;
  /// How long await() waits when this process is to stop.
  std::chrono::milliseconds stop_grace = kStopGrace;
};

/// The tasks of one generation, each connected with some (linked_ranks()). It is used for that
/// generation alone, so what was meant for another never arrives. The loop's thread sends and
/// takes; a thread for each peer receives, so that two that send to each other never wait for each
/// other, or sees at least when the peer is gone (GroupOptions).
class Group {
 public:
  /// `connections[r]` leads to the task of rank r; null for those that this one is not connected
  /// with.
  Group(GenerationPlan plan, std::size_t rank,
        std::vector<std::unique_ptr<net::Connection>> connections,
        const GroupOptions& options = {});
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  const GenerationPlan& plan() const { return plan_; }
  std::size_t rank() const { return rank_; }
  std::size_t size() const { return plan_.members.size(); }
  ReplicaRange replicas() const { return plan_.members[rank_].replicas; }

  const std::string& task(std::size_t rank) const { return plan_.members[rank].task; }

  /// Throws PeersChanged, naming the task, when it is gone or the group was interrupted. When the
  /// run has ended nothing is sent.
  template <typename Message>
  void send(std::size_t to, const Message& message) {
    send_encoded(to, kKind<Message>.number, encode(message));
  }
  /// The next message from that task, which must be such a one. `what` says what is waited for:
  /// "the gradients of step 12". Throws PeersChanged, and DataLoss, naming the task, for what does
  /// not fit; nothing when the run has ended.
  template <typename Message>
  std::optional<Message> take(std::size_t from, const std::string& what,
                              const ExpectedTensors& expected = {}) {
    auto frame = take_frame(from, what);
    if (!frame) return std::nullopt;
    if (!is_message<Message>(*frame)) throw_unexpected(from, *frame, what);
    return decode_from<Message>(from, std::move(*frame), expected);
  }
  /// decode(), with the task's name in its errors.
  template <typename Message>
  Message decode_from(std::size_t from, net::Frame frame, const ExpectedTensors& expected = {}) {
    try {
      return decode<Message>(std::move(frame), expected);
    } catch (Error& error) {
      error.add_context(fmt::format("from {}", task(from)));
      throw;
    }
  }
  /// Waits until that task has sent a message, and says of which number it is; the message stays.
  /// Nothing when the run has ended, or when this process is to stop and the task has not sent one
  /// for GroupOptions::stop_grace: it may be hung, though it lives. Throws PeersChanged.
  std::optional<std::uint32_t> await(std::size_t from, const std::string& what);
  /// take() after await(): nothing also when this task is to stop and the other may be hung.
  template <typename Message>
  std::optional<Message> take_unless_stopped(std::size_t from, const std::string& what,
                                             const ExpectedTensors& expected = {}) {
    if (!await(from, what)) return std::nullopt;
    return take<Message>(from, what, expected);
  }
  /// Throws Internal: the task has sent this where `what` was due.
  [[noreturn]] void throw_unexpected(std::size_t from, const net::Frame& frame,
                                     const std::string& what) const;

  /// The next message from any task of a rank below `ranks`; those that have sent something take
  /// turns. Nothing when the run has ended, which ended() tells, or when the deadline passes.
  /// Throws PeersChanged.
  struct Arrival {
    std::size_t rank = 0;
    net::Frame frame{};
  };
  std::optional<Arrival> take_next(std::size_t ranks, const Deadline& deadline,
                                   const WaitReason& reason);
  bool ended();
  /// False when the run has ended. Throws PeersChanged when a task is gone or the group was
  /// interrupted.
  bool check();

  /// While there is one, the group's threads receive messages that no thread waits for yet:
  /// for messages that are so large that the loop has something to do meanwhile.
  class ReceivingAhead {
   public:
    explicit ReceivingAhead(Group& group) : group_(group) { group_.receive_ahead(+1); }
    ~ReceivingAhead() { group_.receive_ahead(-1); }
    ReceivingAhead(const ReceivingAhead&) = delete;
    ReceivingAhead& operator=(const ReceivingAhead&) = delete;

   private:
    Group& group_;
  };

  /// Time of a message to that task and back, as the system has last seen it; nothing where it does
  /// not tell.
  std::optional<std::chrono::microseconds> round_trip(std::size_t rank) const {
    return peers_[rank].connection->round_trip();
  }

  /// Breaks off with those that are not in the next generation: a thread that sends to one of them,
  /// which may be stopped and take nothing, waits no longer. Any thread.
  void leave_behind(const GenerationPlan& next);
  /// Ends all waits with PeersChanged, or quietly because the run has ended. Any thread.
  void interrupt(const std::string& why);
  void end();
  /// Lets await() look whether a signal has come. Any thread.
  void wake();

 private:
  struct Peer {
    std::unique_ptr<net::Connection> connection;
    std::deque<net::Frame> frames;
    std::jthread receiver;
    /// Held by the thread that receives: a message that has begun to arrive is received to its end.
    std::mutex receiving{};
    /// Nothing more comes.
    bool is_over = false;
    /// A send waits for it to take what is sent.
    bool keeps_sender_waiting = false;
  };

  void send_encoded(std::size_t to, std::uint32_t number, const EncodedMessage& message);
  std::optional<net::Frame> take_frame(std::size_t from, const std::string& what);
  void receive_ahead(int more);
  void set_sender_waiting(std::size_t rank, bool waits);
  void note_broken(const std::string& why);
  void receive_from(std::size_t rank);
  bool receive_arrived(Peer& peer);
  bool note_receiving(std::optional<std::size_t> from);
  void receive_if_there(std::size_t rank);
  void receive_awaited(std::size_t rank, const WaitReason& reason);
  template <typename Done>
  void look_for(std::size_t first, std::size_t last, const Done& is_done);
  template <typename Over>
  std::unique_lock<std::mutex> wait_for(std::size_t from, const std::string& what,
                                        const Over& is_over);
  void changed();
  void close_all();

  GenerationPlan plan_;
  std::size_t rank_;
  const GroupOptions options_;
  std::mutex mutex_;
  std::condition_variable changed_;
  /// Why it is over; empty while it is not.
  std::string broken_;
  bool ended_ = false;
  /// The rank that a message is being sent to, and the rank that a waiting thread receives from.
  std::optional<std::size_t> sends_to_;
  std::optional<std::size_t> receives_from_;
  /// Since when await() waits, while it does.
  std::optional<std::chrono::steady_clock::time_point> awaits_since_;
  /// It gave up a message that did not come to its end, because a signal has come.
  bool gave_up_ = false;
  /// Number of live ReceivingAhead objects, and a waker that is set while there are any.
  int receiving_ahead_ = 0;
  net::Waker receives_ahead_;
  /// Whether a thread waits at a connection, and the waker that wakes it.
  bool waits_at_connection_ = false;
  net::Waker waiter_;
  /// The rank that take_next() looks at first.
  std::size_t next_turn_ = 0;
  std::vector<Peer> peers_;
};

}  // namespace muster::internal
