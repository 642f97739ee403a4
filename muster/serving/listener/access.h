#pragma once

#include <cstddef>
#include <limits>
#include <map>
#include <string>
#include <string_view>

#include "muster/base/file_system.h"

namespace muster::serving {

/// Permissions of a caller. An admin may do all.
enum class Role { kPredict, kAdmin };

/// Who may call. Without tokens, anybody may ask for predictions, and only processes of this host
/// may change what is served.
class Access {
 public:
  Access() = default;
  /// A file with one token and its role, predict or admin, a line; '#' begins a comment. Throws
  /// NotFound, and InvalidArgument with the number of the line.
  static Access from_file(const Path& path);
  static Access from_text(std::string_view text);

  /// Lets other hosts change what is served without a token. For networks that are trusted.
  void allow_remote_admin() { remote_admin_ = true; }
  bool has_tokens() const { return !roles_.empty(); }
  /// Whether a token is so short that it can be guessed over a network: fewer than
  /// kSafeTokenCharacters.
  bool has_short_token() const { return shortest_ < kSafeTokenCharacters; }
  static constexpr std::size_t kSafeTokenCharacters = 16;

  /// `authorization` is the value of that header, "Bearer TOKEN" or empty. Throws an Error of
  /// UNAUTHENTICATED without a token that is known, PermissionDenied for one that is not enough.
  void check(Role needed, std::string_view authorization, bool is_from_this_host) const;

 private:
  // By the SHA-256 of a token: how long a comparison takes says nothing of the token.
  std::map<std::string, Role, std::less<>> roles_;
  std::size_t shortest_ = std::numeric_limits<std::size_t>::max();
  bool remote_admin_ = false;
};

}  // namespace muster::serving
