#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "muster/base/wait.h"
#include "muster/serving/front/front_counts.h"
#include "muster/serving/front/node.h"
#include "muster/serving/http/http_server.h"
#include "muster/serving/listener/access.h"

namespace muster::serving {

struct FrontOptions {
  /// Address, port, TLS and limits. Its loop is the front's.
  HttpServerOptions http{};
  /// For a request, its wait for a node included; zero: none.
  std::chrono::milliseconds timeout{30'000};
  /// Requests that may wait for a node.
  std::size_t most_waiting = 1024;
  /// Who may read the metrics; all else is checked by the nodes.
  Access access{};
  /// Path of TensorFlow Serving's metrics; empty: none.
  std::string prometheus_path = "/monitoring/prometheus/metrics";
  /// The nodes' metrics of a path as one page.
  std::function<std::string(const std::string& path)> metrics{};
  /// The page /nodes, as JSON, with the points of its history after `since`.
  std::function<std::string(std::chrono::system_clock::time_point since)> nodes{};
};

/// One address before many nodes: takes requests over HTTP and passes each on to a node, that of
/// two by chance with fewer in flight. What a node fails is sent to another one, once, where that
/// is safe: predictions and reads are. Any thread may call it.
class FrontServer {
 public:
  explicit FrontServer(FrontOptions options);
  /// Refuses what is still in flight.
  ~FrontServer();
  FrontServer(const FrontServer&) = delete;
  FrontServer& operator=(const FrontServer&) = delete;

  /// Listens from now on. Throws as HttpServer does.
  void open();
  std::uint16_t port() const;
  void set_certificates(const TlsOptions& options);

  /// The node gets requests from now on; those that wait go first.
  void add(const std::shared_ptr<Node>& node);
  /// The node gets no more requests.
  void remove(const Node& node);
  /// The same, and what it has is failed, and sent elsewhere where that is safe.
  void abandon(Node& node);
  /// Why there is no node, for requests that wait, and for their answers when they wait too long.
  void set_reason(std::string reason);

  /// Answer of a node to a request of the front's own.
  struct Reply {
    /// 0 where no answer came.
    int status = 0;
    std::string body{};
    std::string failure{};
  };
  using OnReply = std::function<void(const Reply& reply)>;
  /// Asks for a page; `on_reply` is called by a thread of the loop.
  void get(const std::shared_ptr<Node>& node, const std::string& path, const Deadline& deadline,
           OnReply on_reply);
  /// Asks something that only a node that computes can answer: a prediction that was answered
  /// right, or where there was none yet whether the node is ready. `on_reply` gets status 0 only
  /// where no answer came.
  void probe(const std::shared_ptr<Node>& node, const Deadline& deadline, OnReply on_reply);

  /// Whether it is ready also where there is no node: one is started when a request comes.
  void set_ready_without_nodes(bool is_ready);

  FrontCounts& counts();
  std::size_t waiting() const;

  /// Takes no more connections; /readyz says so.
  void begin_drain();
  /// The same, and waits for the requests that are there. False when some are left.
  bool drain(const Deadline& deadline);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::serving
