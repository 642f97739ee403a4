#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "muster/distribution/membership/cluster_membership_internal.h"
#include "muster/distribution/parameter_server/ps_layout_internal.h"
#include "muster/distribution/parameter_server/ps_values_internal.h"
#include "muster/distribution/parameter_server/server_parts_internal.h"

namespace muster::internal {

/// The servers of a run, as a task that trains speaks with them: what each holds of the variables,
/// and what it answers.
class PsServers {
 public:
  /// The membership outlives it.
  explicit PsServers(ClusterMembership& membership) : membership_(membership) {}

  /// Called once, before anything else. The participant outlives it.
  void attach(const Participant& participant);

  const Variables& variables() const { return *variables_; }
  const PsLayout& layout() const { return *layout_; }
  /// The parts of a checkpoint that servers write.
  const ServerParts& parts() const { return *parts_; }
  std::size_t count() const { return layout_->servers(); }
  std::size_t rank(std::size_t server) const { return group().plan().trainers + server; }
  const std::string& name(std::size_t server) const {
    return group().plan().members[rank(server)].task;
  }
  /// Sends it a message.
  template <typename Message>
  void send(std::size_t server, const Message& message) const {
    group().send(rank(server), message);
  }

  /// The server's next answer, with these buffers or none; nothing when the run has ended.
  std::optional<Values> take_answer(std::size_t server, const std::string& what,
                                    const std::vector<at::Tensor>& buffers);
  /// One from every server, written to the variables when all are there.
  std::optional<std::vector<Values>> take_answers(const std::string& what,
                                                  const std::vector<at::Tensor>& buffers);
  /// The part of an answer that a task resumes from.
  static RunSnapshot snapshot_of(const Values& values);
  /// Takes the state of all servers into the variables; nothing when the run has ended.
  std::optional<RunSnapshot> take_state();

  void ask_for_slots(bool without_parts = false);
  void take_slots();
  /// `without_parts` as it was asked for.
  void take_slots_of(std::size_t server, bool without_parts = false);
  /// Whether the server has any that are not empty.
  bool has_slots(std::size_t server) const;

 private:
  Group& group() const { return membership_.group(); }

  ClusterMembership& membership_;
  const Variables* variables_ = nullptr;
  std::optional<PsLayout> layout_;
  std::optional<ServerParts> parts_;
};

}  // namespace muster::internal
