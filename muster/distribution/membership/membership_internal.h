#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "muster/distribution/membership/coordinator_internal.h"
#include "muster/distribution/membership/group_internal.h"
#include "muster/distribution/peer_options.h"
#include "muster/platform/net/connection.h"
#include "muster/platform/net/listener.h"

namespace muster::internal {

/// Who this task is to the others.
net::Identity identity_of(const RunConfig& config, const PeerOptions& options);

/// A task's part in a run: it listens at its address, keeps in touch with the coordinator, and
/// joins generation after generation. In the chief's process the coordinator lives here too.
class Membership {
 public:
  Membership(const RunConfig& config, const PeerOptions& options);
  ~Membership();
  Membership(const Membership&) = delete;
  Membership& operator=(const Membership&) = delete;

  const Peer& chief() const { return chief_; }
  const std::string& task() const { return self_.task; }
  /// The chief's; known after join().
  const RunContract& terms() const { return terms_; }
  /// RunContract::last_step of the chief that is there now.
  std::int64_t last_step() {
    const std::lock_guard lock(mutex_);
    return chief_terms_ ? chief_terms_->last_step : terms_.last_step;
  }
  /// Name of the run in logs of servers; empty where the chief wants none. Known after join(), and
  /// another when the chief came back without its model_dir.
  std::string log_run() {
    const std::lock_guard lock(mutex_);
    return log_run_;
  }

  /// Meets the chief. Throws FailedPrecondition when the chief does not want this task.
  RunContract join(const RunContract& own);

  /// Lets go of the generation before, if there was one, and takes part in the next whose tasks are
  /// all connected with those they are linked with, and ready. `progress` is how far this task is.
  /// The result says whose state counts; nothing when the run has ended. Throws Unavailable when
  /// the chief does not come back by the deadline, or one that the run cannot do without does not
  /// come in time. Tasks that are alive are waited for.
  std::optional<Source> begin_generation(const Progress& progress, const Deadline& deadline);
  /// The current one; after the end of the run, this task alone in a group that has ended.
  Group& group() { return *group_; }

  /// Throws PeersChanged when another generation begins, which a group of one would not notice;
  /// false when the run has ended.
  bool check();

  /// In the chief: what tasks write of a checkpoint goes to `parts`, as they tell.
  void expect_parts(const std::shared_ptr<CheckpointParts>& parts);
  /// In the others: tells the chief. Any thread.
  void tell_written(const PartWritten& part);

  /// In the chief: as RunMembership::announce_end().
  void announce_end();
  /// In the chief: as RunMembership::end().
  void end(std::int64_t step, int signal);
  /// In the others: as RunMembership::leave().
  int leave(bool early);

 private:
  using Connections = std::vector<std::unique_ptr<net::Connection>>;

  void accept(std::unique_ptr<net::Connection> connection);
  void meet_chief();
  void connect_control(const Deadline& deadline);
  void listen_to_control(const std::shared_ptr<net::Connection>& control);
  void handle(net::Frame frame);
  // With the mutex held: what the coordinator says.
  void take(GenerationPlan plan);
  void take(Source source);
  void beat();
  template <typename Message>
  void tell_coordinator(const Message& message);
  std::string end_of_run() const;
  std::optional<GenerationPlan> next_plan(const Deadline& deadline);
  std::optional<Source> wait_for_source(std::int64_t generation);
  Connections connect_group(const GenerationPlan& plan, std::size_t rank, const Deadline& deadline);
  std::unique_ptr<net::Connection> accepted_from(const std::string& task, std::int64_t generation,
                                                 const Deadline& deadline);
  std::chrono::milliseconds stop_grace() const;
  GroupOptions group_options(const GenerationPlan& plan, std::size_t rank) const;
  void be_alone();
  std::size_t rank_in(const GenerationPlan& plan) const;
  // With the mutex held: whether there is no point in waiting for others of this generation.
  bool is_void(std::int64_t generation) const {
    return ended_ || chief_ends_ || !control_lost_.empty() || !failed_.empty() || !plan_ ||
           plan_->number != generation;
  }

  const RunConfig config_;
  const Peer chief_;
  const net::Identity self_;
  /// Whether it may listen where other machines reach it.
  const bool is_open_;
  RunContract terms_;
  std::int64_t last_generation_ = 0;

  // State that the receiving threads share with the loop's.
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  std::shared_ptr<net::Connection> control_;
  std::string control_lost_;
  std::chrono::steady_clock::time_point heard_;
  std::optional<RunContract> chief_terms_;
  std::string log_run_;
  std::string refused_;
  /// Why the run cannot continue.
  std::string failed_;
  std::optional<GenerationPlan> plan_;
  std::optional<Source> source_;
  /// The chief saves the last step: there is nothing to wait for but that.
  bool chief_ends_ = false;
  bool ended_ = false;
  /// Signal that stopped the chief before the last step.
  int end_signal_ = 0;
  /// Stops making the connections of the current generation's group.
  std::stop_source connecting_;
  std::chrono::steady_clock::time_point connecting_since_;
  std::map<std::pair<std::int64_t, std::string>, std::unique_ptr<net::Connection>> accepted_;
  std::unique_ptr<Group> group_;

  std::unique_ptr<Coordinator> coordinator_;
  std::unique_ptr<net::Listener> listener_;
  std::jthread control_thread_;
  std::jthread beat_thread_;
};

}  // namespace muster::internal
