#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <utility>
#include <vector>

#include "muster/base/wait.h"
#include "muster/serving/core/batch_queue.h"

namespace muster::serving {

/// A request in a queue, and then its answer.
struct BatchTicket {
  Tensors inputs;
  Deadline deadline;
  std::uint64_t level = 0;
  BatchQueue::Done done{};
  std::int64_t rows = 1;
  bool joinable = false;
  std::chrono::steady_clock::time_point since{};
  BatchAnswer answer{};
  std::exception_ptr failure{};

  // Passes the failure or answer to `done`. Without the mutex: the callback may do anything.
  void finish() { done(std::move(answer), std::move(failure)); }
};

using BatchTickets = std::vector<std::unique_ptr<BatchTicket>>;

}  // namespace muster::serving
