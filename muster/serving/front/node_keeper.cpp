#include "muster/serving/front/node_keeper.h"

#include <fmt/core.h>
#include <poll.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/serving/front/history_look_internal.h"
#include "muster/serving/front/kept_node_internal.h"
#include "muster/serving/front/node_load_internal.h"
#include "muster/serving/front/node_metrics.h"

namespace muster::serving {
namespace {

using KeeperClock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// How late an end that closes no stream, or a probe that takes too long, is noticed.
constexpr milliseconds kLook{20};
constexpr milliseconds kMetricsPatience{1000};
constexpr milliseconds kMetricsInterval{500};
// Between starts of nodes that end before they answer.
constexpr milliseconds kFirstPause{100};
constexpr milliseconds kLongestPause{10'000};

const char* name_of_state(KeptNode::State state) {
  switch (state) {
    case KeptNode::State::kStarting:
      return "starting";
    case KeptNode::State::kUp:
      return "up";
    case KeptNode::State::kOut:
      return "out";
    case KeptNode::State::kDraining:
    case KeptNode::State::kEnding:
      break;
  }
  return "draining";
}

/// Numbers of the nodes, of gone ones too, and when they are looked at next.
struct Sights {
  NodeMetrics metrics{};
  NodeHistory history{};
  KeeperClock::time_point next_metrics = KeeperClock::now() + kMetricsInterval;
  KeeperClock::time_point next_look{};
};

}  // namespace

struct NodeKeeper::Impl {
  Impl(const NodeKeeperOptions& given, NodeStarter& its_starter, FrontServer& its_front)
      : options(given), starter(its_starter), front(its_front), target(given.nodes) {
    if (options.scaling) load.emplace(*options.scaling);
  }

  // In the thread of the keeper.
  void keep(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      wait_for_output();
      send_signals();
      for (const auto& node : nodes) node->read(front);
      reap();
      for (const auto& node : nodes) node->look(front, count(KeptNode::State::kUp) > 1);
      refresh_metrics();
      keep_history();
      decide();
      drain_needless();
      end_drained();
      start_missing();
      publish();
    }
    end_all();
  }

  std::size_t count(KeptNode::State state) const {
    return static_cast<std::size_t>(
        std::ranges::count(nodes, state, [](const auto& node) { return node->state(); }));
  }

  void wait_for_output() const {
    std::vector<pollfd> outputs;
    outputs.reserve(nodes.size());
    for (const auto& node : nodes) {
      outputs.push_back({.fd = node->process().output(), .events = POLLIN, .revents = 0});
    }
    const int ready = ::poll(outputs.data(), outputs.size(), static_cast<int>(kLook.count()));
    // One that is closed is always ready, a moment before its process has ended.
    const bool has_end = ready > 0 && std::ranges::any_of(outputs, [](const pollfd& one) {
                           return (one.revents & POLLHUP) != 0;
                         });
    if (has_end) std::this_thread::sleep_for(milliseconds(1));
  }

  void reap() {
    for (std::size_t i = 0; i < nodes.size();) {
      const auto end = nodes[i]->process().ended();
      if (!end) {
        ++i;
        continue;
      }
      const auto node = std::move(nodes[i]);
      nodes.erase(nodes.begin() + static_cast<std::ptrdiff_t>(i));
      take_end(*node, *end);
    }
  }

  void take_end(KeptNode& node, const std::string& end) {
    const std::string reason = node.killed_for().value_or(end);
    const bool is_expected = node.state() == KeptNode::State::kEnding;
    if (node.was_up()) {
      front.abandon(*node.node());
      seen.metrics.retire(*node.node());
    }
    if (is_expected) {
      log::info("node {} has ended, as it was asked to process={} seconds={:.2f}", node.number(),
                node.process().process(), node.seconds());
      return;
    }
    front.counts().node_ended(reason);
    const std::string text = fmt::format("node {} {}", node.number(), reason);
    log::warning("{}; another one takes its place process={} seconds={:.2f}", text,
                 node.process().process(), node.seconds());
    front.set_reason(text + ", and another one is starting");
    note_failure(node, text);
  }

