#include "muster/serving/core/batch_queue.h"

#include <fmt/core.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <iterator>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "muster/base/compute_deadline.h"
#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/base/thread_pool.h"
#include "muster/serving/core/batch_times.h"
#include "muster/serving/listener/blocking_pool.h"
#include "muster/serving/listener/event_loop.h"

namespace muster::serving {
namespace {

using Clock = std::chrono::steady_clock;
using graph::TensorValue;

// A batch that usually takes longer does not belong into a thread that reads: by itself, or where
// there are more behind it.
constexpr std::chrono::microseconds kLong{1000};
constexpr std::chrono::microseconds kLongWhenBehind{100};
// A model that was asked within this time is in demand: the others leave it a part of the slots and
// processors.
constexpr std::chrono::milliseconds kInDemand{10};
// More models than slots may each have a long batch at work, up to so many more.
constexpr std::size_t kMoreThreads = 64;
// Of threads with long batches where there are other models: they get a quarter of a processor
// that both want, and all that the others leave. With more, other programs of a busy host would
// keep them from being computed.
constexpr int kLongNiceness = 5;

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

// Elements of one kind that a row has.
template <typename Elements>
std::size_t elements_per_row(const Elements& elements, std::int64_t rows) {
  return rows == 0 ? 0 : elements.size() / static_cast<std::size_t>(rows);
}

// Rows of a tensor that is not needed any more; its strings are moved.
TensorValue taken_rows(TensorValue& tensor, std::int64_t begin, std::int64_t end) {
  TensorValue part{.dtype = tensor.dtype, .shape = tensor.shape};
  part.shape.front() = end - begin;
  const std::int64_t rows = tensor.shape.front();
  const auto from = static_cast<std::size_t>(begin);
  const auto to = static_cast<std::size_t>(end);
  if (tensor.dtype == graph::DataType::kString) {
    const std::size_t each = elements_per_row(tensor.strings, rows);
    const auto first = tensor.strings.begin();
    part.strings.assign(std::make_move_iterator(first + static_cast<std::ptrdiff_t>(from * each)),
                        std::make_move_iterator(first + static_cast<std::ptrdiff_t>(to * each)));
  } else {
    const std::size_t each = elements_per_row(tensor.bytes, rows);
    part.bytes = tensor.bytes.substr(from * each, (to - from) * each);
  }
  return part;
}

void repeat_first_row(TensorValue& tensor, std::int64_t times) {
  const std::int64_t rows = tensor.shape.front();
  const std::string bytes = tensor.bytes.substr(0, elements_per_row(tensor.bytes, rows));
  const auto each = static_cast<std::ptrdiff_t>(elements_per_row(tensor.strings, rows));
  const std::vector<std::string> strings(tensor.strings.begin(), tensor.strings.begin() + each);
  for (std::int64_t i = 0; i < times; ++i) {
    tensor.bytes += bytes;
    tensor.strings.insert(tensor.strings.end(), strings.begin(), strings.end());
  }
  tensor.shape.front() += times;
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
  Tensors inputs;
  Deadline deadline;
  std::uint64_t level = 0;
  Done done{};
  std::int64_t rows = 1;
  bool joinable = false;
  Clock::time_point since{};
  BatchAnswer answer{};
  std::exception_ptr failure{};

  // Its failure or answer goes to whoever waits for it. Without the mutex: it may do anything.
  void finish() { done(std::move(answer), std::move(failure)); }
};

struct ExecutionSlots::Impl : std::enable_shared_from_this<ExecutionSlots::Impl> {
  using Tickets = std::vector<std::unique_ptr<BatchQueue::Ticket>>;

  /// What a thread of the loop does between two looks at its sockets.
  struct Turn {
    // It was told to lead, and has not begun.
    bool is_lead_coming = false;
    // Requests that it has read.
    std::size_t requests = 0;
    // Whether there was no more than one in its last.
    bool was_for_one = false;
  };

  /// What a model has of the slots.
  struct Share {
    std::size_t running = 0;
    Clock::time_point asked = Clock::time_point::min();
    bool is_in_demand = false;
  };

