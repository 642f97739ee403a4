#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "muster/base/file_system.h"

namespace muster::console {

/// Reads an event file that may still be growing: each poll() hands on the records that came since
/// the last one. Nothing is mapped, so whoever cuts the file short does no harm, and links are not
/// followed. Belongs to one thread at a time.
class EventTail {
 public:
  explicit EventTail(Path path) : path_(std::move(path)) {}

  /// Hands on what is new and whole. Never throws for what is in the file: problem() tells it.
  void poll(const std::function<void(std::string_view record)>& take);

  const Path& path() const { return path_; }
  /// Up to where it has been read.
  std::uint64_t offset() const { return offset_; }
  /// Why it is not read further, or which record was passed over; empty if all is well.
  const std::string& problem() const { return problem_; }

 private:
  std::size_t take_records(std::string_view bytes,
                           const std::function<void(std::string_view)>& take);

  Path path_;
  std::uint64_t offset_ = 0;
  // What follows cannot be found, as a length is wrong.
  bool is_stuck_ = false;
  std::string problem_;
};

}  // namespace muster::console
