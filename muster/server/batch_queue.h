#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "muster/base/wait.h"
#include "muster/server/servable.h"

namespace muster::server {

struct BatchOptions {
  /// Whether requests are joined at all.
  bool join = true;
  /// Rows that are joined into one batch at most. A single request may have more.
  std::int64_t max_batch_size = 64;
  /// How long the oldest request waits for others while a slot is free. Zero: never; requests are
  /// joined only while all slots are busy.
  std::chrono::microseconds delay{0};
  /// Requests that may wait in one queue; more are refused.
  std::size_t max_waiting = 1024;
  /// A batch is filled up to the next of these sizes, ascending, with copies of its first row.
  std::vector<std::int64_t> allowed_batch_sizes{};
  /// Whether a request of more rows than max_batch_size is refused, as TensorFlow Serving does it
  /// unless told to split.
  bool refuse_large = false;
  /// Requests of level 1 are computed before those of level 2, and so on; in the order of their
  /// arrival within a level.
  std::uint32_t priority_levels = 3;
  /// Of requests that name none, or one that is not there.
  std::uint32_t default_priority_level = 2;
};

/// How many batches are computed at one time, by all queues of a server together. Queues with work
/// take turns. Any thread may use it.
class ExecutionSlots {
 public:
  /// Zero: one per processor.
  explicit ExecutionSlots(std::size_t count);
  ~ExecutionSlots();
  ExecutionSlots(const ExecutionSlots&) = delete;
  ExecutionSlots& operator=(const ExecutionSlots&) = delete;

  std::size_t count() const;

 private:
  friend class BatchQueue;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// What became of a request.
struct BatchAnswer {
  Tensors outputs{};
  /// Rows of the batch that it was part of, without those that filled it up.
  std::int64_t batch_rows = 0;
  std::chrono::steady_clock::duration queued{};
  std::chrono::steady_clock::duration computed{};
};

/// The requests of one signature of one version. The thread of a request computes: with a free slot
/// at once, else when one becomes free, together with all requests that wait by then. There are no
/// other threads, so that a request alone costs no switch between any.
class BatchQueue {
 public:
  using Run = std::function<Tensors(const Tensors& inputs)>;

  /// `joinable`: each row of the outputs depends on the same row of the inputs alone, so requests
  /// may share a batch.
  BatchQueue(std::shared_ptr<ExecutionSlots> slots, BatchOptions options, bool joinable, Run run);
  /// No request may be in it.
  ~BatchQueue();
  BatchQueue(const BatchQueue&) = delete;
  BatchQueue& operator=(const BatchQueue&) = delete;

  /// Computes a request. Throws what `run` throws, for this request alone: a batch that fails is
  /// computed again one by one. Throws ResourceExhausted when too many wait that are not of a lower
  /// priority, of which the newest makes room, and DeadlineExceeded when the time is over, or is
  /// going to be by what batches take, before it was computed. `priority` is a level, 0 the
  /// default's.
  BatchAnswer run(const Tensors& inputs, const Deadline& deadline = Deadline::never(),
                  std::uint64_t priority = 0);

  /// Requests that wait now.
  std::size_t waiting() const;

 private:
  struct Ticket;
  struct Impl;
  std::unique_ptr<Impl> impl_;
  friend class ExecutionSlots;
};

/// Whether requests may be joined, going by the shapes that a signature declares: every input and
/// output has rows, and their number is open.
bool is_row_wise(const graph::SignatureDef& signature);

/// The number of rows that all inputs have; 1 where they have no dimension in common.
std::int64_t rows_of(const Tensors& inputs);

}  // namespace muster::server
