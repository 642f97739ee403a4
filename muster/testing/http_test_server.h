#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace muster::testing {

/// One request, as it came.
struct HttpCall {
  std::string method{};
  /// As it stood in the request line: still percent-encoded, without the query.
  std::string path{};
  std::string query{};
  /// Names in lower case.
  std::map<std::string, std::string> headers{};
  std::string body{};

  /// Empty where there is none.
  std::string header(const std::string& name) const;
  /// The decoded value of a parameter of the query; nothing where it is not given.
  std::optional<std::string> parameter(const std::string& name) const;
};

/// Answer to a call, or the way to fail it.
struct CannedResponse {
  int status = 200;
  std::vector<std::pair<std::string, std::string>> headers{};
  std::string body{};
  /// Waits so long first.
  std::chrono::milliseconds delay{0};
  /// Closes the connection without an answer.
  bool hang_up = false;
  /// Closes the connection after this many bytes of the body.
  std::optional<std::size_t> cut_after{};
  /// Value of Content-Length, where that is not the length of the body.
  std::optional<std::size_t> claimed_length{};
};

std::string percent_decoded(std::string_view text);

/// An HTTP/1.1 server on a free port of loopback, with a thread per connection, that answers as a
/// function says. For tests of clients: it can answer wrongly, late and not at all.
class HttpTestServer {
 public:
  /// Called from several threads at once.
  using Handler = std::function<CannedResponse(const HttpCall&)>;

  explicit HttpTestServer(Handler handler);
  ~HttpTestServer();
  HttpTestServer(const HttpTestServer&) = delete;
  HttpTestServer& operator=(const HttpTestServer&) = delete;

  /// "http://127.0.0.1:PORT".
  const std::string& url() const { return url_; }
  /// How many connections were accepted so far.
  int connections() const { return connections_; }
  int requests() const { return requests_; }

 private:
  void accept_loop();
  void serve(int descriptor);
  bool answer(int descriptor, const HttpCall& call);

  Handler handler_;
  int listening_ = -1;
  std::string url_;
  std::atomic<int> connections_{0};
  std::atomic<int> requests_{0};
  std::mutex mutex_;
  std::vector<int> open_;
  std::vector<std::jthread> threads_;
  std::atomic<bool> stopping_{false};
  std::jthread acceptor_;
};

}  // namespace muster::testing
