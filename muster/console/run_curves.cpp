#include "muster/console/run_curves.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "muster/base/error.h"
#include "muster/console/scalar_events.h"
#include "muster/data/summary/event.h"
#include "muster/data/summary/event_reader.h"

namespace muster::console {
namespace {

// Limits of the memory that one folder may take, whatever its files contain.
constexpr std::size_t kMostTags = 2000;
constexpr std::size_t kMostTagBytes = 512;
constexpr std::size_t kMostFiles = 1000;
constexpr std::size_t kMostPointsOfAll = std::size_t{4} << 20;
constexpr std::size_t kMostPointsOfOne = std::size_t{1} << 16;
// How much of a file is read again at least, and at most.
constexpr std::uint64_t kMarkBytes = std::uint64_t{256} << 10;
constexpr std::uint64_t kMostBytesAgain = std::uint64_t{64} << 20;

}  // namespace

void RunCurves::find_files() {
  for (const Path& path : event_files(folder_)) {
    if (files_.size() >= kMostFiles) return;
    if (path.filename().string().starts_with('.')) continue;  // It is being written.
    const auto is_known =
        std::ranges::any_of(files_, [&](const File& file) { return file.tail.path() == path; });
    if (!is_known) files_.push_back({.tail = EventTail(path)});
  }
}

bool RunCurves::poll() {
  try {
    find_files();
  } catch (const Error&) {
    return false;  // The folder has gone; what was read of it stays.
  }
  const std::uint64_t before = count_ + media_.count();
  for (File& file : files_) {
    file.tail.poll(
        [&](std::string_view record, std::uint64_t offset) { take(file, record, offset); });
  }
  return count_ + media_.count() != before;
}

// Nothing for one that is not kept. Files of one scalar, or of long stretches of it, are common:
// the last one is found without a search.
ScalarSeries* RunCurves::series_of(std::string_view tag) {
  const auto before = last_;
  const bool has_before = before != series_.end();
  if (has_before && before->first == tag) return &before->second.points;
  if (has_before && before->second.has_next && before->second.next->first == tag) {
    last_ = before->second.next;
    return &last_->second.points;
  }
  last_ = series_.find(tag);
  const auto follow = [&] {
    if (!has_before) return;
    before->second.next = last_;
    before->second.has_next = true;
  };
  if (last_ != series_.end()) {
    follow();
    return &last_->second.points;
  }
  if (series_.size() >= kMostTags || tag.size() > kMostTagBytes) {
    has_too_many_tags_ = true;
    return nullptr;
  }
  last_ = series_.emplace(tag, Series()).first;
  follow();
  most_points_ = std::min(kMostPointsOfOne, kMostPointsOfAll / series_.size());
  return &last_->second.points;
}

void RunCurves::take(File& file, std::string_view record, std::uint64_t offset) {
  if (file.marks.empty() || offset - file.marks.back().offset >= kMarkBytes) {
    file.marks.push_back({.offset = offset});
  }
  Mark& mark = file.marks.back();
  const bool has_media = scan_scalars(record, [&](const ScalarEvent& event) {
    ScalarSeries* const series = series_of(event.tag);
    if (series == nullptr) return;
    series->add({event.step, event.time, event.value}, most_points_);
    if (!std::exchange(mark.has_steps, true)) {
      mark.first_step = mark.lowest_step = mark.highest_step = event.step;
    }
    mark.lowest_step = std::min(mark.lowest_step, event.step);
    mark.highest_step = std::max(mark.highest_step, event.step);
    last_step_ = event.step;
    if (count_ == 0) first_time_ = event.time;
    last_time_ = event.time;
    ++count_;
  });
  if (!has_media) return;
  media_.note(decode_event(record), {.file = static_cast<std::size_t>(&file - files_.data()),
                                     .offset = offset,
                                     .end = offset + record.size() + EventTail::kFrameBytes});
}

Event RunCurves::read_event(const MediaPlace& place) const {
  std::optional<std::string> bytes;
  files_.at(place.file)
      .tail.read_again(place.offset, place.end,
                       [&](std::string_view record, std::uint64_t) { bytes.emplace(record); });
  if (!bytes) throw NotFound("the file has changed: there is no such record any more");
  return decode_event(*bytes);
}

MediaItem RunCurves::read_media(const MediaIndex::Key& key, const MediaPlace& place) const {
  return media_item(read_event(place), key.first, key.second);
}

// Calls act(file, mark, end) for every stretch with scalars, in the order of the run.
template <typename Act>
void RunCurves::for_each_stretch(const Act& act) const {
  for (const File& file : files_) {
    for (std::size_t i = 0; i < file.marks.size(); ++i) {
      if (!file.marks[i].has_steps) continue;
      const bool is_last = i + 1 == file.marks.size();
      act(file, file.marks[i], is_last ? file.tail.offset() : file.marks[i + 1].offset);
    }
  }
}

std::uint64_t RunCurves::bytes_between(std::int64_t first, std::int64_t last) const {
  std::uint64_t bytes = 0;
  for_each_stretch([&](const File&, const Mark& mark, std::uint64_t end) {
    if (mark.lowest_step <= last && mark.highest_step >= first) bytes += end - mark.offset;
  });
  return bytes;
}

ScalarSeries RunCurves::read_again(std::string_view tag, std::int64_t first,
                                   std::int64_t last) const {
  ScalarSeries series;
  const auto add = [&](const ScalarEvent& event) {
    if (event.tag != tag) return;
    series.resume_at(event.step);
    if (event.step < first || event.step > last) return;
    series.add({event.step, event.time, event.value}, kMostPointsOfOne);
  };
  for_each_stretch([&](const File& file, const Mark& mark, std::uint64_t end) {
    if (mark.lowest_step > last || mark.highest_step < first) {
      // Also a stretch that is not seen may be one of a run that was resumed before this one.
      return series.resume_at(mark.first_step);
    }
    file.tail.read_again(mark.offset, end, [&](std::string_view record, std::uint64_t) {
      scan_scalars(record, add);
    });
  });
  return series;
}

std::vector<Point> RunCurves::between(std::string_view tag, std::int64_t first, std::int64_t last,
                                      std::size_t wish) const {
  const ScalarSeries* const kept = find(tag);
  if (kept == nullptr) return {};
  const std::vector<Point> all = kept->points();
  const auto begin = std::ranges::lower_bound(all, first, {}, &Point::step);
  const auto end = std::ranges::upper_bound(all, last, {}, &Point::step);
  std::vector<Point> inside(begin, std::max(begin, end));
  if (!kept->is_whole() && inside.size() < wish && bytes_between(first, last) <= kMostBytesAgain) {
    inside = read_again(tag, first, last).points();
  }
  if (begin != all.begin()) inside.insert(inside.begin(), *(begin - 1));
  if (end != all.end()) inside.push_back(*end);
  return inside;
}

std::string RunCurves::problem() const {
  for (const auto& [tail, marks] : files_) {
    if (tail.problem().empty()) continue;
    return fmt::format("{}: {}", tail.path().filename().string(), tail.problem());
  }
  if (has_too_many_tags_) {
    return fmt::format(
        "more than {} tags, or names of more than {} bytes: the others are not shown", kMostTags,
        kMostTagBytes);
  }
  return {};
}

std::vector<std::string> RunCurves::tags() const {
  std::vector<std::string> names;
  names.reserve(series_.size());
  for (const auto& [name, series] : series_) names.push_back(name);
  return names;
}

std::size_t RunCurves::held_points() const {
  std::size_t held = 0;
  for (const auto& [name, series] : series_) held += series.points.held();
  return held;
}

std::uint64_t RunCurves::read_bytes() const {
  std::uint64_t bytes = 0;
  for (const File& file : files_) bytes += file.tail.offset();
  return bytes;
}

const ScalarSeries* RunCurves::find(std::string_view tag) const {
  const auto found = series_.find(tag);
  return found == series_.end() ? nullptr : &found->second.points;
}

}  // namespace muster::console
