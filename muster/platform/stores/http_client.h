#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace muster::stores {

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

struct HttpRequest {
  std::string method = "GET";
  std::string url{};
  HttpHeaders headers{};
  /// Borrowed while the call runs.
  std::string_view body{};
  /// A longer answer is ResourceExhausted, before memory is taken for it.
  std::uint64_t most_answer_bytes = std::uint64_t{64} << 20;
  /// Memory that is taken at once, for an answer whose length is known.
  std::uint64_t expected_answer_bytes = 0;
  /// The whole call, whatever comes.
  std::chrono::milliseconds timeout = std::chrono::seconds(60);
  bool follow_redirects = false;
  /// By a connection of its own: one that was kept may have been closed meanwhile, and the request
  /// would be sent again without a word. For calls that must not be made twice.
  bool is_sent_once = false;
};

struct HttpResponse {
  int status = 0;
  /// Names in lower case. Of the last answer, where redirects were followed.
  HttpHeaders headers{};
  std::string body{};

  bool is_success() const { return status >= 200 && status < 300; }
  /// Empty where there is none.
  std::string header(std::string_view name) const;
};

struct HttpClientOptions {
  std::chrono::milliseconds connect_timeout = std::chrono::seconds(10);
  /// A call in which no byte comes or goes for so long is over.
  std::chrono::seconds idle_timeout{30};
  /// Certificates to trust instead of the system's; SSL_CERT_FILE where this is empty.
  std::string ca_file{};
  bool verify_certificates = true;
};

/// How often, and how long, a call is tried again.
struct RetryPolicy {
  int most_tries = 12;
  std::chrono::milliseconds first_wait{100};
  std::chrono::milliseconds longest_wait = std::chrono::seconds(10);
  /// From the first try on. A server that asks for more patience (Retry-After) gets no more.
  std::chrono::milliseconds most_time = std::chrono::minutes(5);
};

/// Whether a status tells of a server that may answer in a while: 408, 429, 500, 502, 503, 504.
bool is_worth_a_retry(int status);

/// Makes HTTP calls. Connections are kept and used again. Any thread may call it. What it logs and
/// throws has URLs without user, query and headers, so that no secret is among it.
class HttpClient {
 public:
  explicit HttpClient(HttpClientOptions options = {});
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  /// One call. Any status is an answer. Throws Unavailable, naming the host and the reason, when
  /// the connection cannot be made or breaks, and for an answer that is shorter than it said;
  /// DeadlineExceeded when the time is over; Cancelled when `stop` is asked for.
  HttpResponse send_once(const HttpRequest& request, const std::stop_token& stop = {});

  /// Makes the request before every try, for signatures that hold a time.
  using MakeRequest = std::function<HttpRequest(int tries)>;
  /// Whether an answer that came is to be tried again although its status does not say so.
  using IsFlawed = std::function<bool(const HttpResponse&)>;

  /// Calls until an answer comes that is not worth a retry, with waits that double, of a random
  /// length (full jitter), or as the server asks. Where tries or time run out, the last answer is
  /// returned, or the last failure thrown. `what` names the call in logs: "reading
  /// s3://bucket/key".
  HttpResponse send(const std::string& what, const MakeRequest& make,
                    const RetryPolicy& policy = {}, const std::stop_token& stop = {},
                    const IsFlawed& is_flawed = {});

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// The URL as a log may have it: without user, password, query and fragment.
std::string loggable_url(std::string_view url);
/// "http://host:port/path?query" in parts; the path begins with '/'.
struct UrlParts {
  std::string scheme{};
  /// With the port, where one is given.
  std::string host{};
  std::string path{};
};
/// Throws InvalidArgument for what is no http or https URL.
UrlParts parse_url(std::string_view url);
/// All but letters, digits and "-_.~" become %XX; '/' stays where it is asked for.
std::string percent_encoded(std::string_view text, bool keep_slashes = false);
std::string percent_decoded(std::string_view text);
/// "Fri, 24 May 2013 00:00:00 GMT" in seconds since 1970; 0 for what is no such date.
std::int64_t parse_http_date(std::string_view text);

}  // namespace muster::stores
