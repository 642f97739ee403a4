#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "muster/base/error.h"
#include "muster/serving/front/request_forwarder_internal.h"

namespace muster::serving {
namespace {

// The first, and once elsewhere.
constexpr int kMostAttempts = 2;
constexpr std::size_t kMostSampleBytes = 16 << 10;
constexpr std::chrono::seconds kKeepSample{10};
// Idle connections of a thread to a node.
constexpr std::size_t kMostFree = 64;

std::string_view path_of_target(const HttpRequest& request) {
  const std::string_view target = request.target;
  return target.substr(0, target.find('?'));
}

bool is_failure_of_node(const HttpResponse& response) {
  return response.status == 500 || response.status == 502 || response.status == 503;
}

HttpResponse refusal_of(ErrorCode code, const std::string& text) {
  return error_answer_of(code, text);
}

}  // namespace

bool asks_for_prediction(const HttpRequest& request) {
  constexpr std::array<std::string_view, 5> kEndings{":predict", ":classify", ":regress",
                                                     ":explain", "/infer"};
  const std::string_view path = path_of_target(request);
  return request.method == "POST" &&
         std::ranges::any_of(kEndings, [&](auto ending) { return path.ends_with(ending); });
}

bool is_safe_to_repeat(const HttpRequest& request) {
  return request.method == "GET" || request.method == "OPTIONS" || asks_for_prediction(request) ||
         path_of_target(request).ends_with("/repository/index");
}

void SampleRequest::offer(const HttpRequest& request) {
  const std::lock_guard lock(mutex_);
  if (!keep_.expired() || request.body.size() > kMostSampleBytes) return;
  request_ = std::make_shared<HttpRequest>(request);
  keep_ = Deadline::after(kKeepSample);
}

std::shared_ptr<const HttpRequest> SampleRequest::get() const {
  const std::lock_guard lock(mutex_);
  return request_;
}

void SampleRequest::forget() {
  const std::lock_guard lock(mutex_);
  request_.reset();
  keep_ = Deadline::after({});
}

void RequestForwarder::start(ForwardedRequest request) {
  if (state_->is_closed) {
    return reply(request, refusal_of(ErrorCode::kUnavailable, "the server is stopping"));
  }
  auto node = state_->nodes.choose(request.failed.get());
  // That one again, where it is the only one and may yet answer.
  if (!node && request.failed) node = state_->nodes.choose(nullptr);
  if (!node) return wait(std::move(request));
  send(std::move(request), std::move(node));
}

void RequestForwarder::send(ForwardedRequest request, std::shared_ptr<Node> node) {
  ++request.attempts;
  ++busy_;
  auto connection = connection_to(*node);
  const auto asked = request.request;
  Flight flight{.request = std::move(request), .node = std::move(node), .connection = connection};
  const auto place = flights_.insert(flights_.end(), std::move(flight));
  connection->ask(asked, [self = shared_from_this(), place](NodeAnswer answer) {
    self->on_answer(place, std::move(answer));
  });
}

std::shared_ptr<NodeConnection> RequestForwarder::connection_to(const Node& node) {
  auto& free = free_[node.number];
  while (!free.empty()) {
    auto connection = std::move(free.back());
    free.pop_back();
    if (connection->can_ask()) return connection;
  }
  return make_node_connection(io_, node.address);
}

void RequestForwarder::wait(ForwardedRequest request) {
  if (state_->waiting >= state_->most_waiting) {
    return reply(request, refusal_of(ErrorCode::kUnavailable,
                                     fmt::format("{} requests wait for a node already: {}",
                                                 state_->most_waiting, state_->reason())));
  }
  ++busy_;
  state_->counts.set_waiting(++state_->waiting);
  waiting_.push_back(std::move(request));
}

void RequestForwarder::on_answer(FlightPlace place, NodeAnswer answer) {
  Flight flight = std::move(*place);
  flights_.erase(place);
  --busy_;
  --flight.node->in_flight;
  if (answer.response) {
    flight.node->note_answer();
    if (asks_for_prediction(*flight.request.request)) {
      flight.node->note_latency(Node::Clock::now() - flight.sent);
    }
    auto& free = free_[flight.node->number];
    if (!flight.node->is_abandoned && free.size() < kMostFree && flight.connection->can_ask()) {
      free.push_back(std::move(flight.connection));
    }
    return on_response(std::move(flight.request), flight.node, std::move(*answer.response));
  }
  if (flight.is_expired) {
    return reply(flight.request,
                 refusal_of(ErrorCode::kDeadlineExceeded,
                            fmt::format("node {} has not answered in time", flight.node->number)));
  }
  on_failure(std::move(flight.request), std::move(flight.node), answer);
}

void RequestForwarder::on_response(ForwardedRequest request, const std::shared_ptr<Node>& node,
                                   HttpResponse response) {
  if (!is_failure_of_node(response)) {
    node->strikes = 0;
    // The other one answers what this one could not.
    if (request.failed && request.failed != node) ++request.failed->strikes;
    if (response.status == 200 && asks_for_prediction(*request.request)) {
      state_->sample.offer(*request.request);
    }
    return reply(request, std::move(response));
  }
  if (request.first_answer) return reply(request, std::move(*request.first_answer));
  if (!request.is_safe || request.attempts >= kMostAttempts) {
    return reply(request, std::move(response));
  }
  auto other = state_->nodes.choose(node.get());
  if (!other) return reply(request, std::move(response));
  state_->counts.retried(fmt::format("HTTP {}", response.status));
  request.failed = node;
  request.first_answer = std::move(response);
  send(std::move(request), std::move(other));
}

void RequestForwarder::on_failure(ForwardedRequest request, std::shared_ptr<Node> node,
                                  const NodeAnswer& answer) {
  ++node->strikes;
  if (request.first_answer) return reply(request, std::move(*request.first_answer));
  const bool may_repeat = request.is_safe || !answer.was_sent;
  if (may_repeat && request.attempts < kMostAttempts) {
    state_->counts.retried(node->is_abandoned ? "the node does not answer" : "connection lost");
    request.failed = std::move(node);
    return start(std::move(request));
  }
  if (!answer.was_sent) {
    // No node has begun with it, so it may wait for one that can be connected to.
    request.attempts = kMostAttempts - 1;
    request.failed = std::move(node);
    return wait(std::move(request));
  }
  const char* const hint = may_repeat
                               ? "try again later"
                               : "it may have been carried out, so it was not sent to another node";
  reply(request, refusal_of(ErrorCode::kUnavailable,
                            fmt::format("node {} was lost with this request: {}; {}", node->number,
                                        answer.failure, hint)));
}

void RequestForwarder::reply(const ForwardedRequest& request, HttpResponse response) {
  state_->counts.answered(response.status, Node::Clock::now() - request.request->received);
  request.reply->reply(std::move(response));
}

void RequestForwarder::ask(const std::shared_ptr<Node>& node,
                           std::shared_ptr<const HttpRequest> request, const Deadline& deadline,
                           NodeConnection::OnAnswer on_answer) {
  ++busy_;
  run_in(io_, [self = shared_from_this(), node, request = std::move(request), deadline,
               on_answer = std::move(on_answer)] {
    if (self->state_->is_closed) {
      --self->busy_;
      return on_answer({.failure = "the server is stopping"});
    }
    auto connection = make_node_connection(self->io_, node->address);
    Question question{.node = node, .deadline = deadline, .connection = connection};
    const auto place = self->questions_.insert(self->questions_.end(), std::move(question));
    connection->ask(request, [self, place, on_answer](NodeAnswer answer) {
      self->questions_.erase(place);
      --self->busy_;
      on_answer(std::move(answer));
    });
  });
}

void RequestForwarder::wake() {
  run_in(io_, [self = shared_from_this()] { self->sweep(); });
}

void RequestForwarder::close() {
  state_->is_closed = true;
  sweep();
  free_.clear();
}

void RequestForwarder::sweep() {
  end_flights();
  end_questions();
  send_waiting();
  for (auto& [node, connections] : free_) {
    std::erase_if(connections, [](const auto& one) { return !one->can_ask(); });
  }
  std::erase_if(free_, [](const auto& of_node) { return of_node.second.empty(); });
}

// Each that ends may begin others, at the end of the list.
void RequestForwarder::end_flights() {
  std::vector<std::pair<std::shared_ptr<NodeConnection>, std::string>> ends;
  for (Flight& flight : flights_) {
    flight.is_expired = flight.request.deadline.expired();
    if (flight.is_expired) {
      ends.emplace_back(flight.connection, "its time is over");
    } else if (state_->is_closed || flight.node->is_abandoned) {
      ends.emplace_back(flight.connection, "it does not answer");
    }
  }
  for (const auto& [connection, why] : ends) connection->abandon(why);
}

void RequestForwarder::end_questions() {
  std::vector<std::shared_ptr<NodeConnection>> ends;
  for (const Question& question : questions_) {
    if (state_->is_closed || question.deadline.expired()) ends.push_back(question.connection);
  }
  for (const auto& connection : ends) connection->abandon("it has not answered in time");
}

void RequestForwarder::send_waiting() {
  std::deque<ForwardedRequest> waiting = std::exchange(waiting_, {});
  for (ForwardedRequest& request : waiting) {
    --busy_;
    state_->counts.set_waiting(--state_->waiting);
    if (request.deadline.expired()) {
      reply(request, refusal_of(ErrorCode::kUnavailable,
                                "no node could answer in time: " + state_->reason()));
    } else {
      start(std::move(request));
    }
  }
}

}  // namespace muster::serving
