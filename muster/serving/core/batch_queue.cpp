#include "muster/serving/core/batch_queue.h"

#include <condition_variable>
#include <mutex>
#include <utility>

#include "muster/base/error.h"
#include "muster/serving/core/execution_slots_internal.h"

namespace muster::serving {

std::unique_ptr<BatchTicket> BatchQueue::Impl::enter(std::unique_ptr<BatchTicket> ticket) {
  const BatchTicket& entering = *ticket;
  const bool was_empty = waiting.is_empty();
  auto refused = waiting.enter(std::move(ticket));
  if (refused.get() != &entering) shared().enter(*this, entering, was_empty);
  return refused;
}

BatchQueue::BatchQueue(std::shared_ptr<ExecutionSlots> slots, BatchOptions options, bool joinable,
                       Run run, const std::string& model) {
  if (options.max_batch_size < 1) {
    throw InvalidArgument("max_batch_size must be positive: {}", options.max_batch_size);
  }
  if (options.default_priority_level < 1 ||
      options.default_priority_level > options.priority_levels) {
    throw InvalidArgument("default_priority_level must be between 1 and priority_levels ({}): {}",
                          options.priority_levels, options.default_priority_level);
  }
  joinable = joinable && options.join;
  impl_ = std::make_unique<Impl>(std::move(slots), std::move(options), joinable, std::move(run));
  impl_->share = impl_->shared().share_of(model);
}
BatchQueue::~BatchQueue() = default;

std::size_t BatchQueue::waiting() const {
  const std::lock_guard lock(impl_->shared().mutex);
  return impl_->waiting.size();
}

void BatchQueue::start(Tensors inputs, const Deadline& deadline, std::uint64_t priority,
                       Done done) {
  auto ticket = impl_->waiting.ticket_of(std::move(inputs), deadline, priority, std::move(done));
  // The queue may be gone when the request is done.
  const auto shared = impl_->slots->impl_;
  std::unique_ptr<BatchTicket> refused;
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
  auto ticket = impl_->waiting.ticket_of(
      inputs, deadline, priority, [&](BatchAnswer its_answer, std::exception_ptr its_failure) {
        const std::lock_guard lock(mutex);
        answer = std::move(its_answer);
        failure = std::move(its_failure);
        is_done = true;
        changed.notify_one();
      });
  // A queue that is gone when the request is done takes nothing along that lead() still needs.
  const auto shared = impl_->slots->impl_;
  std::unique_ptr<BatchTicket> refused;
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
