#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/serving/listener/byte_budget.h"

namespace muster::serving {

using Headers = std::vector<std::pair<std::string, std::string>>;

/// An HTTP request as the edges of REST see it: whole, and with nothing of a socket in it.
struct HttpRequest {
  /// HEAD comes as GET: the server leaves out the body of the answer.
  std::string method{};
  /// Path and query as they came.
  std::string target{};
  Headers headers{};
  std::string body{};
  bool is_from_this_host = false;
  /// When its last byte came.
  std::chrono::steady_clock::time_point received = std::chrono::steady_clock::now();

  /// The first of that name, in any case; empty when there is none.
  std::string_view header(std::string_view name) const;
};

/// An answer that continues: bytes are sent as they come. Any thread may call, until the server is
/// destroyed.
class HttpStream {
 public:
  virtual ~HttpStream() = default;
  /// False when the client has gone, or takes so long that too much waits for it: nothing more is
  /// sent then.
  virtual bool send(std::string_view bytes) = 0;
  /// Ends it after what was sent.
  virtual void close() = 0;
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::string body{};
  Headers headers{};
  /// If there is one, the connection stays open after the body: this is called once with what
  /// sends the rest.
  std::function<void(std::shared_ptr<HttpStream> stream)> stream{};
};

/// Where the answer to a request goes when it is there. Any thread may call.
class HttpReply {
 public:
  virtual ~HttpReply() = default;
  /// Once.
  virtual void reply(HttpResponse answer) = 0;
};

/// The error of a whole call as a JSON body of its status.
HttpResponse error_answer_of(ErrorCode code, std::string_view text);

/// The HTTP status of an error, as TensorFlow Serving maps it.
int http_status_of(ErrorCode code);

/// Whether two header names, or words in headers, are the same in any case.
bool equal_ignoring_case(std::string_view a, std::string_view b);
/// Whether a list such as "gzip, deflate;q=0.5" has a word that is not ruled out by ;q=0.
bool accepts(std::string_view list, std::string_view word);

/// Text with %41 read as A. Throws InvalidArgument for a % without two digits.
std::string percent_decoded(std::string_view text);

/// Limits of what a compressed body may become.
struct InflateLimits {
  std::size_t most_bytes = std::size_t{64} << 20;
  /// Bytes out for each byte in.
  std::size_t most_ratio = 200;
  /// Grows with what is taken, if there is one.
  ByteBudget::Hold* hold = nullptr;
};

/// A compressed body that becomes larger than its limit: HTTP has a status of its own for it, 413.
class BodyTooLarge : public ResourceExhausted {
 public:
  using ResourceExhausted::ResourceExhausted;
};

/// A gzip or zlib stream, uncompressed. Throws InvalidArgument for damage, BodyTooLarge beyond a
/// limit, with nothing more than the limit taken, and ResourceExhausted where `hold` cannot grow.
std::string inflated(std::string_view bytes, const InflateLimits& limits);
/// As gzip.
std::string gzipped(std::string_view bytes);

}  // namespace muster::serving
