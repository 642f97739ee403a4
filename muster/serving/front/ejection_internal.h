#pragma once

#include <chrono>
#include <string>

#include "muster/serving/front/front_server.h"

namespace muster::serving {

/// Failed requests in a row that other nodes answered, after which a node gets none for a while.
inline constexpr int kMostStrikes = 3;

/// How long a node is kept from requests each time: longer and longer.
class EjectionPauses {
 public:
  std::chrono::milliseconds next();

 private:
  int count_ = 0;
};

struct Ejection {
  /// Without the node: "does not answer".
  std::string reason;
  /// Where the node is, for the log: "process=71".
  std::string detail;
  /// The node in the reason that requests are told: "node 2".
  std::string name;
  /// Whether requests in flight are failed, and sent elsewhere where that is safe.
  bool is_lost = false;
};

/// Keeps requests from a node, and says so in the log, the metrics, and to requests that wait.
void eject(FrontServer& front, Node& node, const Ejection& ejection);

}  // namespace muster::serving
