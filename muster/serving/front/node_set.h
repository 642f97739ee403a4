#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "muster/base/random.h"
#include "muster/serving/front/node.h"

namespace muster::serving {

/// The nodes that requests may go to. Any thread may call.
class NodeSet {
 public:
  explicit NodeSet(std::uint64_t seed) : random_(seed) {}

  void add(std::shared_ptr<Node> node);
  /// Nothing for a node that is not there.
  void remove(const Node& node);

  /// The one that will answer sooner of two nodes that chance chooses: by its requests in flight
  /// and how long each takes. It counts one more from now on. Not `other_than`; null when there is
  /// none.
  std::shared_ptr<Node> choose(const Node* other_than);

  std::size_t size() const;
  bool contains(const Node& node) const;

 private:
  mutable std::mutex mutex_{};
  Random random_;
  std::vector<std::shared_ptr<Node>> nodes_{};
};

}  // namespace muster::serving
