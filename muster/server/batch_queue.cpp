#include "muster/server/batch_queue.h"

#include <fmt/core.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/base/thread_pool.h"

namespace muster::server {
namespace {

using Clock = std::chrono::steady_clock;
using graph::TensorValue;

// Rows of one input or output; nothing for a scalar.
std::optional<std::int64_t> rows_in(const TensorValue& tensor) {
  if (tensor.shape.empty()) return std::nullopt;
  return tensor.shape.front();
}

bool can_be_stacked(const TensorValue& a, const TensorValue& b) {
  return a.dtype == b.dtype && a.shape.size() == b.shape.size() && !a.shape.empty() &&
         std::equal(a.shape.begin() + 1, a.shape.end(), b.shape.begin() + 1);
}

bool can_be_joined(const Tensors& a, const Tensors& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    return x.first == y.first && can_be_stacked(x.second, y.second);
  });
}

void append_rows(const TensorValue& more, TensorValue& out) {
  out.bytes += more.bytes;
  out.strings.insert(out.strings.end(), more.strings.begin(), more.strings.end());
  out.shape.front() += more.shape.front();
}

TensorValue rows_between(const TensorValue& tensor, std::int64_t begin, std::int64_t end) {
  TensorValue part{.dtype = tensor.dtype, .shape = tensor.shape};
  part.shape.front() = end - begin;
  const auto rows = static_cast<std::size_t>(tensor.shape.front());
  const auto from = static_cast<std::size_t>(begin);
  const auto to = static_cast<std::size_t>(end);
  if (tensor.dtype == graph::DataType::kString) {
    const std::size_t each = rows == 0 ? 0 : tensor.strings.size() / rows;
    part.strings.assign(tensor.strings.begin() + static_cast<std::ptrdiff_t>(from * each),
                        tensor.strings.begin() + static_cast<std::ptrdiff_t>(to * each));
  } else {
    const std::size_t each = rows == 0 ? 0 : tensor.bytes.size() / rows;
    part.bytes = tensor.bytes.substr(from * each, (to - from) * each);
  }
  return part;
}

void repeat_first_row(TensorValue& tensor, std::int64_t times) {
  const TensorValue row = rows_between(tensor, 0, 1);
  for (std::int64_t i = 0; i < times; ++i) append_rows(row, tensor);
}

// The size to compute a batch of so many rows at.
std::int64_t filled_size(std::int64_t rows, const std::vector<std::int64_t>& allowed) {
  const auto found = std::ranges::lower_bound(allowed, rows);
  return found == allowed.end() ? rows : *found;
}

DeadlineExceeded late() {
  return DeadlineExceeded("Run() timeout exceeded while waiting in batching queue");
}

}  // namespace

bool is_row_wise(const graph::SignatureDef& signature) {
  const auto is_open = [](const auto& row) {
    const graph::Shape& shape = row.second.shape;
    return !row.second.sparse && !shape.unknown_rank && !shape.dims.empty() && shape.dims[0] == -1;
  };
  return !signature.inputs.empty() && !signature.outputs.empty() &&
         std::ranges::all_of(signature.inputs, is_open) &&
         std::ranges::all_of(signature.outputs, is_open);
}

std::int64_t rows_of(const Tensors& inputs) {
  std::optional<std::int64_t> rows;
  for (const auto& [name, tensor] : inputs) {
    const auto its_rows = rows_in(tensor);
    if (!its_rows || (rows && *rows != *its_rows)) return 1;
    rows = its_rows;
  }
  return rows.value_or(1);
}

struct BatchQueue::Ticket {
  const Tensors& inputs;
  const Deadline& deadline;
  std::uint64_t level = 0;
  std::int64_t rows = 1;
  bool joinable = false;
  Clock::time_point since{};
  // In a batch that is being computed: no longer waiting.
  bool taken = false;
  bool done = false;
  std::condition_variable changed{};
  BatchAnswer answer{};
  std::exception_ptr failure{};
};

struct ExecutionSlots::Impl {
  std::mutex mutex;
  std::size_t count = 1;
  std::size_t free = 1;
  // Those with waiting requests, the next in turn first.
  std::deque<BatchQueue::Impl*> turns;
};

struct BatchQueue::Impl {
  using Batch = std::vector<Ticket*>;

  std::shared_ptr<ExecutionSlots> slots;
  BatchOptions options;
  bool joinable;
  Run compute;
  // The rest is under the mutex of the slots.
  // By level, then by arrival.
  std::deque<Ticket*> waiting;
  std::int64_t waiting_rows = 0;
  // What batches take, as a moving average.
  Clock::duration usual{};

  ExecutionSlots::Impl& shared() const { return *slots->impl_; }

  // When the waiting requests are to be computed.
  Clock::time_point ready_at() const {
    if (waiting_rows >= options.max_batch_size) return Clock::time_point::min();
    if (options.delay == Clock::duration::zero()) return waiting.front()->since;
    const auto since = [](const Ticket* ticket) { return ticket->since; };
    return (*std::ranges::min_element(waiting, {}, since))->since + options.delay;
  }