  std::size_t count = 1;
  ExecutionSlots::Divide divide{};
  EventLoop* loop = nullptr;
  // For batches that take too long for the loop's threads.
  BlockingPool* threads = nullptr;
  // And that others are to preempt.
  BlockingPool* background = nullptr;
  std::optional<EventLoop::Timer> timer{};

  std::mutex mutex{};
  // The rest is under the mutex.
  std::map<std::string, std::weak_ptr<Share>> shares{};
  std::vector<std::shared_ptr<Share>> in_demand{};
  // Batches at work that take long, and those in threads beside the loop's.
  std::size_t slow_running = 0;
  std::size_t running_beside = 0;
  // Those with waiting requests, the next in turn first.
  std::deque<BatchQueue::Impl*> turns{};
  // By thread of the loop; the last: whichever comes.
  std::vector<Turn> loop_turns{};
  // When the timer is going to look for what is late or ready.
  Clock::time_point timer_at = Clock::time_point::max();

  std::shared_ptr<Share> share_of(const std::string& model);
  void note_demand(const std::shared_ptr<Share>& share, Clock::time_point now);
  void call_lead(bool wake);
  bool is_alone();
  void lead_in_loop();
  bool lead(BatchQueue::Impl* queue);
  void look_at_times();
  void wake_at(Clock::time_point time);

 private:
  /// A batch that has its slot.
  struct Work {
    BatchQueue::Impl* queue = nullptr;
    std::shared_ptr<Share> share{};
    Tickets batch{};
    // Whether it takes long, and whether it is not for a thread of the loop.
    bool is_slow = false;
    bool is_beside = false;
    bool is_in_background = false;
    // That share the processors with it, itself among them.
    std::size_t parts = 1;
  };

  using Place = std::deque<BatchQueue::Impl*>::iterator;

  std::size_t models_in_demand(Clock::time_point now);
  bool may_begin(const BatchQueue::Impl& queue, Clock::time_point now);
  Place next_ready();
  bool is_for_background(const BatchQueue::Impl& queue, Clock::time_point now);
  Place next_beside(bool in_background);
  void take(Work& work, Place place, Tickets& refusals);
  bool take_one(Work& work, BatchQueue::Impl* only);
  void compute(Work& work);
  void count_in(Work& work, Clock::time_point now);
  void count_out(const Work& work);
  void give_slot(const Work& work);
  bool take_next(Work& work);
  void end_turn(std::size_t place);
};

struct BatchQueue::Impl {
  using Batch = ExecutionSlots::Impl::Tickets;

  std::shared_ptr<ExecutionSlots> slots;
  BatchOptions options{};
  bool joinable = false;
  Run compute{};
  std::shared_ptr<ExecutionSlots::Impl::Share> share{};
  // The rest is under the mutex of the slots.
  // By level, then by arrival.
  std::deque<std::unique_ptr<Ticket>> waiting{};
  std::int64_t waiting_rows = 0;
  BatchTimes times{slots->count()};

  ExecutionSlots::Impl& shared() const { return *slots->impl_; }

  // When the waiting requests are to be computed.
  Clock::time_point ready_at() const {
    if (waiting_rows >= options.max_batch_size || options.delay == Clock::duration::zero()) {
      return Clock::time_point::min();
    }
    const auto since = [](const auto& ticket) { return ticket->since; };
    return (*std::ranges::min_element(waiting, {}, since))->since + options.delay;
  }

  // Whether the time is over before the request is computed, if it begins now or so much later.
  bool is_too_late(const Ticket& ticket, Clock::time_point now, Clock::duration later = {}) const {
    if (ticket.deadline.is_never()) return false;
    return ticket.deadline.time() < now + later + times.of_one(now);
  }

  std::uint64_t level_of(std::uint64_t priority) const {
    return priority == 0 || priority > options.priority_levels ? options.default_priority_level
                                                               : priority;
  }

