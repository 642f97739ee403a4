#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "muster/base/file_system.h"

namespace muster::console {

/// An event file that is being written: each look at it hands on the records that came since the
/// last one. The file is not mapped, so truncating it does no harm, and links are not followed.
/// Belongs to one thread at a time.
class EventTail {
 public:
  /// A record, and where it begins in the file.
  using TakeRecord = std::function<void(std::string_view record, std::uint64_t offset)>;

  /// Bytes that a record takes in the file besides its data.
  static constexpr std::size_t kFrameBytes = 16;

  explicit EventTail(Path path) : path_(std::move(path)) {}

  /// Hands on what is new and whole. Never throws for what is in the file: problem() tells it.
  void poll(const TakeRecord& take);
  /// Hands on again what begins from `begin` on, where a record must begin, and ends up to
  /// `end`.
  void read_again(std::uint64_t begin, std::uint64_t end, const TakeRecord& take) const;

  const Path& path() const { return path_; }
  /// Up to where it has been read.
  std::uint64_t offset() const { return offset_; }
  /// Why it is not read further, or which record was skipped; empty if all is well.
  const std::string& problem() const { return problem_; }

 private:
  void poll_until(std::uint64_t end, const TakeRecord& take);
  std::size_t take_records(std::string_view bytes, const TakeRecord& take);
  std::size_t pass_over(std::string_view bytes, std::uint64_t at);

  Path path_;
  std::uint64_t offset_ = 0;
  // Whether the records that follow cannot be found, as a length is wrong.
  bool is_stuck_ = false;
  std::string problem_;
};

}  // namespace muster::console
