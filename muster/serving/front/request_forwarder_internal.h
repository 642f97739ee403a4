#pragma once

#include <atomic>
#include <cstddef>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/wait.h"
#include "muster/serving/front/front_counts.h"
#include "muster/serving/front/node_connection_internal.h"
#include "muster/serving/front/node_set.h"

namespace muster::serving {

/// A prediction that was answered right, kept to be asked again: of a node that answers it one
/// knows that it computes. Any thread may call.
class SampleRequest {
 public:
  /// Takes a copy of one that is small, now and then.
  void offer(const HttpRequest& request);
  /// Null when there is none.
  std::shared_ptr<const HttpRequest> get() const;
  void forget();

 private:
  mutable std::mutex mutex_{};
  std::shared_ptr<const HttpRequest> request_{};
  Deadline keep_ = Deadline::after({});
};

/// State that the forwarders of all threads share.
struct ForwardingState {
  explicit ForwardingState(std::uint64_t seed) : nodes(seed) {}

  NodeSet nodes;
  FrontCounts counts{};
  SampleRequest sample{};
  /// Requests that wait for a node; more than `most_waiting` are refused.
  std::atomic<std::size_t> waiting{0};
  std::size_t most_waiting = 1024;
  /// Requests in flight and those that wait are refused from now on.
  std::atomic<bool> is_closed{false};

  /// Why there is no node, for those who wait.
  std::string reason() const {
    const std::lock_guard lock(mutex);
    return reason_text;
  }
  void set_reason(std::string text) {
    const std::lock_guard lock(mutex);
    reason_text = std::move(text);
  }

 private:
  mutable std::mutex mutex{};
  std::string reason_text = "no node has been started";
};

/// A request on its way to a node and back.
struct ForwardedRequest {
  std::shared_ptr<const HttpRequest> request{};
  std::shared_ptr<HttpReply> reply{};
  Deadline deadline = Deadline::never();
  /// May be sent again where it is not known what became of it.
  bool is_safe = false;
  int attempts = 0;
  /// The node that failed it.
  std::shared_ptr<Node> failed{};
  /// The answer of that node, where another one is asked.
  std::optional<HttpResponse> first_answer{};
};

/// Brings the requests of one thread of an event loop to nodes. What is said of no thread belongs
/// to that one.
class RequestForwarder : public std::enable_shared_from_this<RequestForwarder> {
 public:
  RequestForwarder(boost::asio::io_context& io, std::shared_ptr<ForwardingState> state)
      : io_(io), state_(std::move(state)) {}

  void start(ForwardedRequest request);
  /// Asks this node and no other, on a connection of its own. Any thread may call it.
  void ask(const std::shared_ptr<Node>& node, std::shared_ptr<const HttpRequest> request,
           const Deadline& deadline, NodeConnection::OnAnswer on_answer);
  /// Ends what takes too long or is on a node that is abandoned, and sends what waits where there
  /// are nodes now. Any thread may call it.
  void wake();
  /// Fails all that is there, and lets go of its connections: the loop may end. Questions that come
  /// later are failed at once.
  void close();
  bool is_busy() const { return busy_ > 0; }

 private:
  /// A request that a node has.
  struct Flight {
    ForwardedRequest request{};
    std::shared_ptr<Node> node{};
    std::shared_ptr<NodeConnection> connection{};
    Node::Clock::time_point sent = Node::Clock::now();
    bool is_expired = false;
  };
  struct Question {
    std::shared_ptr<Node> node{};
    Deadline deadline = Deadline::never();
    std::shared_ptr<NodeConnection> connection{};
  };
  using FlightPlace = std::list<Flight>::iterator;

  void send(ForwardedRequest request, std::shared_ptr<Node> node);
  void wait(ForwardedRequest request);
  void on_answer(FlightPlace flight, NodeAnswer answer);
  void on_response(ForwardedRequest request, const std::shared_ptr<Node>& node,
                   HttpResponse response);
  void on_failure(ForwardedRequest request, std::shared_ptr<Node> node, const NodeAnswer& answer);
  void reply(const ForwardedRequest& request, HttpResponse response);
  std::shared_ptr<NodeConnection> connection_to(const Node& node);
  void sweep();
  void end_flights();
  void end_questions();
  void send_waiting();

  boost::asio::io_context& io_;
  const std::shared_ptr<ForwardingState> state_;
  std::list<Flight> flights_{};
  std::list<Question> questions_{};
  std::deque<ForwardedRequest> waiting_{};
  /// Connections that are free, by the number of the node; the last one is the next.
  std::map<int, std::vector<std::shared_ptr<NodeConnection>>> free_{};
  std::atomic<std::size_t> busy_{0};
};

/// Whether a request may be sent again although a node may have begun with it: predictions and
/// what only reads.
bool is_safe_to_repeat(const HttpRequest& request);
/// Whether it is a prediction.
bool asks_for_prediction(const HttpRequest& request);

}  // namespace muster::serving
