#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <utility>

namespace muster {

/// The fixed order in which the values of replicas are added, wherever they are held: a binary tree
/// over the replica numbers [0, count) whose left part is the largest power of two below the count,
/// recursively. Since floating-point addition depends on the order, this is what makes the sum
/// independent of the layout.
///
/// Replicas may report in any order; two neighbouring parts are added as soon as both are there, so
/// that few values are held at a time. An absent replica is an absent leaf, not a zero.
template <typename T>
class TreeSum {
 public:
  /// `add(into, from)` adds `from` to `into`.
  using Add = std::function<void(T& into, T&& from)>;

  /// The replicas [first, second), which are a part of the tree.
  using Node = std::pair<std::int64_t, std::int64_t>;
  /// Sums of parts, or nothing where all of a part's replicas were absent.
  using Parts = std::map<Node, std::optional<T>>;

  TreeSum(std::int64_t replicas, Add add) : replicas_(replicas), add_(std::move(add)) {}

  void report(std::int64_t replica, std::optional<T> value) {
    if (value) ++present_;
    settle({replica, replica + 1}, std::move(value));
  }
  /// The sum of a part that another TreeSum made: one of its take_parts(). It does not count
  /// towards present().
  void report_part(const Node& part, std::optional<T> value) { settle(part, std::move(value)); }

  /// Whether all replicas have reported.
  bool complete() const { return held_.size() == 1 && is_root(held_.begin()->first); }
  /// How many had a value.
  std::int64_t present() const { return present_; }
  /// The sum, or nothing if all were absent. Only once, when complete.
  std::optional<T> take() { return std::move(held_.begin()->second); }
  /// The largest parts that the replicas which reported make up, for another TreeSum to continue
  /// with. Only once.
  Parts take_parts() { return std::move(held_); }
  /// Whether the replicas [first, second) are a part of the tree.
  static bool is_part(const Node& part, std::int64_t replicas) {
    Node node{0, replicas};
    while (node != part) {
      const std::int64_t middle = node.first + left_size(node.second - node.first);
      if (part.first < node.first || part.second > node.second || node.second - node.first <= 1) {
        return false;
      }
      node = part.second <= middle ? Node{node.first, middle} : Node{middle, node.second};
    }
    return true;
  }

 private:
  bool is_root(const Node& node) const { return node.first == 0 && node.second == replicas_; }

  static std::int64_t left_size(std::int64_t size) {
    std::int64_t left = 1;
    while (left * 2 < size) left *= 2;
    return left;
  }

  // The node that has `node` as a child, found from the root.
  Node parent_of(const Node& node) const {
    Node parent{0, replicas_};
    for (;;) {
      const std::int64_t middle = parent.first + left_size(parent.second - parent.first);
      const Node left{parent.first, middle};
      const Node right{middle, parent.second};
      if (left == node || right == node) return parent;
      parent = node.second <= middle ? left : right;
    }
  }

  void settle(Node node, std::optional<T> value) {
    while (!is_root(node)) {
      const Node parent = parent_of(node);
      const bool is_left = parent.first == node.first;
      const Node sibling =
          is_left ? Node{node.second, parent.second} : Node{parent.first, node.first};
      const auto found = held_.find(sibling);
      if (found == held_.end()) break;
      std::optional<T> other = std::move(found->second);
      held_.erase(found);
      if (!is_left) std::swap(value, other);
      if (value && other) {
        add_(*value, std::move(*other));
      } else if (other) {
        value = std::move(other);
      }
      node = parent;
    }
    held_.emplace(node, std::move(value));
  }

  std::int64_t replicas_;
  Add add_;
  Parts held_;
  std::int64_t present_ = 0;
};

}  // namespace muster
