#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

namespace muster::serving {

class BlockingPool;
class EventLoop;

/// Weights by the name of a model: one of weight 2 has twice the part of one of weight 1, which is
/// that of models without.
using ModelWeights = std::map<std::string, std::uint32_t, std::less<>>;

/// How many batches are computed at one time, in the threads of an event loop and, where that takes
/// long, in others. The models in demand share the slots by their weights: one whose batches take
/// long has its part of them, one at least, and never those of another; one whose batches are short
/// gives them back at once, and may have all. Queues of a model with work take turns. Any thread
/// may use it.
class ExecutionSlots {
 public:
  /// Called before a batch, in the thread that computes it, with how many share the processors: the
  /// batches of its model at work, times the models in demand (by their weights, rounded up), and
  /// the threads that read, as one more, where requests wait. A short batch beside a long one of
  /// another model is to have one.
  using Divide = std::function<void(std::size_t parts)>;

  /// Zero: one per processor. Without a loop it has one of its own. Throws InvalidArgument for a
  /// weight that is not 1 to 1000.
  explicit ExecutionSlots(std::size_t count, std::shared_ptr<EventLoop> loop = nullptr,
                          Divide divide = nullptr, ModelWeights weights = {});
  /// None of the loop's threads may call it.
  ~ExecutionSlots();
  ExecutionSlots(const ExecutionSlots&) = delete;
  ExecutionSlots& operator=(const ExecutionSlots&) = delete;

  std::size_t count() const;

 private:
  friend class BatchQueue;
  struct Impl;
  // In this order: what the slots use goes after them.
  std::shared_ptr<EventLoop> loop_;
  std::shared_ptr<Impl> impl_;
  std::unique_ptr<BlockingPool> threads_;
  std::unique_ptr<BlockingPool> background_;
};

}  // namespace muster::serving
