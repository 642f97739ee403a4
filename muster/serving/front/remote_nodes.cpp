#include "muster/serving/front/remote_nodes.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <stop_token>
#include <thread>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/serving/front/ejection_internal.h"
#include "muster/serving/front/history_look_internal.h"
#include "muster/serving/front/node_metrics.h"
#include "muster/serving/front/node_names.h"

namespace muster::serving {
namespace {

using RemoteClock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kRemoteLook{20};
constexpr std::chrono::milliseconds kRemoteMetricsPatience{1000};
constexpr std::chrono::milliseconds kHistoryLook{500};
// Without a prediction for so long it may be as fast again as it was.
constexpr std::chrono::seconds kSilence{1};

/// A node of another program, as it is looked after. Belongs to one thread.
class RemoteNode {
 public:
  RemoteNode(int number, NodeAddress address)
      : node_(std::make_shared<Node>(number, std::move(address))) {}

  const std::shared_ptr<Node>& node() const { return node_; }
  bool is_up() const { return is_up_; }

  void look(FrontServer& front, const RemoteNodesOptions& options, bool has_others) {
    if (is_up_ && has_others && node_->strikes >= kMostStrikes) {
      returns_ = RemoteClock::now() + pauses_.next();
      put_out(front, "failed requests that other nodes answered", /*is_lost=*/false);
    }
    if (probe_ && probe_->is_over) take_answer(front, std::exchange(probe_, nullptr)->status);
    if (!probe_ && RemoteClock::now() - asked_ >= options.probe_interval) ask(front, options);
  }

 private:
  /// A question that is on its way.
  struct Probe {
    std::atomic<bool> is_over{false};
    std::atomic<int> status{0};
  };

  void ask(FrontServer& front, const RemoteNodesOptions& options) {
    asked_ = RemoteClock::now();
    probe_ = std::make_shared<Probe>();
    front.get(node_, "/readyz", Deadline::after(options.probe_timeout),
              [probe = probe_](const FrontServer::Reply& reply) {
                probe->status = reply.status;
                probe->is_over = true;
              });
  }

  void take_answer(FrontServer& front, int status) {
    if (status == 200 && node_->since_answer() > kSilence) node_->forget_latency();
    if (status == 200 && !is_up_ && RemoteClock::now() >= returns_) {
      is_up_ = true;
      log::info("node {} is up address={}", node_->number, node_->address.text);
      front.add(node_);
    } else if (status == 0 && is_up_) {
      put_out(front, "does not answer", /*is_lost=*/true);
    } else if (status != 200 && is_up_) {
      put_out(front, "is not ready", /*is_lost=*/false);
    }
  }

  void put_out(FrontServer& front, const std::string& reason, bool is_lost) {
    is_up_ = false;
    eject(front, *node_,
          {.reason = reason,
           .detail = "address=" + node_->address.text,
           .name = fmt::format("node {} at {}", node_->number, node_->address.text),
           .is_lost = is_lost});
  }

  const std::shared_ptr<Node> node_;
  bool is_up_ = false;
  std::shared_ptr<Probe> probe_{};
  RemoteClock::time_point asked_{};
  RemoteClock::time_point returns_{};
  EjectionPauses pauses_{};
};

}  // namespace

struct RemoteNodes::Impl {
  Impl(const RemoteNodesOptions& given, FrontServer& its_front)
      : options(given), front(its_front) {}

  // In the thread that looks names up.
  void resolve(const std::stop_token& stop) {
    std::map<std::string, std::string> complaints;
    do {
      for (const std::string& name : options.names) {
        std::string& complaint = complaints[name];
        try {
          std::vector<NodeAddress> addresses = node_addresses(name);
          const std::lock_guard lock(mutex);
          found[name] = std::move(addresses);
          complaint.clear();
        } catch (const Error& error) {
          // Once, not with every look. What was found before stays.
          if (complaint != error.what()) log::warning("{}", error.what());
          complaint = error.what();
          front.set_reason(complaint);
        }
      }
    } while (nap(stop, options.resolve_interval));
  }

  // In the thread that looks after the nodes.
  void keep(const std::stop_token& stop) {
    do {
      take_addresses();
      const auto count =
          std::ranges::count_if(nodes, [](const auto& one) { return one.second.is_up(); });
      for (auto& one : nodes) one.second.look(front, options, count > 1);
      keep_history();
      publish();
    } while (nap(stop, kRemoteLook));
    for (const auto& one : nodes) front.remove(*one.second.node());
  }

