#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "muster/serving/front/ejection_internal.h"
#include "muster/serving/front/front_server.h"
#include "muster/serving/front/node_keeper.h"
#include "muster/serving/front/node_process.h"

namespace muster::serving {

/// A node and its process, as the keeper sees them. Belongs to one thread.
class KeptNode {
 public:
  using Clock = std::chrono::steady_clock;

  enum class State {
    kStarting,
    kUp,
    /// Gets no requests: it failed some, or does not answer.
    kOut,
    /// Is not needed any more: gets no requests, and ends when it has answered those that it has.
    kDraining,
    /// Has been asked to end.
    kEnding,
  };

  KeptNode(int number, std::unique_ptr<NodeProcess> process, const NodeKeeperOptions& options);

  int number() const { return number_; }
  State state() const { return state_; }
  bool was_up() const { return node_ != nullptr; }
  const std::shared_ptr<Node>& node() const { return node_; }
  NodeProcess& process() { return *process_; }
  double seconds() const;

  /// Reads what the process has printed; puts the node to work where it has said its port.
  void read(FrontServer& front);
  /// Looks after a node that runs: asks it where it has been silent, keeps requests from it or
  /// gives it some again, and kills it where it does not answer. `others` are there to take its
  /// requests.
  void look(FrontServer& front, bool has_others);
  void drain(FrontServer& front);
  /// Is needed after all.
  void resume(FrontServer& front);
  /// Whether it has answered all that it has got.
  bool is_drained() const { return state_ == State::kDraining && node_->in_flight == 0; }
  void end();
  /// Why this keeper has killed it; nothing when it has not.
  const std::optional<std::string>& killed_for() const { return killed_for_; }

 private:
  /// A question that is on its way.
  struct Probe {
    std::atomic<bool> is_over{false};
    /// 0: no answer came.
    std::atomic<int> status{0};
    /// When the wait began: when it was asked, or the node's last answer to another request.
    Clock::time_point since = Clock::now();
    /// Processor time of the process by then.
    std::chrono::milliseconds computed{0};
  };

  void take_line(const std::string& line, FrontServer& front);
  void look_at_probe(FrontServer& front);
  void ask(FrontServer& front);
  bool has_computed(const Probe& probe) const;
  /// `reason` without the node: "does not answer".
  void put_out(FrontServer& front, const std::string& reason, bool is_lost);
  void kill(const std::string& reason);

  const int number_;
  const std::unique_ptr<NodeProcess> process_;
  const NodeKeeperOptions options_;
  const Clock::time_point started_ = Clock::now();
  std::shared_ptr<Node> node_{};
  State state_ = State::kStarting;
  std::string text_{};
  std::shared_ptr<Probe> probe_{};
  Clock::time_point asked_ = Clock::now();
  Clock::time_point returns_ = Clock::now();
  EjectionPauses pauses_{};
  std::optional<std::string> killed_for_{};
};

}  // namespace muster::serving
