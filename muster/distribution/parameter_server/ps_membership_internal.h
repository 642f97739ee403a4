#pragma once

#include <functional>
#include <utility>

#include "muster/distribution/membership/cluster_membership_internal.h"
#include "muster/distribution/parameter_server.h"
#include "muster/distribution/parameter_server/ps_servers_internal.h"

namespace muster::internal {

/// The tasks that train and the servers that hold the variables, whatever kind of servers: how a
/// task comes to the state of the run.
class PsMembership : public ClusterMembership {
 public:
  RunContract join(const RunContract& own) final;
  void synchronize() final;

  /// The participant outlives it.
  void attach(Participant& participant);
  /// Calls it when a generation is over, before the next begins.
  void on_end_of_generation(std::function<void()> call) { end_generation_ = std::move(call); }
  PsServers& servers() { return servers_; }

 protected:
  PsMembership(const RunConfig& config, const ParameterServerOptions& options)
      : ClusterMembership(config, options.peers), servers_(*this) {}

 private:
  /// How far the values of this task are, as others are to know it; -1 for no values.
  virtual Progress progress() const = 0;
  /// Whether the servers send this task their values at the beginning of a generation.
  virtual bool is_sent_state(const Source& source) const = 0;
  /// The terms of any run, with those that these servers must be told of besides.
  virtual RunContract terms_of_run(RunContract own) const = 0;
  /// Logs what the terms of the run mean for these servers.
  virtual void log_terms(const RunContract& /*terms*/) const {}

  bool join_state(const Source& source);

  PsServers servers_;
  std::function<void()> end_generation_;
  /// Whether it has been in a generation.
  bool was_in_run_ = false;
};

}  // namespace muster::internal