  std::unique_ptr<Ticket> ticket_of(Tensors inputs, const Deadline& deadline,
                                    std::uint64_t priority, Done done) const {
    auto ticket = std::make_unique<Ticket>(
        Ticket{std::move(inputs), deadline, level_of(priority), std::move(done)});
    ticket->rows = rows_of(ticket->inputs);
    ticket->joinable = joinable && !ticket->inputs.empty() && ticket->rows > 0 &&
                       std::ranges::all_of(ticket->inputs, [&](const auto& row) {
                         return rows_in(row.second) == ticket->rows;
                       });
    ticket->since = Clock::now();
    return ticket;
  }

  // Batches that are computed before that of a request at this place.
  std::int64_t batches_before(std::ptrdiff_t place) const {
    if (!joinable) return place;
    std::int64_t rows = waiting_rows;
    for (auto i = static_cast<std::size_t>(place); i < waiting.size(); ++i)
      rows -= waiting[i]->rows;
    return rows / options.max_batch_size;
  }

  ResourceExhausted full() const {
    return ResourceExhausted(
        "The batch scheduling queue to which this task was submitted is full; currently {} "
        "requests wait and {} may. Try again later.",
        waiting.size(), options.max_waiting);
  }

  ResourceExhausted full_for(Clock::duration time) const {
    return ResourceExhausted(
        "The batch scheduling queue to which this task was submitted is full; currently {} "
        "requests wait, which takes {:.0f} ms, and the deadline of this one is before that. Try "
        "again later.",
        waiting.size(), std::chrono::duration<double, std::milli>(time).count());
  }

  // Behind all of its level.
  std::ptrdiff_t place_of(std::uint64_t level) const {
    // Mostly the last: the others are not looked at, which other threads have made.
    if (waiting.empty() || waiting.back()->level <= level) return std::ssize(waiting);
    const auto level_of_ticket = [](const auto& ticket) { return ticket->level; };
    return std::ranges::upper_bound(waiting, level, {}, level_of_ticket) - waiting.begin();
  }

  // One of two is refused: this one, or the newest of a lower priority. Nothing when all may wait.
  std::unique_ptr<Ticket> enter(std::unique_ptr<Ticket> ticket) {
    const std::ptrdiff_t place = place_of(ticket->level);
    if (options.refuse_large && ticket->rows > options.max_batch_size) {
      const InvalidArgument failure("Task size {} is larger than maximum input batch size {}",
                                    ticket->rows, options.max_batch_size);
      return refused(std::move(ticket), failure);
    }
    if (is_too_late(*ticket, ticket->since)) return refused(std::move(ticket), late());
    const auto wait = times.until_begun(batches_before(place), ticket->since);
    if (is_too_late(*ticket, ticket->since, wait)) {
      return refused(std::move(ticket), full_for(wait));
    }
    std::unique_ptr<Ticket> dropped;
    if (waiting.size() >= options.max_waiting) {
      if (place == std::ssize(waiting)) return refused(std::move(ticket), full());
      dropped = refused(std::move(waiting.back()), full());
      waiting_rows -= dropped->rows;
      waiting.pop_back();
    }
    if (waiting.empty()) shared().turns.push_back(this);
    shared().note_demand(share, ticket->since);
    waiting_rows += ticket->rows;
    shared().wake_at(ticket->deadline.time());
    if (options.delay > Clock::duration::zero()) {
      shared().wake_at(ticket->since + options.delay);
    }
    waiting.insert(waiting.begin() + place, std::move(ticket));
    return dropped;
  }

  template <typename Failure>
  static std::unique_ptr<Ticket> refused(std::unique_ptr<Ticket> ticket, const Failure& failure) {
    ticket->failure = std::make_exception_ptr(failure);
    return ticket;
  }

  std::unique_ptr<Ticket> take_out(std::unique_ptr<Ticket>& place) {
    waiting_rows -= place->rows;
    return std::move(place);
  }

