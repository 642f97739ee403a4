#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "muster/serving/front/front_server.h"
#include "muster/serving/front/nodes.h"

namespace muster::serving {

struct RemoteNodesOptions {
  /// HOST:PORT each; a name stands for all of its addresses.
  std::vector<std::string> names{};
  /// Names are looked up again after so long.
  std::chrono::milliseconds resolve_interval{5000};
  /// Each node is asked whether it is ready, and has so long to answer.
  std::chrono::milliseconds probe_interval{500};
  std::chrono::milliseconds probe_timeout{1000};
  /// One node at least must be ready by then.
  std::chrono::milliseconds start_timeout{600'000};
};

/// Nodes that other programs run, at addresses that are given or that names have in the DNS: finds
/// out which of them answer, and keeps requests from those that do not.
class RemoteNodes final : public Nodes {
 public:
  /// `front` outlives it. Throws InvalidArgument for a name that is not HOST:PORT.
  RemoteNodes(const RemoteNodesOptions& options, FrontServer& front);
  ~RemoteNodes() override;
  RemoteNodes(const RemoteNodes&) = delete;
  RemoteNodes& operator=(const RemoteNodes&) = delete;

  /// Waits until one of them is ready.
  void start() override;
  void stop(const Deadline& deadline) override;
  /// Nothing: the processes are not its own.
  void send(int signal) override;
  std::string metrics(const std::string& path) override;
  const NodeHistory& history() const override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::serving