  // Whether the time is over before a batch that has so many others before it is done, going by
  // what they take.
  bool is_too_late(const Ticket& ticket, Clock::time_point now, std::int64_t batches_before) {
    if (ticket.deadline.is_never()) return false;
    const auto slots_count = static_cast<std::int64_t>(shared().count);
    if (ticket.deadline.time() >= now + usual * (1 + batches_before / slots_count)) return false;
    // One slow batch is not to refuse requests for ever: the average must come down without any.
    if (ticket.deadline.time() > now) usual -= usual / 8;
    return true;
  }

  std::uint64_t level_of(std::uint64_t priority) const {
    return priority == 0 || priority > options.priority_levels ? options.default_priority_level
                                                               : priority;
  }

  // Batches that are computed before that of a request at this place.
  std::int64_t batches_before(std::deque<Ticket*>::iterator place) const {
    if (!joinable) return place - waiting.begin();
    std::int64_t rows = waiting_rows;
    for (auto behind = place; behind != waiting.end(); ++behind) rows -= (*behind)->rows;
    return rows / options.max_batch_size;
  }

  ResourceExhausted full() const {
    return ResourceExhausted(
        "The batch scheduling queue to which this task was submitted is full; currently {} "
        "requests wait and {} may. Try again later.",
        waiting.size(), options.max_waiting);
  }

  void enter(Ticket& ticket) {
    const auto level = [](const Ticket* other) { return other->level; };
    auto place = std::ranges::upper_bound(waiting, ticket.level, {}, level);
    if (is_too_late(ticket, ticket.since, batches_before(place))) throw late();
    if (waiting.size() >= options.max_waiting) {
      if (place == waiting.end()) throw full();
      refuse(*waiting.back(), full());
      place = std::ranges::upper_bound(waiting, ticket.level, {}, level);
    }
    waiting.insert(place, &ticket);
    waiting_rows += ticket.rows;
    if (waiting.size() == 1) shared().turns.push_back(this);
  }

  void leave(Ticket& ticket) {
    waiting.erase(std::find(waiting.begin(), waiting.end(), &ticket));
    waiting_rows -= ticket.rows;
    if (waiting.empty()) std::erase(shared().turns, this);
  }

  template <typename Failure>
  void refuse(Ticket& ticket, const Failure& failure) {
    leave(ticket);
    ticket.failure = std::make_exception_ptr(failure);
    finish(ticket);
  }

  // The requests of the next batch. Those that cannot be answered in time are refused here.
  Batch take() {
    Batch batch;
    std::int64_t rows = 0;
    const auto now = Clock::now();
    for (std::size_t i = 0; i < waiting.size();) {
      Ticket& ticket = *waiting[i];
      if (is_too_late(ticket, now, 0)) {
        refuse(ticket, late());
        continue;
      }
      const bool fits = batch.empty() || (batch.front()->joinable && ticket.joinable &&
                                          rows + ticket.rows <= options.max_batch_size &&
                                          can_be_joined(batch.front()->inputs, ticket.inputs));
      if (!fits) {
        ++i;
        continue;
      }
      leave(ticket);
      ticket.taken = true;
      ticket.answer.queued = now - ticket.since;
      batch.push_back(&ticket);
      rows += ticket.rows;
    }
    return batch;
  }

  static void finish(Ticket& ticket) {
    ticket.done = true;
    ticket.changed.notify_one();
  }

  // Without the mutex from here to compute_batch().
  void compute_one(Ticket& ticket) const {
    try {
      ticket.answer.outputs = compute(ticket.inputs);
      ticket.answer.batch_rows = ticket.rows;
    } catch (...) {
      ticket.failure = std::current_exception();
    }
  }

  // False when the outputs are not one row per row of the inputs.
  bool compute_joined(const Batch& batch, std::int64_t rows) const {
    Tensors joined = batch.front()->inputs;
    for (std::size_t i = 1; i < batch.size(); ++i) {
      for (auto& [name, tensor] : joined) append_rows(batch[i]->inputs.at(name), tensor);
    }
    const std::int64_t size = filled_size(rows, options.allowed_batch_sizes);
    for (auto& [name, tensor] : joined) repeat_first_row(tensor, size - rows);
    const Tensors outputs = compute(joined);
    const bool has_all_rows =
        std::ranges::all_of(outputs, [&](const auto& row) { return rows_in(row.second) == size; });
    if (!has_all_rows) return false;
    std::int64_t begin = 0;
    for (Ticket* ticket : batch) {
      for (const auto& [name, tensor] : outputs) {
        ticket->answer.outputs.emplace(name, rows_between(tensor, begin, begin + ticket->rows));
      }
      ticket->answer.batch_rows = rows;
      begin += ticket->rows;
    }
    return true;
  }

  // Whether the batch was computed as one.
  bool try_joined(const Batch& batch, std::int64_t rows) const {
    try {
      return compute_joined(batch, rows);
    } catch (const std::exception&) {
      // One of the requests is wrong, and only that one is to hear of it.
      return false;
    }
  }

