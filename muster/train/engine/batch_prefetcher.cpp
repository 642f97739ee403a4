#include "muster/train/engine/batch_prefetcher.h"

#include <utility>

#include "muster/base/error.h"
#include "muster/base/wait.h"
#include "muster/train/engine/arithmetic.h"

namespace muster {

BatchPrefetcher::BatchPrefetcher(std::unique_ptr<Iterator<Batch>> input, Prepare prepare)
    : input_(std::move(input)), prepare_(std::move(prepare)), place_(ask({})), last_(place_) {
  thread_ = std::thread([this] { run(); });
}

BatchPrefetcher::~BatchPrefetcher() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

// An input that cannot tell is asked once.
BatchPrefetcher::Place BatchPrefetcher::ask(const Place& before) const {
  if (!before.obstacle.empty()) return before;
  try {
    return {.position = input_->save()};
  } catch (const FailedPrecondition& error) {
    return {.obstacle = error.what()};
  }
}

BatchPrefetcher::Taken BatchPrefetcher::take() {
  Taken taken;
  try {
    taken.batch = input_->next();
    if (taken.batch) taken.batch = prepare_(*taken.batch);
    taken.place = last_ = ask(last_);
  } catch (...) {
    taken.error = std::current_exception();
    taken.place = last_;
  }
  return taken;
}

void BatchPrefetcher::run() {
  // Batches that are prepared here are small, and the processors are others'.
  set_cpu_threads(1);
  std::unique_lock lock(mutex_);
  while (!ends_) {
    lock.unlock();
    Taken taken = take();
    lock.lock();
    ahead_ = std::move(taken);
    changed_.notify_all();
    changed_.wait(lock, [this] { return ends_ || !ahead_; });
  }
}

std::optional<Batch> BatchPrefetcher::next() {
  std::unique_lock lock(mutex_);
  wait(
      changed_, lock, Deadline::never(), [] { return "the next batch of the input"; },
      [this] { return ahead_.has_value(); });
  Taken taken = *std::exchange(ahead_, std::nullopt);
  lock.unlock();
  changed_.notify_all();
  place_ = std::move(taken.place);
  if (taken.error) std::rethrow_exception(taken.error);
  return std::move(taken.batch);
}

std::string BatchPrefetcher::save() const {
  if (!place_.obstacle.empty()) throw FailedPrecondition("{}", place_.obstacle);
  return place_.position;
}

}  // namespace muster
