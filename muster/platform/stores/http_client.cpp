#include "muster/platform/stores/http_client.h"

#include <curl/curl.h>
#include <fmt/core.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <ctime>
#include <limits>
#include <mutex>
#include <optional>
#include <random>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/base/printable.h"
#include "muster/base/random.h"
#include "muster/base/wait.h"
#include "muster/platform/stores/large_buffer.h"

namespace muster::stores {
namespace {

constexpr std::size_t kMostHeaderLines = 200;
constexpr std::size_t kMostHeaderBytes = std::size_t{16} << 10;
constexpr long kMostRedirects = 5;
constexpr std::size_t kMostIdleHandles = 64;

std::string lower_case_of(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return std::tolower(c); });
  return lower;
}

std::string_view trimmed(std::string_view text) {
  const auto begin = text.find_first_not_of(" \t\r\n");
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r\n") - begin + 1);
}

/// OpenSSL writes to sockets whose other end may be gone, and curl is told to leave signals alone.
class WithoutSigpipe {
 public:
  WithoutSigpipe() {
    ::sigemptyset(&pipe_);
    ::sigaddset(&pipe_, SIGPIPE);
    sigset_t pending;
    ::sigpending(&pending);
    was_pending_ = ::sigismember(&pending, SIGPIPE) == 1;
    ::pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~WithoutSigpipe() {
    if (!was_pending_) {
      const timespec none{};
      while (::sigtimedwait(&pipe_, nullptr, &none) > 0) {
      }
    }
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  WithoutSigpipe(const WithoutSigpipe&) = delete;
  WithoutSigpipe& operator=(const WithoutSigpipe&) = delete;

 private:
  sigset_t pipe_;
  sigset_t before_;
  bool was_pending_ = false;
};

/// State of the running call for curl's callbacks.
struct Transfer {
  const HttpRequest* request = nullptr;
  HttpResponse* response = nullptr;
  const std::stop_token* stop = nullptr;
  std::size_t sent = 0;
  bool is_too_long = false;
  bool has_too_many_headers = false;
};

std::size_t take_header(char* bytes, std::size_t size, std::size_t count, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  const std::string_view line(bytes, size * count);
  HttpHeaders& headers = transfer.response->headers;
  if (line.starts_with("HTTP/")) {  // Another answer begins, after a redirect or a 100.
    headers.clear();
    transfer.response->body.clear();
    return line.size();
  }
  const auto colon = line.find(':');
  if (colon == line.npos) return line.size();
  if (headers.size() >= kMostHeaderLines || line.size() > kMostHeaderBytes) {
    transfer.has_too_many_headers = true;
    return 0;
  }
  headers.emplace_back(lower_case_of(line.substr(0, colon)), trimmed(line.substr(colon + 1)));
  return line.size();
}

std::size_t take_body(char* bytes, std::size_t size, std::size_t count, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  std::string& body = transfer.response->body;
  if (body.size() + size * count > transfer.request->most_answer_bytes) {
    transfer.is_too_long = true;
    return 0;
  }
  if (body.empty()) {
    reserve_large(body, std::min(transfer.request->expected_answer_bytes,
                                 transfer.request->most_answer_bytes));
  }
  body.append(bytes, size * count);
  return size * count;
}

std::size_t give_body(char* out, std::size_t size, std::size_t count, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  const std::size_t given = transfer.request->body.substr(transfer.sent).copy(out, size * count);
  transfer.sent += given;
  return given;
}

// curl asks for the body from its beginning when a kept connection turns out to be closed.
int rewind_body(void* user, curl_off_t offset, int origin) {
  auto& transfer = *static_cast<Transfer*>(user);
  if (origin != SEEK_SET) return CURL_SEEKFUNC_CANTSEEK;
  transfer.sent = static_cast<std::size_t>(offset);
  return CURL_SEEKFUNC_OK;
}

int look_at_stop(void* user, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  return static_cast<const Transfer*>(user)->stop->stop_requested() ? 1 : 0;
}

struct FreeHandle {
  void operator()(CURL* handle) const { curl_easy_cleanup(handle); }
};
using Handle = std::unique_ptr<CURL, FreeHandle>;

struct FreeList {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};
using HeaderList = std::unique_ptr<curl_slist, FreeList>;

HeaderList header_list(const HttpHeaders& headers) {
  HeaderList list;
  const auto add = [&list](const std::string& line) {
    curl_slist* longer = curl_slist_append(list.get(), line.c_str());
    if (longer == nullptr) throw ResourceExhausted("no memory for the headers of an HTTP request");
    static_cast<void>(list.release());
    list.reset(longer);
  };
  for (const auto& [name, value] : headers) {
    if ((name + value).find_first_of("\r\n") != std::string::npos) {
      throw InvalidArgument("the HTTP header {} has a line break in it", printable(name));
    }
    add(value.empty() ? name + ";" : fmt::format("{}: {}", name, value));
  }
  add("Expect:");  // A server that never says 100 would cost a second per upload.
  return list;
}

std::optional<std::chrono::milliseconds> retry_after(const HttpResponse& response) {
  const std::string text = response.header("retry-after");
  if (text.empty()) return std::nullopt;
  std::int64_t seconds = 0;
  const auto end = text.data() + text.size();
  if (std::from_chars(text.data(), end, seconds).ptr != end) {
    const std::int64_t date = parse_http_date(text);
    if (date == 0) return std::nullopt;
    seconds = date - std::int64_t{std::time(nullptr)};
  }
  return std::chrono::seconds(std::clamp<std::int64_t>(seconds, 0, 3600));
}

}  // namespace

std::string HttpResponse::header(std::string_view name) const {
  for (const auto& [key, value] : headers) {
    if (key == name) return value;
  }
  return "";
}

bool is_worth_a_retry(int status) {
  return status == 408 || status == 429 || status == 500 || status == 502 || status == 503 ||
         status == 504;
}

struct HttpClient::Impl {
  explicit Impl(HttpClientOptions given) : options(std::move(given)) {
    // Once per process, and never undone: other libraries may use curl too.
    static const CURLcode started = curl_global_init(CURL_GLOBAL_DEFAULT);
    if (started != CURLE_OK)
      throw Internal("libcurl cannot start: {}", curl_easy_strerror(started));
    if (options.ca_file.empty()) {
      if (const char* file = std::getenv("SSL_CERT_FILE")) options.ca_file = file;
    }
    std::random_device device;
    jitter_key = (std::uint64_t{device()} << 32) | device();
  }

