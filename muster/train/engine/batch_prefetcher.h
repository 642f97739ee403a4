#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "muster/train/engine/input.h"

namespace muster {

/// One batch of an input ahead of the loop, taken and prepared in a thread of its own: for loops
/// that wait for something else in every step. Not a stage of the dataset, which its positions
/// would name: a run could then not resume in a layout without it.
class BatchPrefetcher {
 public:
  using Prepare = std::function<Batch(const Batch&)>;

  BatchPrefetcher(std::unique_ptr<Iterator<Batch>> input, Prepare prepare);
  /// Waits for the batch that is being taken.
  ~BatchPrefetcher();

  /// As the input's own, but prepared.
  std::optional<Batch> next();
  /// The place after the batch that next() gave last, and the input's own before the first. Throws
  /// FailedPrecondition where the input cannot be resumed.
  std::string save() const;

 private:
  struct Place {
    std::string position{};
    /// Why there is none, if so.
    std::string obstacle{};
  };
  /// An element that next() returns, and the position after it.
  struct Taken {
    std::optional<Batch> batch{};
    std::exception_ptr error{};
    Place place{};
  };

  void run();
  Taken take();
  Place ask(const Place& before) const;

  const std::unique_ptr<Iterator<Batch>> input_;
  const Prepare prepare_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Taken> ahead_;
  bool ends_ = false;
  /// Owned by the loop's thread.
  Place place_;
  /// Owned by `thread_`: the position after the element that it took last.
  Place last_;
  std::thread thread_;
};

}  // namespace muster