  // Those that end again and again before they answer are not started all the time.
  void note_failure(const KeptNode& node, const std::string& text) {
    failures = node.was_up() ? 0 : failures + 1;
    if (failures > 1) {
      next_start = KeeperClock::now() +
                   std::min(kFirstPause * (1 << std::min(failures - 2, 8)), kLongestPause);
    }
    if (node.was_up()) return;
    const std::lock_guard lock(mutex);
    if (!first_failure) first_failure = text + " before it answered";
    changed.notify_all();
  }

  // Nodes that answer or will.
  std::size_t wanted_nodes() const {
    return nodes.size() - count(KeptNode::State::kEnding) - count(KeptNode::State::kDraining);
  }

  void decide() {
    // Before the first ones are up there is nothing to decide about.
    has_started = has_started || count(KeptNode::State::kUp) >= options.nodes;
    if (!load || !has_started) return;
    std::size_t in_flight = front.waiting();
    for (const auto& node : nodes) {
      if (node->was_up()) in_flight += node->node()->in_flight;
    }
    const std::size_t before = target;
    target = load->look({.in_flight = in_flight,
                         .waiting = front.waiting(),
                         .answers = front.counts().answers(),
                         .nodes = wanted_nodes(),
                         .target = target},
                        seen.metrics);
    if (before == 0 && target > 0) front.set_reason("there was no node, and one is starting");
  }

  void drain_needless() {
    // The youngest first: those that start have nothing to finish.
    for (std::size_t i = nodes.size(); i-- > 0 && wanted_nodes() > target;) {
      KeptNode& node = *nodes[i];
      if (node.state() == KeptNode::State::kUp) node.drain(front);
      if (node.state() == KeptNode::State::kStarting) node.end();
    }
  }

  void end_drained() {
    for (const auto& node : nodes) {
      if (!node->is_drained()) continue;
      // Its numbers are asked for a last time.
      auto& answers = farewells[node->number()];
      if (!answers) answers = seen.metrics.refresh(front, node->node());
      if (*answers > 0) continue;
      farewells.erase(node->number());
      node->end();
    }
  }

  void resume_draining() {
    for (const auto& node : nodes) {
      if (wanted_nodes() >= target) return;
      if (node->state() != KeptNode::State::kDraining) continue;
      farewells.erase(node->number());
      node->resume(front);
    }
  }

  void start_missing() {
    resume_draining();
    while (wanted_nodes() < target && KeeperClock::now() >= next_start) {
      const int number = next_number++;
      try {
        nodes.push_back(std::make_unique<KeptNode>(number, starter.start(number), options));
      } catch (const Error& error) {
        log::error("node {} cannot be started: {}", number, error.what());
        front.set_reason(fmt::format("node {} cannot be started: {}", number, error.message()));
        next_start = KeeperClock::now() + kLongestPause;
        const std::lock_guard lock(mutex);
        if (!first_failure) first_failure = error.what();
        changed.notify_all();
      }
    }
  }

  void keep_history() {
    if (KeeperClock::now() < seen.next_look) return;
    seen.next_look = KeeperClock::now() + kMetricsInterval;
    std::vector<NodeHistory::NodeNow> now;
    for (const auto& node : nodes) {
      now.push_back({.number = node->number(),
                     .state = name_of_state(node->state()),
                     .process = node->process().process()});
      if (node->was_up()) note_node(*node->node(), now.back());
    }
    seen.history.add(look_at_front(front, seen.metrics, std::move(now)));
  }

  void refresh_metrics() {
    if (KeeperClock::now() < seen.next_metrics) return;
    seen.next_metrics = KeeperClock::now() + kMetricsInterval;
    for (const auto& node : nodes) {
      if (node->state() == KeptNode::State::kUp) seen.metrics.refresh(front, node->node());
    }
  }

