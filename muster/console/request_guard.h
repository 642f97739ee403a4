#pragma once

#include <string>
#include <vector>

#include "muster/serving/http/http_message.h"
#include "muster/serving/listener/access.h"

namespace muster::console {

struct GuardOptions {
  /// Names that this console is reached by, beside localhost and loopback's addresses.
  std::vector<std::string> host_names{};
  bool is_tls = false;
  bool allow_changes = false;
  serving::Access access{};
};

/// Access control of requests: pages of other sites, and names that foreign DNS leads here, get
/// nothing; requests that change something need more.
class RequestGuard {
 public:
  explicit RequestGuard(GuardOptions options);

  /// For all requests. Throws PermissionDenied for a host or origin that is not this console's.
  void check_origin(const serving::HttpRequest& request) const;
  /// For data. Throws an Error of UNAUTHENTICATED without a token that is known, if there are any.
  void check_read(const serving::HttpRequest& request) const;
  /// For what a page sends. Throws PermissionDenied without the page's own secret.
  void check_page(const serving::HttpRequest& request) const;
  /// For what changes something: all of that, --allow-changes, and a token of an admin.
  void check_change(const serving::HttpRequest& request) const;

  bool allow_changes() const { return options_.allow_changes; }
  /// Secret that pages send with every request; pages of other sites cannot read it.
  const std::string& page_secret() const { return page_secret_; }

 private:
  bool is_own_host(std::string_view host) const;

  GuardOptions options_;
  std::string page_secret_;
};

/// The headers that every answer has: no scripts, styles or frames of others.
void add_security_headers(serving::HttpResponse& answer);

inline constexpr const char* kPageSecretHeader = "X-Muster-Page";

}  // namespace muster::console
