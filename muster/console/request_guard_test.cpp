#include "muster/console/request_guard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"

namespace muster::console {
namespace {

serving::HttpRequest from(serving::Headers headers) {
  return {.method = "GET",
          .target = "/api/runs",
          .headers = std::move(headers),
          .is_from_this_host = true};
}

TEST(RequestGuard, AnswersToItsOwnNamesAlone) {
  const RequestGuard guard({.host_names = {"lab.example"}});
  for (const char* own :
       {"localhost:6800", "LOCALHOST", "127.0.0.1:1", "[::1]:6800", "[::1]", "lab.example:6800"}) {
    EXPECT_NO_THROW(guard.check_origin(from({{"Host", own}}))) << own;
  }
  // A name that foreign DNS leads to 127.0.0.1, among others.
  for (const char* other :
       {"evil.example:6800", "localhost.evil.example", "", "127.0.0.1.evil.example", "[::2]:6800",
        "localhost:6811@evil", "localhost:6811@evil.example:80", "localhost:6800,evil.example"}) {
    EXPECT_THROW(guard.check_origin(from({{"Host", other}})), PermissionDenied) << other;
  }
}

TEST(RequestGuard, PagesOfOtherSitesGetNothing) {
  const RequestGuard guard({});
  EXPECT_NO_THROW(
      guard.check_origin(from({{"Host", "localhost:6800"}, {"Origin", "http://localhost:6800"}})));
  for (const char* other :
       {"http://evil.example", "http://localhost:6801", "https://localhost:6800", "null"}) {
    EXPECT_THROW(guard.check_origin(from({{"Host", "localhost:6800"}, {"Origin", other}})),
                 PermissionDenied)
        << other;
  }
  EXPECT_THROW(guard.check_origin(from({{"Host", "localhost"}, {"Sec-Fetch-Site", "cross-site"}})),
               PermissionDenied);
  EXPECT_NO_THROW(guard.check_origin(from(
      {{"Host", "localhost"}, {"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Mode", "navigate"}})));
}

TEST(RequestGuard, ChangesNeedTheFlagAndThePagesSecret) {
  const RequestGuard only_shows({});
  EXPECT_THROW(only_shows.check_change(from({{kPageSecretHeader, only_shows.page_secret()}})),
               PermissionDenied);
  const RequestGuard guard({.allow_changes = true});
  EXPECT_NO_THROW(guard.check_change(from({{kPageSecretHeader, guard.page_secret()}})));
  EXPECT_THROW(guard.check_change(from({})), PermissionDenied);
  EXPECT_THROW(guard.check_change(from({{kPageSecretHeader, only_shows.page_secret()}})),
               PermissionDenied);
}

TEST(RequestGuard, TokensSayWhoMayLookAndWhoMayChange) {
  const RequestGuard guard(
      {.allow_changes = true,
       .access = serving::Access::from_text("looker predict\nchanger admin\n")});
  const auto with = [&](const char* token) {
    return from({{"Authorization", token}, {kPageSecretHeader, guard.page_secret()}});
  };
  EXPECT_THROW(guard.check_read(from({})), Error);
  EXPECT_THROW(guard.check_read(with("Bearer guess")), Error);
  EXPECT_NO_THROW(guard.check_read(with("Bearer looker")));
  EXPECT_THROW(guard.check_change(with("Bearer looker")), PermissionDenied);
  EXPECT_NO_THROW(guard.check_change(with("Bearer changer")));
}

}  // namespace
}  // namespace muster::console
