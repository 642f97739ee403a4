#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "muster/base/error.h"
#include "muster/serving/http/http_exchange_internal.h"
#include "muster/serving/http/http_message.h"
#include "muster/serving/http/http_server.h"

namespace muster::serving {

/// Why a request is refused before it is whole.
struct HttpRefusal {
  int status = 400;
  ErrorCode code = ErrorCode::kInvalidArgument;
  std::string text{};
};

/// Makes requests of the bytes of a connection, one after the other, within limits. No socket:
/// bytes are put where it says. One thread at a time.
class HttpRequestReader {
 public:
  enum class Step {
    /// More bytes are needed.
    kReadMore,
    /// The header has just been taken, and is within the limits; the body comes next.
    kHeader,
    /// The request is whole.
    kWhole,
    /// It is refused: see refusal().
    kRefused,
  };

  /// The options outlive it.
  explicit HttpRequestReader(const HttpServerOptions& options);
  ~HttpRequestReader();
  HttpRequestReader(const HttpRequestReader&) = delete;
  HttpRequestReader& operator=(const HttpRequestReader&) = delete;

  /// Begins the next request. Whether bytes of it are there already; else the memory of the last
  /// one is given back.
  bool begin();
  bool has_bytes() const;

  /// Where the next bytes go; empty where a line is too long.
  std::span<char> prepare();
  void commit(std::size_t size);
  /// Takes what is there of the request.
  Step parse();
  /// Whether the client waits for an interim answer before it sends the body. Clients of HTTP/1.0
  /// know none, and one whose body is on its way waits for none.
  bool waits_for_continue() const;
  const HttpRefusal& refusal() const;

  /// The request that is whole, and what its answer has to know of it.
  HttpRequest take(HttpExchange& exchange);
  /// Gives back the share of the budget for bodies.
  void release_budget();
  /// No request follows.
  void end();
  /// Room for bytes that are dropped.
  std::span<char> prepare_to_drop();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::serving
