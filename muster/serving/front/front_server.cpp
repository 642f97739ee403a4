#include "muster/serving/front/front_server.h"

#include <atomic>
#include <charconv>
#include <exception>
#include <mutex>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/semaphore.h"
#include "muster/serving/front/request_forwarder_internal.h"
#include "muster/serving/listener/event_loop.h"

namespace muster::serving {
namespace {

// How late what takes too long is noticed.
constexpr std::chrono::milliseconds kSweepInterval{50};
constexpr std::uint64_t kSeed = 41;

HttpResponse text_answer(int status, std::string body) {
  return {.status = status, .content_type = "text/plain; charset=utf-8", .body = std::move(body)};
}

FrontServer::Reply reply_of(const NodeAnswer& answer) {
  if (!answer.response) return {.failure = answer.failure};
  return {.status = answer.response->status, .body = answer.response->body};
}

// "/nodes?since=SECONDS", seconds of 1970 on; all where it says nothing.
std::chrono::system_clock::time_point since_of(std::string_view target) {
  constexpr std::string_view kSince = "since=";
  const auto at = target.find(kSince);
  if (at == target.npos) return {};
  const std::string_view text = target.substr(at + kSince.size());
  double seconds = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), seconds);
  constexpr double kMostSeconds = 1e9 * 9;
  if (read.ec != std::errc() || !(seconds >= 0 && seconds <= kMostSeconds)) {
    throw InvalidArgument("/nodes?since=SECONDS, seconds of 1970 on: {}", text);
  }
  return std::chrono::system_clock::time_point(
      std::chrono::duration_cast<std::chrono::system_clock::duration>(
          std::chrono::duration<double>(seconds)));
}

// It would change one node, and the others would not know.
bool changes_one_node(const HttpRequest& request) {
  const std::string_view path =
      std::string_view(request.target).substr(0, request.target.find('?'));
  return request.method == "POST" && path.starts_with("/v2/repository/") &&
         (path.ends_with("/load") || path.ends_with("/unload"));
}

}  // namespace

struct FrontServer::Impl {
  explicit Impl(FrontOptions given)
      : options(std::move(given)),
        state(std::make_shared<ForwardingState>(kSeed)),
        loop(std::make_shared<EventLoop>(options.http.io_threads)) {
    state->most_waiting = options.most_waiting;
    for (std::size_t i = 0; i < loop->threads(); ++i) {
      forwarders.push_back(std::make_shared<RequestForwarder>(loop->io_of(i), state));
    }
    sweeper.emplace(*loop, [this] { sweep(); });
    sweeper->set(EventLoop::Clock::now() + kSweepInterval);
  }

  void sweep() {
    for (const auto& forwarder : forwarders) {
      if (forwarder->is_busy()) forwarder->wake();
    }
    const std::lock_guard lock(timer_mutex);
    if (!is_ending) sweeper->set(EventLoop::Clock::now() + kSweepInterval);
  }

  void wake_all() {
    for (const auto& forwarder : forwarders) forwarder->wake();
  }

  RequestForwarder& forwarder_here() {
    const auto here = loop->this_thread();
    return *forwarders[here ? *here : turn++ % forwarders.size()];
  }

  // Begins to answer, in a thread of the loop; false for what has to wait for several nodes.
  bool start(HttpRequest& request, const std::shared_ptr<HttpReply>& reply) {
    const std::string_view path =
        std::string_view(request.target).substr(0, request.target.find('?'));
    if (path == "/nodes" && request.method == "GET") return false;
    if (path == "/metrics" || (!options.prometheus_path.empty() && path == options.prometheus_path))
      return request.method != "GET" && forward(request, reply);
    if (path == "/healthz" || path == "/livez") {
      reply->reply(text_answer(200, "ok\n"));
    } else if (path == "/readyz") {
      reply->reply(readiness());
    } else if (changes_one_node(request)) {
      reply->reply(error_answer_of(
          ErrorCode::kUnimplemented,
          "this server has several nodes, which load and unload models by their folders: start it "
          "with --models-dir or --model-config-file, and change that"));
    } else {
      return forward(request, reply);
    }
    return true;
  }

  bool forward(HttpRequest& request, const std::shared_ptr<HttpReply>& reply) {
    const bool is_safe = is_safe_to_repeat(request);
    const auto deadline = options.timeout.count() > 0
                              ? Deadline::at(request.received + options.timeout)
                              : Deadline::never();
    auto shared = std::make_shared<const HttpRequest>(std::move(request));
    forwarder_here().start(
        {.request = std::move(shared), .reply = reply, .deadline = deadline, .is_safe = is_safe});
    return true;
  }

  HttpResponse readiness() {
    if (!is_draining && (is_ready_without_nodes || state->nodes.size() > 0))
      return text_answer(200, "ok\n");
    HttpResponse answer =
        text_answer(503, is_draining ? "the server is stopping\n" : state->reason() + "\n");
    answer.headers.emplace_back("Retry-After", "1");
    return answer;
  }

  HttpResponse nodes_page(const HttpRequest& request) const {
    HttpResponse answer{.content_type = "application/json"};
    if (options.nodes) answer.body = options.nodes(since_of(request.target));
    return answer;
  }

