#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "muster/serving/core/batch_queue.h"
#include "muster/serving/core/batch_ticket_internal.h"
#include "muster/serving/core/waiting_requests_internal.h"
#include "muster/serving/listener/blocking_pool.h"
#include "muster/serving/listener/event_loop.h"

namespace muster::serving {

struct ExecutionSlots::Impl : std::enable_shared_from_this<ExecutionSlots::Impl> {
  /// Work of a thread of the loop between two looks at its sockets.
  struct Turn {
    // It was told to lead, and has not begun.
    bool is_lead_coming = false;
    // Requests that it has read.
    std::size_t requests = 0;
    // Whether there was no more than one in its last.
    bool was_for_one = false;
  };

  /// Share of a model in the slots.
  struct Share {
    std::size_t running = 0;
    std::chrono::steady_clock::time_point asked = std::chrono::steady_clock::time_point::min();
    bool is_in_demand = false;
    std::size_t weight = 1;
  };

  std::size_t count = 1;
  ExecutionSlots::Divide divide{};
  ModelWeights weights{};
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
  std::chrono::steady_clock::time_point timer_at = std::chrono::steady_clock::time_point::max();

  std::shared_ptr<Share> share_of(const std::string& model);
  void enter(BatchQueue::Impl& queue, const BatchTicket& ticket, bool was_empty);
  void note_demand(const std::shared_ptr<Share>& share, std::chrono::steady_clock::time_point now);
  void call_lead(bool wake);
  bool is_alone();
  void lead_in_loop();
  bool lead(BatchQueue::Impl* queue);
  void look_at_times();
  void wake_at(std::chrono::steady_clock::time_point time);

 private:
  /// A batch that has its slot.
  struct Work {
    BatchQueue::Impl* queue = nullptr;
    std::shared_ptr<Share> share{};
    BatchTickets batch{};
    // Whether it takes long, and whether it is not for a thread of the loop.
    bool is_slow = false;
    bool is_beside = false;
    bool is_in_background = false;
    // That share the processors with it, itself among them.
    std::size_t parts = 1;
  };

  using Place = std::deque<BatchQueue::Impl*>::iterator;

  std::size_t weight_in_demand(std::chrono::steady_clock::time_point now);
  bool may_begin(const BatchQueue::Impl& queue, std::chrono::steady_clock::time_point now);
  Place next_ready();
  bool is_for_background(const BatchQueue::Impl& queue, std::chrono::steady_clock::time_point now);
  Place next_beside(bool in_background);
  void take(Work& work, const Place& place, BatchTickets& refusals);
  bool take_one(Work& work, BatchQueue::Impl* only);
  void compute(Work& work);
  void count_in(Work& work, std::chrono::steady_clock::time_point now);
  void count_out(const Work& work);
  void give_slot(const Work& work);
  bool take_next(Work& work);
  void end_turn(std::size_t place);
};

struct BatchQueue::Impl {
  Impl(std::shared_ptr<ExecutionSlots> its_slots, BatchOptions options, bool joinable, Run run)
      : slots(std::move(its_slots)),
        compute(std::move(run)),
        waiting(std::move(options), joinable, slots->count()) {}

  const std::shared_ptr<ExecutionSlots> slots;
  const Run compute;
  std::shared_ptr<ExecutionSlots::Impl::Share> share{};
  // Under the mutex of the slots.
  WaitingRequests waiting;

  ExecutionSlots::Impl& shared() const { return *slots->impl_; }

  /// Under the mutex of the slots. The request that is refused, if one is.
  std::unique_ptr<BatchTicket> enter(std::unique_ptr<BatchTicket> ticket);
};

}  // namespace muster::serving
