#include "muster/serving/listener/access.h"

#include <algorithm>

#include "muster/base/error.h"
#include "muster/base/lines.h"
#include "muster/base/sha256.h"

namespace muster::serving {
namespace {

using Unauthenticated = ErrorOf<ErrorCode::kUnauthenticated>;

constexpr std::size_t kMostTokenFileBytes = 1 << 20;
constexpr std::string_view kBearer = "Bearer ";

std::string_view trimmed(std::string_view text) {
  const auto begin = text.find_first_not_of(" \t");
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

bool is_bearer(std::string_view authorization) {
  if (authorization.size() < kBearer.size()) return false;
  for (std::size_t i = 0; i < kBearer.size(); ++i) {
    const char c = authorization[i];
    const char lower = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    const char wanted = kBearer[i] == 'B' ? 'b' : kBearer[i];
    if (lower != wanted) return false;
  }
  return true;
}

}  // namespace

Access Access::from_text(std::string_view text) {
  Access access;
  std::size_t number = 0;
  for (const std::string_view line : lines_of(without_byte_order_mark(text))) {
    ++number;
    const std::string_view content = trimmed(line.substr(0, line.find('#')));
    if (content.empty()) continue;
    const auto space = content.find_first_of(" \t");
    const std::string_view role = space == content.npos ? "" : trimmed(content.substr(space));
    if (role != "predict" && role != "admin") {
      throw InvalidArgument("line {}: a token and its role, predict or admin, are expected",
                            number);
    }
    const std::string_view token = content.substr(0, space);
    access.roles_[sha256_hex(token)] = role == "admin" ? Role::kAdmin : Role::kPredict;
    access.shortest_ = std::min(access.shortest_, token.size());
  }
  if (access.roles_.empty()) {
    throw InvalidArgument("there is no token; write one and its role, predict or admin, on a line");
  }
  return access;
}

Access Access::from_file(const Path& path) {
  const std::string text = read_file(path, kMostTokenFileBytes);
  try {
    return from_text(text);
  } catch (Error& error) {
    error.add_context(path.string());
    throw;
  }
}

void Access::check(Role needed, std::string_view authorization, bool is_from_this_host) const {
  if (!has_tokens()) {
    if (needed == Role::kPredict || is_from_this_host || remote_admin_) return;
    throw PermissionDenied(
        "only this host may change what is served; --tokens-file or --allow-remote-admin lets "
        "others");
  }
  if (!is_bearer(authorization)) {
    throw Unauthenticated("a token is needed: send the header Authorization: Bearer TOKEN");
  }
  const auto found = roles_.find(sha256_hex(trimmed(authorization.substr(kBearer.size()))));
  if (found == roles_.end()) throw Unauthenticated("the token is not known");
  if (needed == Role::kAdmin && found->second != Role::kAdmin) {
    throw PermissionDenied("the token's role is predict, and this call needs admin");
  }
}

}  // namespace muster::serving