  // Closes the gaps that take_out() has left among the first so many. Those behind them are not
  // touched: under overload there are many, and other threads have made them.
  void close_gaps(std::size_t count) {
    const auto begin = waiting.begin();
    const auto is_gap = [](const auto& place) { return place == nullptr; };
    const auto kept =
        std::remove_if(std::make_reverse_iterator(begin + static_cast<std::ptrdiff_t>(count)),
                       std::make_reverse_iterator(begin), is_gap);
    waiting.erase(begin, kept.base());
    if (!waiting.empty()) return;
    std::erase(shared().turns, this);
    times.nothing_waits();
  }

  // The requests of the next batch. Those before it that cannot be answered in time are refused.
  Batch take(Batch& refusals) {
    Batch batch;
    std::int64_t rows = 0;
    const auto now = Clock::now();
    std::size_t seen = 0;
    for (; seen < waiting.size(); ++seen) {
      std::unique_ptr<Ticket>& ticket = waiting[seen];
      if (is_too_late(*ticket, now)) {
        refusals.push_back(refused(take_out(ticket), late()));
        continue;
      }
      if (!batch.empty()) {
        const Ticket& first = *batch.front();
        if (!first.joinable || rows + ticket->rows > options.max_batch_size) break;
        if (!ticket->joinable || !can_be_joined(first.inputs, ticket->inputs)) continue;
      }
      ticket->answer.queued = now - ticket->since;
      rows += ticket->rows;
      batch.push_back(take_out(ticket));
    }
    close_gaps(seen);
    if (!batch.empty()) times.begin(now, /*others_wait=*/!waiting.empty());
    return batch;
  }

  void take_late(Clock::time_point now, Batch& refusals) {
    for (std::unique_ptr<Ticket>& ticket : waiting) {
      if (ticket->deadline.time() > now) continue;
      refusals.push_back(refused(take_out(ticket), late()));
    }
    close_gaps(waiting.size());
  }

  // The next batch takes, or may take, long.
  bool is_slow(Clock::time_point now) const { return times.may_take(kLong, now); }

  // A thread of the loop that computes such a batch would keep others waiting for it, or a slot
  // waiting for the thread, which has to read between two batches.
  bool is_beside(Clock::time_point now) const {
    const bool is_behind = batches_before(std::ssize(waiting)) > 0;
    return times.may_take(is_behind ? Clock::duration(kLongWhenBehind) : kLong, now);
  }

  // Without the mutex from here on.
  void compute_one(Ticket& ticket) const {
    try {
      const ComputeDeadline scope(ticket.deadline);
      ticket.answer.outputs = compute(ticket.inputs);
      ticket.answer.batch_rows = ticket.rows;
    } catch (...) {
      ticket.failure = std::current_exception();
    }
  }

  // Room for all rows of the requests.
  static Tensors room_for(const Batch& batch, std::int64_t rows) {
    Tensors joined;
    joined.reserve(batch.front()->inputs.size());
    for (const auto& [name, first] : batch.front()->inputs) {
      TensorValue& all = joined.emplace(name, TensorValue()).first->second;
      all.dtype = first.dtype;
      all.shape = first.shape;
      all.shape.front() = rows;
      const auto count = static_cast<std::size_t>(rows);
      all.bytes.reserve(count * elements_per_row(first.bytes, first.shape.front()));
      all.strings.reserve(count * elements_per_row(first.strings, first.shape.front()));
    }
    return joined;
  }

  // Moves strings. Nothing can fail in it: there is room.
  static void join_inputs(const Batch& batch, Tensors& joined) {
    for (const auto& ticket : batch) {
      auto all = joined.begin();
      for (auto& [name, tensor] : ticket->inputs) {
        all->second.bytes += tensor.bytes;
        std::ranges::move(tensor.strings, std::back_inserter(all->second.strings));
        ++all;
      }
    }
  }

  static void give_back_strings(Tensors joined, const Batch& batch) {
    std::int64_t begin = 0;
    for (const auto& ticket : batch) {
      auto all = joined.begin();
      for (auto& [name, tensor] : ticket->inputs) {
        if (tensor.dtype == graph::DataType::kString) {
          tensor = taken_rows(all->second, begin, begin + ticket->rows);
        }
        ++all;
      }
      begin += ticket->rows;
    }
  }

