#pragma once

#include <chrono>
#include <string>

#include "muster/serving/http/http_message.h"

namespace muster::serving {

/// A request that is being answered: what its answer has to know of it.
struct HttpExchange {
  bool keep_alive = false;
  bool is_head = false;
  /// The version of HTTP: 10 or 11.
  unsigned version = 11;
  /// Method and path for the log; empty where requests are not logged.
  std::string logged{};
  std::chrono::steady_clock::time_point received{};
};

/// An answer of at most this many bytes goes out as one piece with its header.
inline constexpr std::size_t kJoinedAnswerBytes = 16 << 10;

/// The header of an answer, ended. `room` is a text that is not needed any more, for its memory.
std::string response_header(std::string room, const HttpResponse& answer,
                            const HttpExchange& exchange);

/// Writes the line of an answer to the log, once, where requests are logged.
void log_exchange(HttpExchange& exchange, const HttpResponse& answer, const std::string& peer);

}  // namespace muster::serving
