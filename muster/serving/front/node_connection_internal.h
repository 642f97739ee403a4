#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "muster/serving/front/node.h"
#include "muster/serving/http/http_message.h"

namespace boost::asio {
class io_context;
}  // namespace boost::asio

namespace muster::serving {

/// Outcome of a request to a node.
struct NodeAnswer {
  /// Nothing when none came.
  std::optional<HttpResponse> response{};
  /// Why none came: "it closed the connection".
  std::string failure{};
  /// Whether the node may have seen the request.
  bool was_sent = false;
};

/// A connection to a node, over HTTP/1.1: one request at a time. Belongs to the thread of `io`.
class NodeConnection {
 public:
  /// Called once for each request, with which the connection is free again or over.
  using OnAnswer = std::function<void(NodeAnswer answer)>;

  virtual ~NodeConnection() = default;

  /// Connects where it is not.
  virtual void ask(std::shared_ptr<const HttpRequest> request, OnAnswer on_answer) = 0;
  /// Fails what is in flight, with this reason, before it returns; the connection is over.
  virtual void abandon(const std::string& why) = 0;
  /// Whether another request may follow: it is free, and the node has not closed it.
  virtual bool can_ask() const = 0;
};

std::shared_ptr<NodeConnection> make_node_connection(boost::asio::io_context& io,
                                                     const NodeAddress& address);

/// Has the thread of `io` run a job. Any thread may call.
void run_in(boost::asio::io_context& io, std::function<void()> job);

}  // namespace muster::serving
