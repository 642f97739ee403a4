#include "muster/serving/listener/fair_queue.h"

#include <algorithm>
#include <deque>
#include <iterator>
#include <map>
#include <mutex>
#include <tuple>
#include <utility>

namespace muster::serving {

struct FairQueue::Impl {
  struct Owner {
    std::string name{};
    std::deque<Job> waiting{};
    std::size_t running = 0;
  };

  Options options{};
  std::size_t most_of_one = 1;
  mutable std::mutex mutex{};
  // Those with jobs that run or wait.
  std::map<std::string, Owner, std::less<>> owners{};
  // Those with jobs that wait, the next in turn first.
  std::deque<Owner*> turns{};
  std::size_t running = 0;
  std::size_t waiting = 0;
  bool closed = false;

  bool may_run(const Owner& owner) const {
    return running < options.running && owner.running < most_of_one;
  }

  // Twice the room in all: an owner that comes late finds room beside one that had it alone.
  bool has_room(const Owner& owner) const {
    const std::size_t owners_waiting = turns.size() + (owner.waiting.empty() ? 1 : 0);
    return owner.waiting.size() < std::max<std::size_t>(1, options.waiting / owners_waiting) &&
           waiting < 2 * options.waiting;
  }

  void begin(Owner& owner) {
    ++owner.running;
    ++running;
  }

  void end(Owner& owner) {
    --owner.running;
    --running;
    if (owner.running == 0 && owner.waiting.empty()) owners.erase(owner.name);
  }

  // The job whose turn it is, and its owner.
  std::pair<Owner*, Job> next() {
    const auto turn =
        std::ranges::find_if(turns, [&](const Owner* owner) { return may_run(*owner); });
    if (closed || turn == turns.end()) return {};
    Owner& owner = **turn;
    turns.erase(turn);
    Job job = std::move(owner.waiting.front());
    owner.waiting.pop_front();
    --waiting;
    if (!owner.waiting.empty()) turns.push_back(&owner);
    begin(owner);
    return {&owner, std::move(job)};
  }
};

FairQueue::FairQueue(Options options) : impl_(std::make_unique<Impl>()) {
  impl_->options = options;
  impl_->most_of_one = options.running - options.running / 4;
}
FairQueue::~FairQueue() = default;

FairQueue::Place FairQueue::offer(const std::string& owner_name, Job& job) {
  Impl& impl = *impl_;
  const std::lock_guard lock(impl.mutex);
  if (impl.closed) return Place::kNone;
  Impl::Owner& owner = impl.owners[owner_name];
  owner.name = owner_name;
  if (impl.may_run(owner)) {
    impl.begin(owner);
    return Place::kRuns;
  }
  if (!impl.has_room(owner)) {
    if (owner.running == 0 && owner.waiting.empty()) impl.owners.erase(owner_name);
    return Place::kNone;
  }
  if (owner.waiting.empty()) impl.turns.push_back(&owner);
  owner.waiting.push_back(std::move(job));
  ++impl.waiting;
  return Place::kWaits;
}

void FairQueue::run(const std::string& owner_name, Job job) {
  Impl& impl = *impl_;
  std::unique_lock lock(impl.mutex);
  Impl::Owner* owner = &impl.owners.find(owner_name)->second;
  while (owner != nullptr) {
    lock.unlock();
    job();
    job = nullptr;  // Its captures may be large.
    lock.lock();
    impl.end(*owner);
    std::tie(owner, job) = impl.next();
  }
}

bool FairQueue::run_or_wait(const std::string& owner, Job job) {
  const Place place = offer(owner, job);
  if (place == Place::kRuns) run(owner, std::move(job));
  return place != Place::kNone;
}

void FairQueue::close() {
  std::deque<Job> dropped;
  const std::lock_guard lock(impl_->mutex);
  impl_->closed = true;
  for (Impl::Owner* owner : impl_->turns) {
    std::ranges::move(owner->waiting, std::back_inserter(dropped));
    owner->waiting.clear();
  }
  impl_->turns.clear();
  impl_->waiting = 0;
}

std::size_t FairQueue::waiting() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->waiting;
}

}  // namespace muster::serving
