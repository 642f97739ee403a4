#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "muster/base/file_system.h"
#include "muster/data/summary/event.h"

namespace muster {

/// The event files of a folder, in the order in which they were begun. Subfolders are other runs
/// and are not looked into. Throws NotFound if there is no such folder.
std::vector<Path> event_files(const Path& folder);

/// Reads the events of one file, or of all files of a folder one after the other. One reader
/// belongs to one thread.
///
/// A file may still be growing: one that ends inside a record is at its end for now, and next()
/// gives nothing. Open another reader to see what came since.
class EventReader {
 public:
  /// Throws NotFound if there is no such file or folder, or no event file in the folder.
  explicit EventReader(const Path& file_or_folder);
  ~EventReader();
  EventReader(EventReader&&) noexcept;
  EventReader& operator=(EventReader&&) noexcept;

  /// The next event, the file versions among them, or nothing at the end. Throws DataLoss with
  /// file, record and offset on damage, and on a file that holds no events.
  std::optional<Event> next();

  /// The file that the last event came from.
  const Path& path() const;
  /// How many files so far ended inside a record.
  std::size_t torn_tails() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster
