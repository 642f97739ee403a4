#include "muster/serving/core/execution_slots.h"

#include <algorithm>
#include <limits>

#include "muster/base/error.h"
#include "muster/base/thread_pool.h"
#include "muster/serving/core/batch_compute_internal.h"
#include "muster/serving/core/execution_slots_internal.h"

namespace muster::serving {
namespace {

using Clock = std::chrono::steady_clock;

// A model that was asked within this time is in demand: the others leave it a part of the slots and
// processors.
constexpr std::chrono::milliseconds kInDemand{10};
// More models than slots may each have a long batch at work, up to this many more.
constexpr std::size_t kMoreThreads = 64;
// Niceness of threads with long batches where there are other models: they get a quarter of a
// processor that both want, and all that the others leave. With more, other programs of a busy
// host would keep them from being computed.
constexpr int kLongNiceness = 5;
constexpr std::uint32_t kMostWeight = 1000;

}  // namespace

std::shared_ptr<ExecutionSlots::Impl::Share> ExecutionSlots::Impl::share_of(
    const std::string& model) {
  if (model.empty()) return std::make_shared<Share>();
  const std::lock_guard lock(mutex);
  std::erase_if(shares, [](const auto& row) { return row.second.expired(); });
  std::weak_ptr<Share>& kept = shares[model];
  auto share = kept.lock();
  if (share) return share;
  kept = share = std::make_shared<Share>();
  const auto weight = weights.find(model);
  if (weight != weights.end()) share->weight = weight->second;
  return share;
}

// Has the queue computed in time for a request that has entered it. Under the mutex.
void ExecutionSlots::Impl::enter(BatchQueue::Impl& queue, const BatchTicket& ticket,
                                 bool was_empty) {
  if (was_empty) turns.push_back(&queue);
  note_demand(queue.share, ticket.since);
  wake_at(ticket.deadline.time());
  const auto delay = queue.waiting.options().delay;
  if (delay > Clock::duration::zero()) wake_at(ticket.since + delay);
}

// Under the mutex.
void ExecutionSlots::Impl::note_demand(const std::shared_ptr<Share>& share, Clock::time_point now) {
  share->asked = now;
  if (!std::exchange(share->is_in_demand, true)) in_demand.push_back(share);
}

// The weights of all models in demand. Under the mutex.
std::size_t ExecutionSlots::Impl::weight_in_demand(Clock::time_point now) {
  std::erase_if(in_demand, [&](const std::shared_ptr<Share>& share) {
    share->is_in_demand = share->running > 0 || now - share->asked <= kInDemand;
    return !share->is_in_demand;
  });
  std::size_t weight = 0;
  for (const auto& share : in_demand) weight += share->weight;
  return weight;
}

// Whether the batch of a queue that is in turn has waited for others as long as it should, and its
// model has a slot for it. Under the mutex.
bool ExecutionSlots::Impl::may_begin(const BatchQueue::Impl& queue, Clock::time_point now) {
  if (queue.waiting.ready_at() > now) return false;
  const std::size_t running = queue.share->running;
  if (running == 0) return running_beside < count + kMoreThreads || !queue.waiting.is_beside(now);
  if (running >= count) return false;
  if (!queue.waiting.is_slow(now)) return true;
  const std::size_t weight = queue.share->weight;
  return running < count * weight / std::max(weight_in_demand(now), weight);
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
  return shares.size() > 1 && queue.waiting.is_slow(now);
}

// The next that is not for a thread of the loop, except for one like that which asks. Under the
// mutex.
ExecutionSlots::Impl::Place ExecutionSlots::Impl::next_beside(bool in_background) {
  const auto now = Clock::now();
  return std::ranges::find_if(turns, [&](const BatchQueue::Impl* queue) {
    return queue->waiting.is_beside(now) && is_for_background(*queue, now) == in_background &&
           may_begin(*queue, now);
  });
}

// Has the loop lead, if there is something to compute and a slot for it. `wake`: in another thread
// than this one; else after what this one has to do. Under the mutex.
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
  // The threads go after the last request, so they are there. One continues as long as there is
  // more: the loop may have much to read before it comes to it.
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
void ExecutionSlots::Impl::take(Work& work, const Place& place, BatchTickets& refusals) {
  const auto now = Clock::now();
  work.queue = *place;
  work.share = work.queue->share;
  // The queue goes to the end of the line, unless nothing is left in it.
  turns.erase(place);
  turns.push_back(work.queue);
  work.is_slow = work.queue->waiting.is_slow(now);
  work.is_in_background = is_for_background(*work.queue, now);
  work.batch = work.queue->waiting.take(refusals);
  if (work.queue->waiting.is_empty()) turns.pop_back();
  if (!work.batch.empty()) count_in(work, now);
  call_lead(/*wake=*/true);
}

// Under the mutex.
void ExecutionSlots::Impl::count_in(Work& work, Clock::time_point now) {
  work.is_beside = work.queue->waiting.is_beside(now);
  const std::size_t weight = work.share->weight;
  const std::size_t parts = std::max(weight_in_demand(now), weight) * ++work.share->running;
  work.parts = (parts + weight - 1) / weight + (turns.empty() ? 0 : 1);
  if (!work.is_slow && slow_running > 0) {
    work.parts = std::max(work.parts, ThreadPool::available_processors());
  }
  slow_running += work.is_slow ? 1 : 0;
  running_beside += work.is_beside ? 1 : 0;
}

// The batch of the queue whose turn it is, or of this one. False when none is ready or has a slot.
bool ExecutionSlots::Impl::take_one(Work& work, BatchQueue::Impl* only) {
  BatchTickets refusals;
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
  compute_batch(work.queue->compute, work.queue->waiting.options().allowed_batch_sizes, work.batch);
  const auto end = Clock::now();
  {
    const std::lock_guard lock(mutex);
    work.queue->waiting.times().end(end, end - begin);
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
    BatchTickets refusals;
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
  BatchTickets refusals;
  {
    const std::lock_guard lock(mutex);
    const auto now = Clock::now();
    timer_at = Clock::time_point::max();
    const std::vector<BatchQueue::Impl*> queues(turns.begin(), turns.end());
    for (BatchQueue::Impl* queue : queues) {
      queue->waiting.take_late(now, refusals);
      if (queue->waiting.is_empty()) std::erase(turns, queue);
      for (const auto& ticket : queue->waiting.all()) wake_at(ticket->deadline.time());
      if (!queue->waiting.is_empty() && queue->waiting.ready_at() > now)
        wake_at(queue->waiting.ready_at());
    }
    call_lead(/*wake=*/true);
  }
  for (const auto& ticket : refusals) ticket->finish();
}

ExecutionSlots::ExecutionSlots(std::size_t count, std::shared_ptr<EventLoop> loop, Divide divide,
                               ModelWeights weights)
    : loop_(loop ? std::move(loop) : std::make_shared<EventLoop>()),
      impl_(std::make_shared<Impl>()) {
  impl_->count = count > 0 ? count : ThreadPool::available_processors();
  impl_->divide = std::move(divide);
  for (const auto& [model, weight] : weights) {
    if (weight >= 1 && weight <= kMostWeight) continue;
    throw InvalidArgument("the weight of model {} must be 1 to {}: {}", model, kMostWeight, weight);
  }
  impl_->weights = std::move(weights);
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

}  // namespace muster::serving