  void compute_batch(const Batch& batch) const {
    std::int64_t rows = 0;
    for (const Ticket* ticket : batch) rows += ticket->rows;
    const bool fill = batch.front()->joinable && rows > 0 &&
                      filled_size(rows, options.allowed_batch_sizes) != rows;
    if ((batch.size() > 1 || fill) && try_joined(batch, rows)) return;
    for (Ticket* ticket : batch) {
      ticket->answer.outputs.clear();
      compute_one(*ticket);
    }
  }
};

namespace {

template <typename Shared>
auto next_ready(Shared& shared) {
  const auto now = Clock::now();
  return std::ranges::find_if(shared.turns,
                              [&](const auto* queue) { return queue->ready_at() <= now; });
}

template <typename Shared>
void wake_next(Shared& shared) {
  if (shared.free == 0) return;
  const auto queue = next_ready(shared);
  if (queue != shared.turns.end()) (*queue)->waiting.front()->changed.notify_one();
}

// Computes the batch of the queue whose turn it is, if one is ready and a slot is free.
template <typename Shared>
bool lead(Shared& shared, std::unique_lock<std::mutex>& lock) {
  if (shared.free == 0) return false;
  const auto ready = next_ready(shared);
  if (ready == shared.turns.end()) return false;
  auto* const queue = *ready;
  // The queue goes to the end of the line; take() removes it when nothing is left in it.
  shared.turns.erase(ready);
  shared.turns.push_back(queue);
  const auto batch = queue->take();
  if (batch.empty()) return true;
  --shared.free;
  wake_next(shared);
  lock.unlock();
  const auto begin = Clock::now();
  queue->compute_batch(batch);
  const auto computed = Clock::now() - begin;
  lock.lock();
  ++shared.free;
  queue->usual += (computed - queue->usual) / 8;
  for (auto* ticket : batch) {
    ticket->answer.computed = computed;
    queue->finish(*ticket);
  }
  wake_next(shared);
  return true;
}

}  // namespace

ExecutionSlots::ExecutionSlots(std::size_t count) : impl_(std::make_unique<Impl>()) {
  impl_->count = count > 0 ? count : ThreadPool::available_processors();
  impl_->free = impl_->count;
}
ExecutionSlots::~ExecutionSlots() = default;
std::size_t ExecutionSlots::count() const { return impl_->count; }

BatchQueue::BatchQueue(std::shared_ptr<ExecutionSlots> slots, BatchOptions options, bool joinable,
                       Run run)
    : impl_(std::make_unique<Impl>()) {
  if (options.max_batch_size < 1) {
    throw InvalidArgument("max_batch_size must be positive: {}", options.max_batch_size);
  }
  if (options.default_priority_level < 1 ||
      options.default_priority_level > options.priority_levels) {
    throw InvalidArgument("default_priority_level must be between 1 and priority_levels ({}): {}",
                          options.priority_levels, options.default_priority_level);
  }
  impl_->slots = std::move(slots);
  impl_->options = std::move(options);
  impl_->joinable = joinable && impl_->options.join;
  impl_->compute = std::move(run);
}
BatchQueue::~BatchQueue() = default;

std::size_t BatchQueue::waiting() const {
  const std::lock_guard lock(impl_->shared().mutex);
  return impl_->waiting.size();
}

BatchAnswer BatchQueue::run(const Tensors& inputs, const Deadline& deadline,
                            std::uint64_t priority) {
  Ticket ticket{.inputs = inputs,
                .deadline = deadline,
                .level = impl_->level_of(priority),
                .rows = rows_of(inputs)};
  ticket.joinable = impl_->joinable && !inputs.empty() && ticket.rows > 0 &&
                    std::ranges::all_of(inputs, [&](const auto& row) {
                      return rows_in(row.second) == ticket.rows;
                    });
  if (impl_->options.refuse_large && ticket.rows > impl_->options.max_batch_size) {
    throw InvalidArgument("Task size {} is larger than maximum input batch size {}", ticket.rows,
                          impl_->options.max_batch_size);
  }
  auto& shared = impl_->shared();
  std::unique_lock lock(shared.mutex);
  ticket.since = Clock::now();
  impl_->enter(ticket);
  while (!ticket.done) {
    if (ticket.taken) {
      ticket.changed.wait(lock);
      continue;
    }
    if (lead(shared, lock)) continue;
    if (deadline.expired()) {
      impl_->leave(ticket);
      throw late();
    }
    auto until = deadline.time();
    const auto ready = impl_->ready_at();
    if (ready > Clock::now()) until = std::min(until, ready);
    if (until == Clock::time_point::max()) {
      ticket.changed.wait(lock);
    } else {
      ticket.changed.wait_until(lock, until);
    }
  }
  lock.unlock();
  if (ticket.failure) std::rethrow_exception(ticket.failure);
  return std::move(ticket.answer);
}

}  // namespace muster::server
