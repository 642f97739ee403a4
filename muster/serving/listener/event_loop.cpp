#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/defer.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <thread>
#include <utility>
#include <vector>

#include "muster/base/thread_pool.h"
#include "muster/serving/listener/event_loop.h"

namespace muster::serving {

namespace asio = boost::asio;

namespace {

// Which thread of which loop this is.
thread_local const void* t_loop = nullptr;
thread_local std::size_t t_index = 0;

// Upper bound on the time that a thread works between two looks at its sockets.
constexpr std::chrono::nanoseconds kTurn = std::chrono::microseconds(100);

// The system's struct sched_attr, whose header and that of the C library exclude each other.
struct SchedulingWish {
  std::uint32_t size = sizeof(SchedulingWish);
  std::uint32_t policy = SCHED_OTHER;
  std::uint64_t flags = 0;
  std::int32_t nice = 0;
  std::uint32_t priority = 0;
  std::uint64_t runtime_ns = 0;
  std::uint64_t deadline_ns = 0;
  std::uint64_t period_ns = 0;
};

// Linux 6.12 and newer lets a thread that wakes preempt those that have asked for longer turns,
// which compute; with equal turns it waits for milliseconds where all processors are busy. Other
// kernels take no notice, and a refusal changes nothing either.
void ask_for_short_turns() {
  if (::sched_getscheduler(0) != SCHED_OTHER) return;
  SchedulingWish wish;
  wish.nice = ::getpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()));
  wish.runtime_ns = static_cast<std::uint64_t>(kTurn.count());
  ::syscall(SYS_sched_setattr, 0, &wish, 0U);
}

struct LoopThread {
  // One thread runs it, so it wakes none.
  asio::io_context io{1};
  // Stays, also when nothing is left to do.
  asio::executor_work_guard<asio::io_context::executor_type> work{io.get_executor()};
  std::jthread thread{};
};

}  // namespace

struct EventLoop::Impl {
  std::vector<std::unique_ptr<LoopThread>> threads{};
  std::atomic<std::size_t> turn{0};

  asio::io_context& next() { return threads[turn++ % threads.size()]->io; }
};

EventLoop::EventLoop(std::size_t threads) : impl_(std::make_unique<Impl>()) {
  if (threads == 0) threads = std::max<std::size_t>(2, ThreadPool::available_processors());
  for (std::size_t i = 0; i < threads; ++i) {
    impl_->threads.push_back(std::make_unique<LoopThread>());
  }
  for (std::size_t i = 0; i < threads; ++i) {
    LoopThread& one = *impl_->threads[i];
    one.thread = std::jthread([&one, i, loop = impl_.get()] {
      t_loop = loop;
      t_index = i;
      ask_for_short_turns();
      one.io.run();
    });
  }
}

EventLoop::~EventLoop() {
  for (const auto& thread : impl_->threads) thread->io.stop();
  // All of them, before anything goes that another still uses.
  for (const auto& thread : impl_->threads) thread->thread.join();
}

asio::io_context& EventLoop::io() { return impl_->next(); }
asio::io_context& EventLoop::io_of(std::size_t thread) { return impl_->threads.at(thread)->io; }
std::size_t EventLoop::threads() const { return impl_->threads.size(); }

std::optional<std::size_t> EventLoop::this_thread() const {
  if (t_loop != impl_.get()) return std::nullopt;
  return t_index;
}

void EventLoop::post(Job job) {
  asio::io_context* io = &impl_->next();
  const auto here = this_thread();
  if (here && io == &impl_->threads[*here]->io) io = &impl_->next();
  asio::post(*io, std::move(job));
}

void EventLoop::defer(Job job) {
  const auto here = this_thread();
  if (!here) return post(std::move(job));
  asio::defer(impl_->threads[*here]->io, std::move(job));
}

struct EventLoop::Timer::State {
  asio::steady_timer timer;
  Job job;
};

EventLoop::Timer::Timer(EventLoop& loop, Job job)
    : state_(new State{asio::steady_timer(loop.io()), std::move(job)}) {}
EventLoop::Timer::~Timer() { state_->timer.cancel(); }

void EventLoop::Timer::set(Clock::time_point time) {
  state_->timer.expires_at(time);
  state_->timer.async_wait([state = state_](boost::system::error_code stopped) {
    if (!stopped) state->job();
  });
}

}  // namespace muster::serving
