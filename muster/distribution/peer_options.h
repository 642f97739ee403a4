#pragma once

#include <string>

namespace muster {

/// How the tasks of a run know each other.
struct PeerOptions {
  /// Tasks prove with it that they belong to the run; empty takes MUSTER_SECRET, or none.
  std::string secret{};
  /// Tells runs of one cluster apart; empty takes MUSTER_RUN_ID, or the chief's address.
  std::string run_id{};
};

}  // namespace muster
