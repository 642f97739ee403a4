#pragma once

#include <memory>
#include <optional>

#include "muster/serving/http/http_server.h"
#include "muster/serving/listener/blocking_pool.h"
#include "muster/serving/listener/client_connection.h"
#include "muster/serving/listener/event_loop.h"
#include "muster/serving/listener/fair_queue.h"
#include "muster/serving/listener/listener.h"

namespace muster::serving {

/// State that all connections of a server share.
struct HttpShared {
  HttpServerOptions options{};
  HttpServer::Handle handle{};
  HttpServer::QueueOf queue_of{};
  HttpServer::Start start{};
  EventLoop* loop = nullptr;
  std::optional<FairQueue> jobs{};
  std::optional<BlockingPool> workers{};
};

/// Null where the system has no room for it.
std::shared_ptr<ClientConnection> make_http_connection(AcceptedSocket socket,
                                                       std::shared_ptr<HttpShared> shared);

}  // namespace muster::serving
