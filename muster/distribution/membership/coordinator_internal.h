#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "muster/data/checkpoint/checkpoint_parts.h"
#include "muster/distribution/wire/message_table_internal.h"
#include "muster/platform/net/connection.h"

namespace muster::internal {

/// Purpose of a connection, named by the side that connects.
inline constexpr std::string_view kControlPurpose = "control";
/// A ps that was told nothing asks the chief for its arguments.
inline constexpr std::string_view kArgumentsPurpose = "arguments";
/// With the generation behind it.
inline constexpr std::string_view kDataPurpose = "data ";

/// Both sides of a control connection say so often that they live.
inline constexpr std::chrono::milliseconds kHeartbeatInterval{500};
/// Messages about who takes part are small: a task that does not take one in this time is stopped
/// or gone.
inline constexpr std::chrono::seconds kTellTimeout{2};

/// The first term in which the two differ, in words; empty when they can train together.
/// Replicas, threads and the seed are the chief's to decide; a task that was told nothing takes
/// them over. `is_server`: the task holds variables, and need not know all that the others do.
std::string difference(const RunContract& chief, const RunContract& task, bool is_server);

struct CoordinatorOptions {
  /// The task it lives in, and where that is.
  std::string chief{};
  std::string chief_address{};
  RunContract terms{};
  /// How many tasks are to train, the chief among them. The run continues without some of them.
  std::size_t trainers = 1;
  /// So many of them are enough to begin, and needed to continue; 0: the first generation waits for
  /// all, and the run continues with those that are left.
  std::size_t least_trainers = 0;
  /// How many tasks hold variables. The run does not continue without one of them.
  std::size_t servers = 0;
  /// Whether each task that trains has state that no other has: all go back to the chief's last
  /// checkpoint in every generation.
  bool goes_back = false;
  /// Name of the run in their logs; empty: they keep none.
  std::string log_run{};
  /// How long the first generation waits for all, and any generation for those that hold variables.
  std::chrono::milliseconds join_timeout{60'000};
  std::chrono::milliseconds peer_timeout{10'000};
};

/// Knows who takes part. It lives in the chief's process; every task, the chief too, has a
/// connection to it. Each time a task joins or leaves it begins a generation: it deals the replicas
/// to the tasks that are there, waits until all have let go of the generation before, and says
/// whose state counts. It remembers nothing that the tasks do not: after a restart the tasks tell
/// it how far they are.
class Coordinator {
 public:
  explicit Coordinator(CoordinatorOptions options);
  ~Coordinator();
  Coordinator(const Coordinator&) = delete;
  Coordinator& operator=(const Coordinator&) = delete;

  /// Serves one task until it leaves or is lost. Any thread.
  void serve(std::shared_ptr<net::Connection> connection);
  /// The chief saves the last step, and takes part in nothing more: no generation begins from here
  /// on, whichever tasks come or go. All tasks are told, also those that come later.
  void announce_end();
  /// Tells all tasks, also those that come later, that the run is over at this step, or stopped
  /// there by a signal, and waits a moment for them to leave; where no generation has begun, also
  /// for them to come.
  void end(std::int64_t step, int signal);

  /// Reports of tasks on what they wrote of this checkpoint go to `parts` while it lives, which
  /// also hears of tasks that are lost. Parts that are asked for in a generation which is over
  /// already fail at once.
  void expect_parts(const std::shared_ptr<CheckpointParts>& parts, std::int64_t generation);

  /// Breaks off with all tasks, so that those who serve them return. No task is served any more.
  void stop();

  /// The replicas that each of `tasks` tasks runs: neighbours, as even as can be.
  static std::vector<ReplicaRange> deal(std::int64_t replicas, std::size_t tasks);
  /// By task of one host, of more tasks than there are `processors`: whether it takes turns with
  /// the one before it. Those that do not are a power of two, and no more than the processors.
  static std::vector<bool> share(std::size_t tasks, std::size_t processors);

 private:
  using Clock = std::chrono::steady_clock;
  struct Member {
    std::string task;
    std::string address;
    std::shared_ptr<net::Connection> connection;
    bool is_server = false;
    Clock::time_point heard;
    std::optional<Progress> ready;
    /// Join::processors
    std::vector<std::int64_t> processors;
  };
  /// The chief, then workers, those of one host together and the chief's host first, then servers,
  /// each by index. Neighbours exchange gradients first.
  using Order = std::tuple<int, std::string, std::string>;

  std::string obstacle(const net::Connection& connection, const Join& join) const;
  bool admit(const std::shared_ptr<net::Connection>& connection, const Join& join);
  void handle(const std::shared_ptr<net::Connection>& connection, net::Frame frame);
  void remove(const std::shared_ptr<net::Connection>& connection, const std::string& why);
  void note_refusal(const std::string& task, const std::string& why);
  // These want the mutex held.
  bool is_complete() const;
  void tell_of_refused_server();
  Member* member_of(const net::Connection& connection);
  template <typename Message>
  void tell(Member& member, const Message& message) {
    tell(member, kKind<Message>.number, encode(message));
  }
  void tell(Member& member, std::uint32_t number, const EncodedMessage& message);
  Order order_of(const std::string& task, const Join& join) const;
  template <typename Message>
  void tell_all(const Message& message) {
    const EncodedMessage encoded = encode(message);
    for (auto& [order, member] : members_) tell(member, kKind<Message>.number, encoded);
  }
  void note_broken(std::int64_t generation);
  void note_part(const Member& member, PartWritten part);
  void note_loss(const std::string& task, const std::string& why);
  std::vector<std::shared_ptr<CheckpointParts>> awaited_parts() const;
  std::size_t count(bool servers) const;
  bool has_chief() const;
  std::string missing_servers() const;
  bool is_short() const;
  std::string missing() const;
  void note_shared_processors(GenerationPlan& plan) const;
  void begin_generation();
  void begin_generation_soon();
  void begin_generation_if_due();
  void choose_source();
  Source source_among_trainers() const;
  Source source_with_servers() const;
  void beat(Clock::time_point now, bool was_stopped);
  void watch();

  const CoordinatorOptions options_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopped_ = false;
  std::map<Order, Member> members_;
  /// By task: why it was refused.
  std::map<std::string, std::string> refused_;
  /// One that holds variables, and since when the run cannot begin because of it.
  std::string refused_server_;
  std::optional<Clock::time_point> refused_server_since_;
  std::int64_t generation_ = 0;
  Clock::time_point generation_began_{};
  bool started_ = false;
  /// Whether no generation begins any more.
  bool is_ending_ = false;
  std::optional<RunEnded> end_;
  /// Parts of checkpoints that are still waited for: the next is begun while one is written.
  std::vector<std::weak_ptr<CheckpointParts>> parts_;
  /// Tasks that came after the end.
  std::size_t late_ = 0;
  /// When a new generation begins at the latest, if one is to.
  std::optional<Clock::time_point> due_;
  /// Since when one that the run cannot do without has been missing; nothing while all are there.
  std::optional<Clock::time_point> missing_since_;
  // Last: it uses all of the above.
  std::jthread watcher_;
};

}  // namespace muster::internal
