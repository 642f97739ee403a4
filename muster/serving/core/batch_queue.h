#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "muster/base/wait.h"
#include "muster/serving/core/execution_slots.h"
#include "muster/serving/core/servable.h"

namespace muster::serving {

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
  /// Level of requests that name none, or one that does not exist.
  std::uint32_t default_priority_level = 2;
};

/// Outputs of a request, and how they were computed.
struct BatchAnswer {
  Tensors outputs{};
  /// Rows of the batch that it was part of, without those that filled it up.
  std::int64_t batch_rows = 0;
  std::chrono::steady_clock::duration queued{};
  std::chrono::steady_clock::duration computed{};
};

/// The requests of one signature of one version. No thread waits for one: a request that enters is
/// left to the event loop, after what is ready there, so that requests which are read at the same
/// time share a batch. Whichever thread of the loop comes to it computes all that wait by then, and
/// says so to each of them; a batch that takes long is computed in another thread, so that the
/// loop reads on.
class BatchQueue {
 public:
  /// Computes a batch. ComputeDeadline::current() is the latest deadline of its requests.
  using Run = std::function<Tensors(const Tensors& inputs)>;
  /// Either an answer or a failure. It must not throw.
  using Done = std::function<void(BatchAnswer answer, std::exception_ptr failure)>;

  /// `joinable`: each row of the outputs depends on the same row of the inputs alone, so requests
  /// may share a batch. Queues of the same `model` have one part of the slots; without a name a
  /// queue has its own.
  BatchQueue(std::shared_ptr<ExecutionSlots> slots, BatchOptions options, bool joinable, Run run,
             const std::string& model = "");
  /// No request may be in it: `done` of each has been called.
  ~BatchQueue();
  BatchQueue(const BatchQueue&) = delete;
  BatchQueue& operator=(const BatchQueue&) = delete;

  /// Begins to compute a request. `done` is called once, in the thread that computed the batch, or
  /// at once with a refusal; the queue is not used after that. Failures are what `run` throws, for
  /// this request alone: a batch that fails is computed again one by one; ResourceExhausted when
  /// too many wait that are not of a lower priority, of which the newest makes room, or when the
  /// time would be over before their turn; and DeadlineExceeded when it is over, or is going to be
  /// by what a batch takes. `priority` is a level, 0 the default's.
  void start(Tensors inputs, const Deadline& deadline, std::uint64_t priority, Done done);

  /// Computes a request and waits for it, and throws such failures. With a free slot the calling
  /// thread computes.
  BatchAnswer run(const Tensors& inputs, const Deadline& deadline = Deadline::never(),
                  std::uint64_t priority = 0);

  /// Requests that wait now.
  std::size_t waiting() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
  friend class ExecutionSlots;
};

/// Whether requests may be joined, going by the shapes that a signature declares: every input and
/// output has rows, and their number is open.
bool is_row_wise(const graph::SignatureDef& signature);

/// The number of rows that all inputs have; 1 where they have no dimension in common.
std::int64_t rows_of(const Tensors& inputs);

}  // namespace muster::serving