  void take_addresses() {
    std::map<std::string, NodeAddress> now;
    {
      const std::lock_guard lock(mutex);
      for (const auto& of_name : found) {
        for (const NodeAddress& address : of_name.second) now.emplace(address.text, address);
      }
    }
    for (const auto& [text, address] : now) {
      if (!nodes.contains(text)) nodes.emplace(text, RemoteNode(next_number++, address));
    }
    // Those that have left finish what they have.
    for (auto one = nodes.begin(); one != nodes.end();) {
      if (now.contains(one->first)) {
        ++one;
        continue;
      }
      const auto& node = one->second.node();
      log::info("node {} is no longer among the addresses address={}", node->number, one->first);
      front.remove(*node);
      node_metrics.retire(*node);
      one = nodes.erase(one);
    }
  }

  // Their metrics are asked for as often as points are kept: of servers elsewhere, not more often.
  void keep_history() {
    if (RemoteClock::now() < next_look) return;
    next_look = RemoteClock::now() + kHistoryLook;
    const bool is_due = RemoteClock::now() >= next_metrics;
    if (is_due) next_metrics = RemoteClock::now() + NodeHistory::kInterval;
    std::vector<NodeHistory::NodeNow> now;
    for (const auto& one : nodes) {
      const auto& node = one.second.node();
      now.push_back({.number = node->number, .state = one.second.is_up() ? "up" : "out"});
      note_node(*node, now.back());
      if (is_due && one.second.is_up()) node_metrics.refresh(front, node);
    }
    history.add(look_at_front(front, node_metrics, std::move(now)));
  }

  // For other threads.
  void publish() {
    std::vector<std::shared_ptr<Node>> now_up;
    for (const auto& one : nodes) {
      if (one.second.is_up()) now_up.push_back(one.second.node());
    }
    front.counts().set_nodes({{"up", now_up.size()}, {"out", nodes.size() - now_up.size()}});
    const std::lock_guard lock(mutex);
    up = std::move(now_up);
    changed.notify_all();
  }

  const RemoteNodesOptions options;
  FrontServer& front;
  NodeMetrics node_metrics{};
  NodeHistory history{};
  // By address; for the thread that looks after them alone.
  std::map<std::string, RemoteNode> nodes{};
  int next_number = 0;
  RemoteClock::time_point next_look{};
  RemoteClock::time_point next_metrics{};

  std::mutex mutex{};
  std::condition_variable changed{};
  // Under the mutex.
  std::map<std::string, std::vector<NodeAddress>> found{};
  std::vector<std::shared_ptr<Node>> up{};

  // Last: they end before what they use.
  std::jthread resolver{};
  std::jthread keeper{};
};

RemoteNodes::RemoteNodes(const RemoteNodesOptions& options, FrontServer& front)
    : impl_(std::make_unique<Impl>(options, front)) {
  for (const std::string& name : options.names) check_node_name(name);
}

RemoteNodes::~RemoteNodes() = default;

void RemoteNodes::start() {
  Impl& impl = *impl_;
  impl.resolver = std::jthread([&impl](const std::stop_token& stop) { impl.resolve(stop); });
  impl.keeper = std::jthread([&impl](const std::stop_token& stop) { impl.keep(stop); });
  std::unique_lock lock(impl.mutex);
  wait(
      impl.changed, lock, Deadline::after(impl.options.start_timeout),
      [&] {
        return fmt::format("a node that is ready at {}", fmt::join(impl.options.names, ", "));
      },
      [&] { return !impl.up.empty(); });
}

void RemoteNodes::stop(const Deadline&) {
  impl_->resolver.request_stop();
  impl_->keeper.request_stop();
  if (impl_->keeper.joinable()) impl_->keeper.join();
  if (impl_->resolver.joinable()) impl_->resolver.join();
}

void RemoteNodes::send(int) {}

const NodeHistory& RemoteNodes::history() const { return impl_->history; }

std::string RemoteNodes::metrics(const std::string& path) {
  std::vector<std::shared_ptr<Node>> nodes;
  {
    const std::lock_guard lock(impl_->mutex);
    nodes = impl_->up;
  }
  return impl_->node_metrics.page(impl_->front, nodes, path,
                                  Deadline::after(kRemoteMetricsPatience));
}

}  // namespace muster::serving
