#include <algorithm>
#include <atomic>
#include <boost/asio/defer.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <thread>
#include <utility>
#include <vector>

#include "muster/base/thread_pool.h"
#include "muster/server/event_loop_internal.h"

namespace muster::server {

namespace asio = boost::asio;

struct EventLoop::Impl {
  asio::io_context io{};
  // Threads stay, also when nothing is left to do.
  asio::executor_work_guard<asio::io_context::executor_type> work{io.get_executor()};
  int most_here = 1;
  std::atomic<int> here{0};
  std::vector<std::jthread> threads{};
};

EventLoop::EventLoop(std::size_t threads) : impl_(std::make_unique<Impl>()) {
  if (threads == 0) threads = ThreadPool::available_processors() + 1;
  threads = std::max<std::size_t>(threads, 2);
  impl_->most_here = static_cast<int>(threads) - 1;
  for (std::size_t i = 0; i < threads; ++i) {
    impl_->threads.emplace_back([impl = impl_.get()] { impl->io.run(); });
  }
}

EventLoop::~EventLoop() {
  impl_->io.stop();
  impl_->threads.clear();
}

asio::io_context& EventLoop::io() { return impl_->io; }
std::size_t EventLoop::threads() const { return impl_->threads.size(); }

void EventLoop::post(Job job) { asio::post(impl_->io, std::move(job)); }
void EventLoop::defer(Job job) { asio::defer(impl_->io, std::move(job)); }

bool EventLoop::run_here(const Job& job) {
  const bool is_left = impl_->here.fetch_add(1) < impl_->most_here;
  if (is_left) job();
  impl_->here.fetch_sub(1);
  return is_left;
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

}  // namespace muster::server
