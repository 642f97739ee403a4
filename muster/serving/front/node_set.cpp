#include "muster/serving/front/node_set.h"

#include <arpa/inet.h>
#include <fmt/core.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace muster::serving {
namespace {

// Differences of less than this are of no interest, and a node that has answered nothing is as good
// as any.
constexpr Node::Clock::duration kFast = std::chrono::milliseconds(5);

// Until it has answered what it has and one more, as if it answered them one after the other.
double expected_time(const Node& node) {
  const Node::Clock::rep each = std::max(node.latency.load(), kFast.count());
  return static_cast<double>(node.in_flight + 1) * static_cast<double>(each);
}

}  // namespace

NodeAddress loopback_address(std::uint16_t port) {
  NodeAddress out{.text = fmt::format("127.0.0.1:{}", port), .length = sizeof(sockaddr_in)};
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  std::memcpy(&out.address, &address, sizeof address);
  return out;
}

void NodeSet::add(std::shared_ptr<Node> node) {
  const std::lock_guard lock(mutex_);
  if (std::ranges::find(nodes_, node) == nodes_.end()) nodes_.push_back(std::move(node));
}

void NodeSet::remove(const Node& node) {
  const std::lock_guard lock(mutex_);
  std::erase_if(nodes_, [&](const auto& one) { return one.get() == &node; });
}

std::shared_ptr<Node> NodeSet::choose(const Node* other_than) {
  const std::lock_guard lock(mutex_);
  // The one that is not wanted goes last, and is not drawn.
  std::size_t count = nodes_.size();
  const auto unwanted =
      std::ranges::find_if(nodes_, [&](const auto& one) { return one.get() == other_than; });
  if (unwanted != nodes_.end()) std::swap(*unwanted, nodes_[--count]);
  if (count == 0) return nullptr;
  const std::size_t first = random_.below(count);
  std::size_t chosen = first;
  if (count > 1) {
    std::size_t second = random_.below(count - 1);
    if (second >= first) ++second;
    if (expected_time(*nodes_[second]) < expected_time(*nodes_[first])) chosen = second;
  }
  ++nodes_[chosen]->in_flight;
  return nodes_[chosen];
}

std::size_t NodeSet::size() const {
  const std::lock_guard lock(mutex_);
  return nodes_.size();
}

bool NodeSet::contains(const Node& node) const {
  const std::lock_guard lock(mutex_);
  return std::ranges::any_of(nodes_, [&](const auto& one) { return one.get() == &node; });
}

}  // namespace muster::serving