  Handle take() {
    const std::lock_guard lock(mutex);
    if (idle.empty()) {
      Handle fresh(curl_easy_init());
      if (fresh == nullptr) throw ResourceExhausted("libcurl gives no handle");
      return fresh;
    }
    Handle handle = std::move(idle.back());
    idle.pop_back();
    return handle;
  }

  void give_back(Handle handle) {
    curl_easy_reset(handle.get());  // Keeps its connections.
    const std::lock_guard lock(mutex);
    if (idle.size() < kMostIdleHandles) idle.push_back(std::move(handle));
  }

  void set_up(CURL* handle, const HttpRequest& request, Transfer& transfer,
              const curl_slist* headers) const {
    const auto set = [handle](CURLoption option, auto value) {
      const CURLcode code = curl_easy_setopt(handle, option, value);
      if (code != CURLE_OK) throw Internal("libcurl: {}", curl_easy_strerror(code));
    };
    set(CURLOPT_URL, request.url.c_str());
    set(CURLOPT_NOSIGNAL, 1L);
#if LIBCURL_VERSION_NUM >= 0x075500
    set(CURLOPT_PROTOCOLS_STR, "http,https");
    set(CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
#else
    set(CURLOPT_PROTOCOLS, static_cast<long>(CURLPROTO_HTTP | CURLPROTO_HTTPS));
    set(CURLOPT_REDIR_PROTOCOLS, static_cast<long>(CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
    // Keys hold dots that must reach the server as they were signed.
    set(CURLOPT_PATH_AS_IS, 1L);
    set(CURLOPT_FOLLOWLOCATION, request.follow_redirects ? 1L : 0L);
    set(CURLOPT_MAXREDIRS, kMostRedirects);
    set(CURLOPT_FRESH_CONNECT, request.is_sent_once ? 1L : 0L);
    set(CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(options.connect_timeout.count()));
    set(CURLOPT_TIMEOUT_MS, static_cast<long>(request.timeout.count()));
    set(CURLOPT_LOW_SPEED_LIMIT, 1L);
    set(CURLOPT_LOW_SPEED_TIME, static_cast<long>(options.idle_timeout.count()));
    set(CURLOPT_BUFFERSIZE, 256L << 10);
    set(CURLOPT_UPLOAD_BUFFERSIZE, 512L << 10);
    set(CURLOPT_USERAGENT, "muster");
    set(CURLOPT_HTTPHEADER, headers);
    set(CURLOPT_HEADERFUNCTION, take_header);
    set(CURLOPT_HEADERDATA, &transfer);
    set(CURLOPT_WRITEFUNCTION, take_body);
    set(CURLOPT_WRITEDATA, &transfer);
    set(CURLOPT_NOPROGRESS, 0L);
    set(CURLOPT_XFERINFOFUNCTION, look_at_stop);
    set(CURLOPT_XFERINFODATA, &transfer);
    if (!options.ca_file.empty()) set(CURLOPT_CAINFO, options.ca_file.c_str());
    set(CURLOPT_SSL_VERIFYPEER, options.verify_certificates ? 1L : 0L);
    set(CURLOPT_SSL_VERIFYHOST, options.verify_certificates ? 2L : 0L);
    if (request.method == "HEAD") {
      set(CURLOPT_NOBODY, 1L);
    } else if (request.method == "PUT" || request.method == "POST") {
      set(CURLOPT_UPLOAD, 1L);
      set(CURLOPT_INFILESIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
      set(CURLOPT_READFUNCTION, give_body);
      set(CURLOPT_READDATA, &transfer);
      set(CURLOPT_SEEKFUNCTION, rewind_body);
      set(CURLOPT_SEEKDATA, &transfer);
    }
    if (request.method != "GET" && request.method != "HEAD") {
      set(CURLOPT_CUSTOMREQUEST, request.method.c_str());
    }
  }

  std::chrono::milliseconds random_wait(int tries, const RetryPolicy& policy) {
    const auto longest = static_cast<double>(policy.longest_wait.count());
    double most = static_cast<double>(policy.first_wait.count());
    for (int i = 1; i < tries && most < longest; ++i) most *= 2;
    Random random(jitter_key, drawn++, 0);
    return std::chrono::milliseconds(
        static_cast<std::int64_t>(random.uniform(0, std::min(most, longest))));
  }

  HttpClientOptions options;
  std::mutex mutex;
  std::vector<Handle> idle;
  std::uint64_t jitter_key = 0;
  std::atomic<std::uint64_t> drawn{0};
};

HttpClient::HttpClient(HttpClientOptions options)
    : impl_(std::make_unique<Impl>(std::move(options))) {}
HttpClient::~HttpClient() = default;

HttpResponse HttpClient::send_once(const HttpRequest& request, const std::stop_token& stop) {
  HttpResponse response;
  Transfer transfer{.request = &request, .response = &response, .stop = &stop};
  const HeaderList headers = header_list(request.headers);
  Handle handle = impl_->take();
  char reason[CURL_ERROR_SIZE] = "";
  CURLcode code = CURLE_OK;
  {
    const WithoutSigpipe guard;
    impl_->set_up(handle.get(), request, transfer, headers.get());
    curl_easy_setopt(handle.get(), CURLOPT_ERRORBUFFER, static_cast<char*>(reason));
    const BlockingRegion region(
        [&request] { return fmt::format("{} {}", request.method, loggable_url(request.url)); });
    code = curl_easy_perform(handle.get());
  }
  long status = 0;
  curl_easy_getinfo(handle.get(), CURLINFO_RESPONSE_CODE, &status);
  response.status = static_cast<int>(status);
  // One that failed may hold a connection in an unknown state; curl closes that with the handle.
  if (code == CURLE_OK) impl_->give_back(std::move(handle));
  if (code == CURLE_OK) return response;

  const std::string where = fmt::format("{} {}", request.method, loggable_url(request.url));
  if (stop.stop_requested()) throw Cancelled("{} was cancelled", where);
  if (transfer.is_too_long) {
    throw ResourceExhausted("{}: the answer is longer than the {} bytes that are allowed here",
                            where, request.most_answer_bytes);
  }
  if (transfer.has_too_many_headers) {
    throw ResourceExhausted("{}: the answer has too many or too long headers", where);
  }
  const std::string why = printable(reason[0] != '\0' ? reason : curl_easy_strerror(code));
  if (code == CURLE_OPERATION_TIMEDOUT) throw DeadlineExceeded("{}: {}", where, why);
  if (code == CURLE_URL_MALFORMAT || code == CURLE_UNSUPPORTED_PROTOCOL) {
    throw InvalidArgument("{}: {}", where, why);
  }
  if (code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE) {
    throw PermissionDenied(
        "{}: {}; install ca-certificates, or name the certificate to trust in SSL_CERT_FILE", where,
        why);
  }
  throw Unavailable("{}: {}", where, why);
}

HttpResponse HttpClient::send(const std::string& what, const MakeRequest& make,
                              const RetryPolicy& policy, const std::stop_token& stop,
                              const IsFlawed& is_flawed) {
  const auto begin = Deadline::Clock::now();
  for (int tries = 1;; ++tries) {
    std::string why;
    std::exception_ptr failure;
    HttpResponse response;
    try {
      response = send_once(make(tries), stop);
      const bool flawed = is_flawed && is_flawed(response);
      if (!is_worth_a_retry(response.status) && !flawed) return response;
      why = fmt::format("status {}", response.status);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kUnavailable && error.code() != ErrorCode::kDeadlineExceeded) {
        throw;
      }
      failure = std::current_exception();
      why = error.what();
    }
    const auto asked = failure == nullptr ? retry_after(response) : std::nullopt;
    const auto wait_for =
        std::max(asked.value_or(std::chrono::milliseconds(0)), impl_->random_wait(tries, policy));
    const bool is_over =
        tries >= policy.most_tries || Deadline::Clock::now() + wait_for - begin > policy.most_time;
    if (is_over && failure != nullptr) std::rethrow_exception(failure);
    if (is_over) return response;
    log::warning("{} failed, retrying in {} ms try={} of={}: {}", what, wait_for.count(), tries,
                 policy.most_tries, why);
    if (!nap(stop, wait_for)) throw Cancelled("{} was cancelled", what);
  }
}

std::string loggable_url(std::string_view url) {
  url = url.substr(0, url.find_first_of("?#"));
  const auto scheme = url.find("://");
  if (scheme == url.npos) return printable(url);
  const auto host = scheme + 3;
  const auto at = url.substr(host, url.find('/', host) - host).rfind('@');
  const std::string_view rest = url.substr(at == url.npos ? host : host + at + 1);
  return printable(fmt::format("{}{}", url.substr(0, host), rest));
}

UrlParts parse_url(std::string_view url) {
  UrlParts parts;
  const auto end = url.find("://");
  parts.scheme = lower_case_of(url.substr(0, std::min(end, url.size())));
  if (end == url.npos || (parts.scheme != "http" && parts.scheme != "https")) {
    throw InvalidArgument("'{}' is no URL such as https://host:port", loggable_url(url));
  }
  url.remove_prefix(end + 3);
  const auto slash = std::min(url.find_first_of("/?#"), url.size());
  parts.host = url.substr(0, slash);
  if (parts.host.empty()) throw InvalidArgument("a URL names no host: {}://", parts.scheme);
  parts.path = url.substr(slash, url.find_first_of("?#", slash) - slash);
  if (parts.path.empty()) parts.path = "/";
  return parts;
}

std::string percent_encoded(std::string_view text, bool keep_slashes) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool is_bare = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                         (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.' || c == '~' ||
                         (c == '/' && keep_slashes);
    if (is_bare) {
      out.push_back(c);
    } else {
      out += fmt::format("%{:02X}", byte);
    }
  }
  return out;
}

std::string percent_decoded(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned value = 0;
    const char* const digits = text.data() + i + 1;
    if (text[i] == '%' && i + 2 < text.size() &&
        std::from_chars(digits, digits + 2, value, 16).ptr == digits + 2) {
      out.push_back(static_cast<char>(value));
      i += 2;
    } else {
      out.push_back(text[i]);
    }
  }
  return out;
}

std::int64_t parse_http_date(std::string_view text) {
  const std::time_t seconds = curl_getdate(std::string(text).c_str(), nullptr);
  return seconds < 0 ? 0 : std::int64_t{seconds};
}

}  // namespace muster::stores