  // In a thread that may wait.
  HttpResponse metrics(const HttpRequest& request) {
    try {
      options.access.check(Role::kPredict, request.header("Authorization"),
                           request.is_from_this_host);
      const std::string path = request.target.substr(0, request.target.find('?'));
      if (path == "/nodes") return nodes_page(request);
      HttpResponse answer = text_answer(200, path == "/metrics" ? state->counts.page() : "");
      answer.content_type = "text/plain; version=0.0.4; charset=utf-8";
      if (options.metrics) answer.body += options.metrics(path);
      return answer;
    } catch (...) {
      const Description failure = describe(std::current_exception());
      return error_answer_of(failure.code, failure.message);
    }
  }

  FrontOptions options;
  const std::shared_ptr<ForwardingState> state;
  std::shared_ptr<EventLoop> loop;
  std::vector<std::shared_ptr<RequestForwarder>> forwarders{};
  std::atomic<std::size_t> turn{0};
  std::atomic<bool> is_draining{false};
  std::atomic<bool> is_ready_without_nodes{false};
  std::mutex timer_mutex{};
  bool is_ending = false;
  std::optional<EventLoop::Timer> sweeper{};
  std::optional<HttpServer> http{};
};

FrontServer::FrontServer(FrontOptions options) : impl_(new Impl(std::move(options))) {}

FrontServer::~FrontServer() {
  impl_->state->is_closed = true;
  Semaphore closed(0);
  for (std::size_t i = 0; i < impl_->forwarders.size(); ++i) {
    run_in(impl_->loop->io_of(i), [&closed, forwarder = impl_->forwarders[i]] {
      forwarder->close();
      closed.release();
    });
  }
  for (std::size_t i = 0; i < impl_->forwarders.size(); ++i) closed.acquire();
  impl_->http.reset();
  {
    const std::lock_guard lock(impl_->timer_mutex);
    impl_->is_ending = true;
  }
  impl_->sweeper.reset();
  // Its threads end, and with them whatever calls the rest.
  impl_->loop.reset();
}

void FrontServer::open() {
  HttpServerOptions http = impl_->options.http;
  http.loop = impl_->loop;
  impl_->http.emplace(
      std::move(http),
      [impl = impl_.get()](const HttpRequest& request) { return impl->metrics(request); },
      [](const HttpRequest&) { return std::optional<std::string>(); },
      [impl = impl_.get()](HttpRequest& request, const std::shared_ptr<HttpReply>& reply) {
        return impl->start(request, reply);
      });
}

std::uint16_t FrontServer::port() const { return impl_->http->port(); }

void FrontServer::set_certificates(const TlsOptions& options) {
  impl_->http->set_certificates(options);
}

void FrontServer::add(const std::shared_ptr<Node>& node) {
  node->strikes = 0;
  node->is_abandoned = false;
  impl_->state->nodes.add(node);
  impl_->wake_all();
}

void FrontServer::remove(const Node& node) { impl_->state->nodes.remove(node); }

void FrontServer::abandon(Node& node) {
  impl_->state->nodes.remove(node);
  node.is_abandoned = true;
  impl_->wake_all();
}

void FrontServer::set_reason(std::string reason) { impl_->state->set_reason(std::move(reason)); }

void FrontServer::get(const std::shared_ptr<Node>& node, const std::string& path,
                      const Deadline& deadline, OnReply on_reply) {
  auto request = std::make_shared<HttpRequest>();
  request->method = "GET";
  request->target = path;
  request->is_from_this_host = true;
  impl_->forwarder_here().ask(
      node, request, deadline,
      [on_reply = std::move(on_reply)](const NodeAnswer& answer) { on_reply(reply_of(answer)); });
}

void FrontServer::probe(const std::shared_ptr<Node>& node, const Deadline& deadline,
                        OnReply on_reply) {
  const auto sample = impl_->state->sample.get();
  if (!sample) {
    return get(node, "/readyz", deadline,
               [node, on_reply = std::move(on_reply)](const Reply& reply) {
                 if (reply.status == 200) node->forget_latency();
                 on_reply(reply);
               });
  }
  impl_->forwarder_here().ask(node, sample, deadline,
                              [state = impl_->state, node, sent = Node::Clock::now(),
                               on_reply = std::move(on_reply)](const NodeAnswer& answer) {
                                // A node that gets no requests since it was slow is seen to be fast
                                // again.
                                if (answer.response) node->note_latency(Node::Clock::now() - sent);
                                // Not a request for this node any more: its model is gone, or its
                                // token.
                                if (answer.response && answer.response->status != 200)
                                  state->sample.forget();
                                on_reply(reply_of(answer));
                              });
}

void FrontServer::set_ready_without_nodes(bool is_ready) {
  impl_->is_ready_without_nodes = is_ready;
}

FrontCounts& FrontServer::counts() { return impl_->state->counts; }
std::size_t FrontServer::waiting() const { return impl_->state->waiting; }

void FrontServer::begin_drain() {
  impl_->is_draining = true;
  if (impl_->http) impl_->http->begin_drain();
}

bool FrontServer::drain(const Deadline& deadline) {
  begin_drain();
  return !impl_->http || impl_->http->drain(deadline);
}

}  // namespace muster::serving
