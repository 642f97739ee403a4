#pragma once

#include <optional>
#include <string>

#include "muster/base/folder_claim.h"

namespace muster::cli {

/// Where a batch prediction works. Its shards grow and are locked, which files of a store cannot:
/// for an output folder in one it works in a folder under TMPDIR, the same one for a command that
/// is given again, and what it has made is copied at the end. Holds the claim of the output folder.
class BatchWorkspace {
 public:
  /// Throws FailedPrecondition when another process writes to the output folder, AlreadyExists when
  /// a store has results there that no job of this host left.
  explicit BatchWorkspace(const std::string& output_path);

  /// On this host.
  const Path& folder() const { return folder_; }
  /// Copies the results and, last, what says that the job has ended; then the folder goes. Does
  /// nothing where the output folder is one of this host.
  void publish() const;

 private:
  const Path output_;
  const Path folder_;
  std::optional<FolderClaim> claim_;
};

}  // namespace muster::cli
