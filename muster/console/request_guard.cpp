#include "muster/console/request_guard.h"

#include <algorithm>
#include <string_view>

#include "muster/base/error.h"
#include "muster/base/sha256.h"
#include "muster/orchestration/launch/secret.h"

namespace muster::console {
namespace {

// "localhost:6800" without the port; "[::1]:6800" keeps its brackets. What is after the colon must
// be a number: in "localhost:6800@evil", the host is another.
std::string_view without_port(std::string_view host) {
  const auto colon = host.rfind(':');
  if (colon == host.npos || host.find(']', colon) != host.npos) return host;
  if (host.find_first_not_of("0123456789", colon + 1) != host.npos) return host;
  return host.substr(0, colon);
}

}  // namespace

RequestGuard::RequestGuard(GuardOptions options)
    : options_(std::move(options)), page_secret_(launch::draw_secret()) {}

bool RequestGuard::is_own_host(std::string_view host) const {
  const std::string_view name = without_port(host);
  for (const std::string_view own : {"localhost", "127.0.0.1", "[::1]"}) {
    if (serving::equal_ignoring_case(name, own)) return true;
  }
  return std::ranges::any_of(options_.host_names, [&](const std::string& own) {
    return serving::equal_ignoring_case(name, own);
  });
}

void RequestGuard::check_origin(const serving::HttpRequest& request) const {
  const std::string_view host = request.header("Host");
  if (!is_own_host(host)) {
    throw PermissionDenied(
        "this console does not answer to that host; start it with --host-name if it is its own");
  }
  const std::string_view origin = request.header("Origin");
  const std::string own = std::string(options_.is_tls ? "https://" : "http://") + std::string(host);
  const std::string_view site = request.header("Sec-Fetch-Site");
  const bool is_other_site = site == "cross-site" || site == "same-site";
  const bool is_navigation = request.header("Sec-Fetch-Mode") == "navigate";
  if ((!origin.empty() && origin != own) || (is_other_site && !is_navigation)) {
    throw PermissionDenied("pages of other sites may not ask this console");
  }
}

void RequestGuard::check_read(const serving::HttpRequest& request) const {
  options_.access.check(serving::Role::kPredict, request.header("Authorization"),
                        request.is_from_this_host);
}

void RequestGuard::check_page(const serving::HttpRequest& request) const {
  check_read(request);
  // By their digests: how long a comparison takes says nothing of the secret.
  if (sha256_hex(request.header(kPageSecretHeader)) != sha256_hex(page_secret_)) {
    throw PermissionDenied("the page is older than this console; load it again");
  }
}

void RequestGuard::check_change(const serving::HttpRequest& request) const {
  check_page(request);
  if (!options_.allow_changes) {
    throw PermissionDenied(
        "this console only shows; start it with --allow-changes to change things");
  }
  options_.access.check(serving::Role::kAdmin, request.header("Authorization"),
                        request.is_from_this_host);
}

void add_security_headers(serving::HttpResponse& answer) {
  answer.headers.emplace_back("Content-Security-Policy",
                              "default-src 'none'; script-src 'self'; style-src 'self'; "
                              "connect-src 'self'; img-src 'self'; "
                              "base-uri 'none'; form-action 'none'; frame-ancestors 'none'");
  answer.headers.emplace_back("X-Content-Type-Options", "nosniff");
  answer.headers.emplace_back("X-Frame-Options", "DENY");
  answer.headers.emplace_back("Referrer-Policy", "no-referrer");
  answer.headers.emplace_back("Cross-Origin-Opener-Policy", "same-origin");
  answer.headers.emplace_back("Cross-Origin-Resource-Policy", "same-origin");
}

}  // namespace muster::console
