#pragma once

#include <optional>
#include <string>

#include "muster/base/file_system.h"

namespace muster {

/// Which commit of a repository is checked out.
struct GitState {
  /// The folder that has .git.
  Path repository{};
  /// Hexadecimal; empty before the first commit.
  std::string commit{};
  /// Empty where no branch is checked out.
  std::string branch{};

  bool operator==(const GitState&) const = default;
};

/// The repository that a local folder is in; nothing if there is none. Reads a few small files
/// (HEAD, the branch's file, packed-refs) and runs no program, so it cannot say whether files were
/// changed since the commit. What is damaged counts as absent.
std::optional<GitState> git_state_of(const Path& folder);

}  // namespace muster