  // False when the outputs are not one row per row of the inputs.
  bool compute_joined(const Tensors& joined, std::int64_t size, const Batch& batch,
                      std::int64_t rows) const {
    Tensors outputs = compute(joined);
    const bool has_all_rows =
        std::ranges::all_of(outputs, [&](const auto& row) { return rows_in(row.second) == size; });
    if (!has_all_rows) return false;
    std::int64_t begin = 0;
    for (const auto& ticket : batch) {
      Tensors& its = ticket->answer.outputs;
      its.reserve(outputs.size());
      for (auto& [name, tensor] : outputs) {
        its.emplace(name, taken_rows(tensor, begin, begin + ticket->rows));
      }
      ticket->answer.batch_rows = rows;
      begin += ticket->rows;
    }
    return true;
  }

  static Deadline latest_deadline(const Batch& batch) {
    const auto time_of = [](const auto& ticket) { return ticket->deadline.time(); };
    return Deadline::at(time_of(*std::ranges::max_element(batch, {}, time_of)));
  }

  // Whether the batch was computed as one.
  bool try_joined(const Batch& batch, std::int64_t rows) const {
    const std::int64_t size = filled_size(rows, options.allowed_batch_sizes);
    Tensors joined = room_for(batch, rows);
    join_inputs(batch, joined);
    bool is_whole = false;
    try {
      for (auto& [name, tensor] : joined) repeat_first_row(tensor, size - rows);
      const ComputeDeadline scope(latest_deadline(batch));
      is_whole = compute_joined(joined, size, batch, rows);
    } catch (const std::exception&) {
      // One of the requests is wrong, and only that one is to hear of it.
      is_whole = false;
    }
    if (!is_whole) give_back_strings(std::move(joined), batch);
    return is_whole;
  }

