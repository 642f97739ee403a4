#pragma once

#include <cstdint>

#include "muster/data/records/record.h"

namespace muster {

/// The records of a file that has been read from front to back, by number. Safe to use from any
/// thread.
class RecordTable {
 public:
  virtual ~RecordTable() = default;
  virtual std::uint64_t size() const = 0;
  /// The record of this number, which must be below size().
  virtual Record at(std::uint64_t number) const = 0;
  /// Whether the file is the one that was read, by its size and the time of its last change.
  virtual bool is_current() const = 0;
};

}  // namespace muster
