#pragma once

#include <string>

namespace muster {

/// How the tasks of a run know each other.
struct PeerOptions {
  /// Tasks prove with it that they belong to the run; empty takes MUSTER_SECRET, or none.
  std::string secret{};
  /// Without a secret a task listens only where no other machine reaches it, and refuses an address
  /// that others reach. True, or MUSTER_LISTEN_WITHOUT_SECRET=1: it listens there for anybody.
  bool listen_without_secret = false;
  /// Tells runs of one cluster apart; empty takes MUSTER_RUN_ID, or the chief's address.
  std::string run_id{};
};

}  // namespace muster