  void compute_batch(const Batch& batch) const {
    std::int64_t rows = 0;
    for (const auto& ticket : batch) rows += ticket->rows;
    const bool fill = batch.front()->joinable && rows > 0 &&
                      filled_size(rows, options.allowed_batch_sizes) != rows;
    if ((batch.size() > 1 || fill) && try_joined(batch, rows)) return;
    for (const auto& ticket : batch) {
      ticket->answer.outputs.clear();
      compute_one(*ticket);
    }
  }
};

std::shared_ptr<ExecutionSlots::Impl::Share> ExecutionSlots::Impl::share_of(
    const std::string& model) {
  if (model.empty()) return std::make_shared<Share>();
  const std::lock_guard lock(mutex);
  std::erase_if(shares, [](const auto& row) { return row.second.expired(); });
  std::weak_ptr<Share>& kept = shares[model];
  auto share = kept.lock();
  if (!share) kept = share = std::make_shared<Share>();
  return share;
}

// Under the mutex.
void ExecutionSlots::Impl::note_demand(const std::shared_ptr<Share>& share, Clock::time_point now) {
  share->asked = now;
  if (!std::exchange(share->is_in_demand, true)) in_demand.push_back(share);
}

// Under the mutex.
std::size_t ExecutionSlots::Impl::models_in_demand(Clock::time_point now) {
  std::erase_if(in_demand, [&](const std::shared_ptr<Share>& share) {
    share->is_in_demand = share->running > 0 || now - share->asked <= kInDemand;
    return !share->is_in_demand;
  });
  return std::max<std::size_t>(in_demand.size(), 1);
}

// Whether the batch of a queue that is in turn has waited for others as long as it should, and its
// model has a slot for it. Under the mutex.
bool ExecutionSlots::Impl::may_begin(const BatchQueue::Impl& queue, Clock::time_point now) {
  if (queue.ready_at() > now) return false;
  const std::size_t running = queue.share->running;
  if (running == 0) return running_beside < count + kMoreThreads || !queue.is_beside(now);
  if (running >= count) return false;
  return !queue.is_slow(now) || running < count / models_in_demand(now);
}

// Under the mutex.
ExecutionSlots::Impl::Place ExecutionSlots::Impl::next_ready() {
  if (turns.empty()) return turns.end();
  const auto now = Clock::now();
  return std::ranges::find_if(
      turns, [&](const BatchQueue::Impl* queue) { return may_begin(*queue, now); });
}

// Whether a batch takes long, and may come to be beside those of another model. Under the mutex.
bool ExecutionSlots::Impl::is_for_background(const BatchQueue::Impl& queue, Clock::time_point now) {
  return shares.size() > 1 && queue.is_slow(now);
}

// The next that is not for a thread of the loop, but for one like that which asks. Under the mutex.
ExecutionSlots::Impl::Place ExecutionSlots::Impl::next_beside(bool in_background) {
  const auto now = Clock::now();
  return std::ranges::find_if(turns, [&](const BatchQueue::Impl* queue) {
    return queue->is_beside(now) && is_for_background(*queue, now) == in_background &&
           may_begin(*queue, now);
  });
}

// Has the loop lead, if there is something to compute and a slot for it. `wake`: in another thread
// than this one; else behind what this one has to do. Under the mutex.
void ExecutionSlots::Impl::call_lead(bool wake) {
  if (loop == nullptr || next_ready() == turns.end()) return;
  const std::size_t anyone = loop_turns.size() - 1;
  const std::size_t place = wake ? anyone : loop->this_thread().value_or(anyone);
  if (std::exchange(loop_turns[place].is_lead_coming, true)) return;
  const auto begin = [weak = weak_from_this(), place] {
    const auto self = weak.lock();
    if (!self) return;
    self->end_turn(place);
    self->lead_in_loop();
  };
  if (place == anyone) {
    loop->post(begin);
  } else {
    loop->defer(begin);
  }
}

void ExecutionSlots::Impl::end_turn(std::size_t place) {
  const std::lock_guard lock(mutex);
  Turn& turn = loop_turns[place];
  turn = {.was_for_one = turn.requests <= 1};
}

// Whether a request that this thread has just read is likely to be the only one of its turn, as in
// the last: then it need not wait for others to be read. Under the mutex.
bool ExecutionSlots::Impl::is_alone() {
  const auto place = loop == nullptr ? std::nullopt : loop->this_thread();
  if (!place) return false;
  Turn& turn = loop_turns[*place];
  return ++turn.requests == 1 && turn.was_for_one;
}

void ExecutionSlots::Impl::lead_in_loop() {
  Work work;
  if (!take_one(work, nullptr) || work.batch.empty()) return;
  if (!work.is_beside) {
    compute(work);
    return give_slot(work);
  }
  const auto kept = std::make_shared<Work>(std::move(work));
  const std::lock_guard lock(mutex);
  // The threads go after the last request, so they are there. One goes on as long as there is more:
  // the loop may have much to read before it comes to it.
  BlockingPool& its_threads = kept->is_in_background ? *background : *threads;
  its_threads.run([self = shared_from_this(), kept] {
    do {
      self->compute(*kept);
    } while (self->take_next(*kept));
  });
}

// Computes a batch of this queue, and says so to its requests. False when it is not ready, or no
// slot is free. Not of others: the thread may be one of lower priority, which loads a version.
bool ExecutionSlots::Impl::lead(BatchQueue::Impl* queue) {
  Work work;
  if (!take_one(work, queue)) return false;
  if (work.batch.empty()) return true;
  compute(work);
  give_slot(work);
  return true;
}

// Takes the batch of the queue at this place; none where all of it came too late. Under the mutex.
void ExecutionSlots::Impl::take(Work& work, Place place, Tickets& refusals) {
  const auto now = Clock::now();
  work.queue = *place;
  work.share = work.queue->share;
  // The queue goes to the end of the line; take() removes it when nothing is left in it.
  turns.erase(place);
  turns.push_back(work.queue);
  work.is_slow = work.queue->is_slow(now);
  work.is_in_background = is_for_background(*work.queue, now);
  work.batch = work.queue->take(refusals);
  if (!work.batch.empty()) count_in(work, now);
  call_lead(/*wake=*/true);
}

// Under the mutex.
void ExecutionSlots::Impl::count_in(Work& work, Clock::time_point now) {
  work.is_beside = work.queue->is_beside(now);
  work.parts = models_in_demand(now) * ++work.share->running + (turns.empty() ? 0 : 1);
  if (!work.is_slow && slow_running > 0) {
    work.parts = std::max(work.parts, ThreadPool::available_processors());
  }
  slow_running += work.is_slow ? 1 : 0;
  running_beside += work.is_beside ? 1 : 0;
}

// The batch of the queue whose turn it is, or of this one. False when none is ready or has a slot.
bool ExecutionSlots::Impl::take_one(Work& work, BatchQueue::Impl* only) {
  Tickets refusals;
  {
    const std::lock_guard lock(mutex);
    const auto place = only == nullptr ? next_ready() : std::ranges::find(turns, only);
    if (place == turns.end() || !may_begin(**place, Clock::now())) return false;
    take(work, place, refusals);
  }
  for (const auto& ticket : refusals) ticket->finish();
  return true;
}

void ExecutionSlots::Impl::compute(Work& work) {
  if (divide) divide(work.parts);
  const auto begin = Clock::now();
  work.queue->compute_batch(work.batch);
  const auto end = Clock::now();
  {
    const std::lock_guard lock(mutex);
    work.queue->times.end(end, end - begin);
  }
  // From the first on, the queue may be gone. Answers are made in the slot too: it is a thread's
  // time.
  for (auto& ticket : work.batch) {
    ticket->answer.computed = end - begin;
    ticket->finish();
    ticket.reset();
  }
}

// Under the mutex.
void ExecutionSlots::Impl::count_out(const Work& work) {
  --work.share->running;
  slow_running -= work.is_slow ? 1 : 0;
  running_beside -= work.is_beside ? 1 : 0;
}

void ExecutionSlots::Impl::give_slot(const Work& work) {
  const std::lock_guard lock(mutex);
  count_out(work);
  call_lead(/*wake=*/false);
}

// Gives the slot of one batch for another; false when there is none that this thread is to compute.
// With no other thread in between.
bool ExecutionSlots::Impl::take_next(Work& work) {
  const bool in_background = work.is_in_background;
  bool has_ended = false;
  while (true) {
    Tickets refusals;
    bool has_taken = false;
    {
      const std::lock_guard lock(mutex);
      if (!std::exchange(has_ended, true)) count_out(std::exchange(work, {}));
      const auto next = next_beside(in_background);
      has_taken = next != turns.end();
      if (has_taken) {
        take(work, next, refusals);
      } else {
        call_lead(/*wake=*/true);
      }
    }
    for (const auto& ticket : refusals) ticket->finish();
    if (!has_taken || !work.batch.empty()) return has_taken;
  }
}

// Under the mutex.
void ExecutionSlots::Impl::wake_at(Clock::time_point time) {
  if (time >= timer_at || !timer) return;
  timer_at = time;
  timer->set(time);
}

// One timer for all requests that wait. It is not set back when they are computed before: most are.
void ExecutionSlots::Impl::look_at_times() {
  Tickets refusals;
  {
    const std::lock_guard lock(mutex);
    const auto now = Clock::now();
    timer_at = Clock::time_point::max();
    const std::vector<BatchQueue::Impl*> queues(turns.begin(), turns.end());
    for (BatchQueue::Impl* queue : queues) {
      queue->take_late(now, refusals);
      for (const auto& ticket : queue->waiting) wake_at(ticket->deadline.time());
      if (!queue->waiting.empty() && queue->ready_at() > now) wake_at(queue->ready_at());
    }
    call_lead(/*wake=*/true);
  }
  for (const auto& ticket : refusals) ticket->finish();
}

ExecutionSlots::ExecutionSlots(std::size_t count, std::shared_ptr<EventLoop> loop, Divide divide)
    : loop_(loop ? std::move(loop) : std::make_shared<EventLoop>()),
      impl_(std::make_shared<Impl>()) {
  impl_->count = count > 0 ? count : ThreadPool::available_processors();
  impl_->divide = std::move(divide);
  impl_->loop_turns.resize(loop_->threads() + 1);
  BlockingPool::Options options{.threads = impl_->count + kMoreThreads,
                                .waiting = std::numeric_limits<std::size_t>::max()};
  threads_ = std::make_unique<BlockingPool>(options);
  options.niceness = kLongNiceness;
  background_ = std::make_unique<BlockingPool>(options);
  impl_->loop = loop_.get();
  impl_->threads = threads_.get();
  impl_->background = background_.get();
  impl_->timer.emplace(*loop_, [weak = impl_->weak_from_this()] {
    if (const auto impl = weak.lock()) impl->look_at_times();
  });
}

ExecutionSlots::~ExecutionSlots() {
  const std::lock_guard lock(impl_->mutex);
  impl_->loop = nullptr;
  impl_->threads = nullptr;
  impl_->background = nullptr;
  impl_->timer.reset();
}

std::size_t ExecutionSlots::count() const { return impl_->count; }

BatchQueue::BatchQueue(std::shared_ptr<ExecutionSlots> slots, BatchOptions options, bool joinable,
                       Run run, const std::string& model)
    : impl_(new Impl{.slots = std::move(slots)}) {
  if (options.max_batch_size < 1) {
    throw InvalidArgument("max_batch_size must be positive: {}", options.max_batch_size);
  }
  if (options.default_priority_level < 1 ||
      options.default_priority_level > options.priority_levels) {
    throw InvalidArgument("default_priority_level must be between 1 and priority_levels ({}): {}",
                          options.priority_levels, options.default_priority_level);
  }
  impl_->options = std::move(options);
  impl_->joinable = joinable && impl_->options.join;
  impl_->compute = std::move(run);
  impl_->share = impl_->shared().share_of(model);
}
BatchQueue::~BatchQueue() = default;

std::size_t BatchQueue::waiting() const {
  const std::lock_guard lock(impl_->shared().mutex);
  return impl_->waiting.size();
}

void BatchQueue::start(Tensors inputs, const Deadline& deadline, std::uint64_t priority,
                       Done done) {
  auto ticket = impl_->ticket_of(std::move(inputs), deadline, priority, std::move(done));
  // The queue may be gone when the request is done.
  const auto shared = impl_->slots->impl_;
  std::unique_ptr<Ticket> refused;
  bool is_alone = false;
  {
    const std::lock_guard lock(shared->mutex);
    refused = impl_->enter(std::move(ticket));
    shared->call_lead(/*wake=*/false);
    is_alone = shared->is_alone();
  }
  if (refused) refused->finish();
  if (is_alone) shared->lead_in_loop();
}

BatchAnswer BatchQueue::run(const Tensors& inputs, const Deadline& deadline,
                            std::uint64_t priority) {
  std::mutex mutex;
  std::condition_variable changed;
  bool is_done = false;
  BatchAnswer answer;
  std::exception_ptr failure;
  auto ticket = impl_->ticket_of(inputs, deadline, priority,
                                 [&](BatchAnswer its_answer, std::exception_ptr its_failure) {
                                   const std::lock_guard lock(mutex);
                                   answer = std::move(its_answer);
                                   failure = std::move(its_failure);
                                   is_done = true;
                                   changed.notify_one();
                                 });
  // A queue that is gone when the request is done takes nothing along that lead() still needs.
  const auto shared = impl_->slots->impl_;
  std::unique_ptr<Ticket> refused;
  {
    const std::lock_guard lock(shared->mutex);
    refused = impl_->enter(std::move(ticket));
  }
  if (refused) refused->finish();
  shared->lead(impl_.get());
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return is_done; });
  lock.unlock();
  if (failure) std::rethrow_exception(failure);
  return answer;
}

}  // namespace muster::serving
