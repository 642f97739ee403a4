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

  /// The one with fewer requests in flight of two nodes that chance chooses, which counts one more
  /// from now on; not `other_than`. Null when there is none.
  std::shared_ptr<Node> choose(const Node* other_than);

  std::size_t size() const;
  bool contains(const Node& node) const;

 private:
  mutable std::mutex mutex_{};
  Random random_;
  std::vector<std::shared_ptr<Node>> nodes_{};
};

}  // namespace muster::serving
