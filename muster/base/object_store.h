#pragma once

#include <memory>

#include "muster/base/file_system.h"

namespace muster {

/// A file system that processes of several hosts write to, and that shows what is written later
/// than a disk does.
class SharedFileSystem : public FileSystem {
 public:
  /// A file of which others see as much as was written when sync() or close() was last called, for
  /// events and logs. Destroying it closes it.
  virtual std::unique_ptr<WritableFile> create_growing(const Path& path) = 0;
  /// Says that this process alone writes to a folder, as FolderClaim does, while what is returned
  /// lives: a file in it is renewed, and may be taken over when it was not for a while. A process
  /// that lost its claim so can no longer write files that lie directly in the folder.
  virtual std::shared_ptr<void> claim(const Path& folder) = 0;
};

/// A file system over objects: no folders, no rename that is one step, no append. Where FileSystem
/// says something that objects cannot do, this holds instead:
///   - A file of create() is not seen before close() returns, and then whole; destroyed
///     without close() it leaves no trace. So nothing is written under a temporary name.
///   - Folders are what keys have before a '/'. create_directories() leaves an empty object
///   "FOLDER/"
///     where nothing is below it yet; status() and list() see what they would see on a disk.
///   - rename() of a file copies and then removes; of a folder it throws Unimplemented. Several
///     files are published by writing the one last without which the others do not count.
///   - append() writes all of the file under a precondition: two that append lose nothing.
///   - sync() and sync_directory() have nothing to do, except for files that grow.
class ObjectStore : public SharedFileSystem {
 public:
  /// A file that must not be there when it is closed: of two that write it one wins, and the
  /// other's close() throws AlreadyExists.
  virtual std::unique_ptr<WritableFile> create_new(const Path& path) = 0;
};

/// The shared file system that serves this path; null for a disk's and for those that are only
/// read.
SharedFileSystem* shared_file_system_for(const Path& path);

/// The store that serves this path; null for file systems with folders and renames.
ObjectStore* object_store_for(const Path& path);

/// Whether a path has a scheme other than file://, so that the system's own calls cannot open it.
bool is_remote(const Path& path);

/// std::filesystem::absolute() and lexically_normal(), which would break a scheme; a remote path
/// stays as it is.
Path absolute_path(const Path& path);

}  // namespace muster
