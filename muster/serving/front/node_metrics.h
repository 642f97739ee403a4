#pragma once

#include <atomic>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "muster/serving/front/front_server.h"
#include "muster/serving/front/joined_metrics.h"

namespace muster::serving {

/// The metrics of all nodes, asked for when they are read, and now and then so that little is
/// lost with a node that is killed. Any thread may call it.
class NodeMetrics {
 public:
  NodeMetrics() : pages_(std::make_shared<Pages>()) {}

  /// Asks a node for the pages that have been read before, and returns at once: how many of the
  /// answers are still to come.
  std::shared_ptr<const std::atomic<std::size_t>> refresh(FrontServer& front,
                                                          const std::shared_ptr<Node>& node);
  /// Asks all of them for this page, and joins their answers and what is known of those that do not
  /// answer by the deadline.
  std::string page(FrontServer& front, const std::vector<std::shared_ptr<Node>>& nodes,
                   const std::string& path, const Deadline& deadline);
  /// Sum of a sample of /metrics over all nodes, as they were last asked.
  double total(std::string_view sample) const;
  /// The node is gone.
  void retire(const Node& node);

 private:
  // Answers come by a thread of the front's loop, and may come late.
  struct Pages {
    std::mutex mutex{};
    std::map<std::string, JoinedMetrics> by_path{{"/metrics", {}}};
    std::set<int> retired{};
    void update(const std::string& path, int node, const FrontServer::Reply& reply);
  };
  const std::shared_ptr<Pages> pages_;
};

}  // namespace muster::serving