  // For other threads.
  void publish() {
    std::map<std::string, std::size_t> by_state{
        {"up", 0}, {"starting", 0}, {"out", 0}, {"draining", 0}};
    std::vector<std::shared_ptr<Node>> now_up;
    for (const auto& node : nodes) {
      ++by_state[name_of_state(node->state())];
      if (node->state() == KeptNode::State::kUp) now_up.push_back(node->node());
    }
    front.counts().set_nodes(std::move(by_state));
    front.set_ready_without_nodes(load && options.scaling->min_nodes == 0 && failures == 0);
    const std::lock_guard lock(mutex);
    up = std::move(now_up);
    changed.notify_all();
  }

  void send_signals() {
    std::vector<int> now;
    {
      const std::lock_guard lock(mutex);
      now = std::exchange(signals, {});
    }
    for (const int signal : now) {
      for (const auto& node : nodes) node->process().send(signal);
    }
  }

  void end_all() {
    for (const auto& node : nodes) node->end();
    Deadline until = Deadline::after({});
    {
      const std::lock_guard lock(mutex);
      until = stop_by;
    }
    while (!nodes.empty() && !until.expired()) {
      wait_for_output();
      for (const auto& node : nodes) node->read(front);
      reap();
    }
    // Those that are left are killed.
    for (const auto& node : nodes) {
      log::warning("node {} has not ended in time and is killed process={}", node->number(),
                   node->process().process());
    }
    nodes.clear();
  }

  const NodeKeeperOptions options;
  NodeStarter& starter;
  FrontServer& front;
  Sights seen{};
  // For the thread of the keeper alone.
  std::vector<std::unique_ptr<KeptNode>> nodes{};
  int next_number = 0;
  int failures = 0;
  KeeperClock::time_point next_start{};
  std::size_t target;
  std::optional<NodeLoad> load{};
  bool has_started = false;
  // Last questions to nodes that are drained: how many are not answered yet.
  std::map<int, std::shared_ptr<const std::atomic<std::size_t>>> farewells{};

  std::mutex mutex{};
  std::condition_variable changed{};
  // Under the mutex.
  std::vector<std::shared_ptr<Node>> up{};
  std::vector<int> signals{};
  std::optional<std::string> first_failure{};
  Deadline stop_by = Deadline::after({});

  // Last: it ends before what it uses.
  std::jthread thread{};
};

NodeKeeper::NodeKeeper(const NodeKeeperOptions& options, NodeStarter& starter, FrontServer& front)
    : impl_(std::make_unique<Impl>(options, starter, front)) {}

NodeKeeper::~NodeKeeper() = default;

void NodeKeeper::start() {
  Impl& impl = *impl_;
  impl.thread = std::jthread([&impl](const std::stop_token& stop) { impl.keep(stop); });
  std::unique_lock lock(impl.mutex);
  wait(
      impl.changed, lock, Deadline::after(impl.options.start_timeout),
      [&] { return fmt::format("{} nodes that load models", impl.options.nodes); },
      [&] { return impl.up.size() >= impl.options.nodes || impl.first_failure; });
  if (impl.up.size() >= impl.options.nodes) return;
  throw Unavailable("{}", *impl.first_failure);
}

void NodeKeeper::stop(const Deadline& deadline) {
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->stop_by = deadline;
  }
  impl_->thread.request_stop();
  if (impl_->thread.joinable()) impl_->thread.join();
}

void NodeKeeper::send(int signal) {
  const std::lock_guard lock(impl_->mutex);
  impl_->signals.push_back(signal);
}

std::string NodeKeeper::metrics(const std::string& path) {
  std::vector<std::shared_ptr<Node>> nodes;
  {
    const std::lock_guard lock(impl_->mutex);
    nodes = impl_->up;
  }
  return impl_->seen.metrics.page(impl_->front, nodes, path, Deadline::after(kMetricsPatience));
}

const NodeHistory& NodeKeeper::history() const { return impl_->seen.history; }

}  // namespace muster::serving
