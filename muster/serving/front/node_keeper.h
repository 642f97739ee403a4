#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "muster/base/wait.h"
#include "muster/serving/front/front_server.h"
#include "muster/serving/front/node_process.h"
#include "muster/serving/front/node_scaler.h"
#include "muster/serving/front/nodes.h"

namespace muster::serving {

struct NodeKeeperOptions {
  /// How many nodes there are; `scaling`, if there is one, changes that later.
  std::size_t nodes = 1;
  std::optional<ScalingOptions> scaling{};
  /// A node that has answered nothing for so long is asked something.
  std::chrono::milliseconds probe_interval{500};
  /// A node that has not answered for so long after it was asked, and has not computed either, gets
  /// no more requests, and those that it has are sent elsewhere.
  std::chrono::milliseconds probe_timeout{1000};
  /// It is killed and replaced after so long.
  std::chrono::milliseconds hang_timeout{3000};
  /// The same for one that computes and does not answer.
  std::chrono::milliseconds compute_timeout{60'000};
  /// From the start of a node to its first answer.
  std::chrono::milliseconds start_timeout{600'000};
};

/// Keeps nodes running: starts them, watches them, replaces those that crash, are killed or do not
/// answer, and says why in the log and in the metrics of the front. One thread at a time may call
/// what is not said to be for any.
class NodeKeeper final : public Nodes {
 public:
  /// Both outlive it. The starter is used by a thread of the keeper alone. Throws InvalidArgument
  /// for bounds of the number of nodes that cannot be kept.
  NodeKeeper(const NodeKeeperOptions& options, NodeStarter& starter, FrontServer& front);
  /// Kills the nodes.
  ~NodeKeeper() override;
  NodeKeeper(const NodeKeeper&) = delete;
  NodeKeeper& operator=(const NodeKeeper&) = delete;

  /// Starts the nodes and waits until all of them answer. Throws Unavailable when one ends before
  /// that, DeadlineExceeded when one takes longer
  /// than the start timeout.
  void start() override;
  /// Asks the nodes to end; kills those that have not by then. None is replaced any more.
  void stop(const Deadline& deadline) override;
  /// Sends a signal to every node. Any thread may call it.
  void send(int signal) override;
  /// The metrics of all nodes, of a path, as one page. Any thread may call it.
  std::string metrics(const std::string& path) override;
  const NodeHistory& history() const override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::serving
