#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/file_system.h"
#include "muster/console/event_tail.h"
#include "muster/console/media_index.h"
#include "muster/console/scalar_series.h"

namespace muster {
struct Event;
}  // namespace muster

namespace muster::console {

/// The scalars of the event files of one folder, read once, and where all else is in them: poll()
/// takes what came since. One thread at a time.
class RunCurves {
 public:
  explicit RunCurves(Path folder) : folder_(std::move(folder)) {}
  RunCurves(const RunCurves&) = delete;
  RunCurves& operator=(const RunCurves&) = delete;

  /// Whether there was anything new.
  bool poll();

  const Path& folder() const { return folder_; }
  /// How many scalars were read.
  std::uint64_t count() const { return count_; }
  std::int64_t last_step() const { return last_step_; }
  /// When the first and the last of them was written, in seconds since 1970; 0: none was.
  double first_time() const { return first_time_; }
  double last_time() const { return last_time_; }
  /// Description of what is wrong with its files; empty if nothing is.
  std::string problem() const;

  std::vector<std::string> tags() const;
  /// Points that memory is taken for.
  std::size_t held_points() const;
  /// Bytes of its files that were read.
  std::uint64_t read_bytes() const;
  /// Nothing for a tag that it does not have.
  const ScalarSeries* find(std::string_view tag) const;

  /// The points of a tag from one step to another, with one neighbour on either side. Where fewer
  /// than `wish` of them were kept, the files are read again there: all points that there are, as
  /// long as that is a small part of the files.
  std::vector<Point> between(std::string_view tag, std::int64_t first, std::int64_t last,
                             std::size_t wish) const;

  const MediaIndex& media() const { return media_; }
  /// Reads the event that one of them is in, or one of them. Both throw NotFound where the file has
  /// changed and has it no more.
  Event read_event(const MediaPlace& place) const;
  MediaItem read_media(const MediaIndex::Key& key, const MediaPlace& place) const;

 private:
  /// A stretch of a file, so that it can be read again alone.
  struct Mark {
    std::uint64_t offset = 0;
    std::int64_t first_step = 0;
    std::int64_t lowest_step = 0;
    std::int64_t highest_step = 0;
    bool has_steps = false;
  };
  struct File {
    EventTail tail;
    std::vector<Mark> marks{};
  };

  void find_files();
  void take(File& file, std::string_view record, std::uint64_t offset);
  template <typename Act>
  void for_each_stretch(const Act& act) const;
  ScalarSeries read_again(std::string_view tag, std::int64_t first, std::int64_t last) const;
  std::uint64_t bytes_between(std::int64_t first, std::int64_t last) const;
  ScalarSeries* series_of(std::string_view tag);

  Path folder_;
  // In the order in which they were begun.
  std::vector<File> files_;
  struct Series {
    ScalarSeries points{};
    // The one that came after this one the last time: events repeat their scalars in one order.
    std::map<std::string, Series, std::less<>>::iterator next{};
    bool has_next = false;
  };
  using SeriesByTag = std::map<std::string, Series, std::less<>>;
  SeriesByTag series_;
  // Where the scalar before stands.
  SeriesByTag::iterator last_ = series_.end();
  MediaIndex media_;
  std::size_t most_points_ = 0;
  bool has_too_many_tags_ = false;
  std::uint64_t count_ = 0;
  std::int64_t last_step_ = 0;
  double first_time_ = 0;
  double last_time_ = 0;
};

}  // namespace muster::console
