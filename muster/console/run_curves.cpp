#include "muster/console/run_curves.h"

#include <fmt/core.h>

#include <algorithm>

#include "muster/base/error.h"
#include "muster/console/scalar_events.h"
#include "muster/summary/event_reader.h"

namespace muster::console {
namespace {

// What one folder may take of memory, whatever its files say.
constexpr std::size_t kMostTags = 2000;
constexpr std::size_t kMostTagBytes = 512;
constexpr std::size_t kMostFiles = 1000;
constexpr std::size_t kMostPointsOfAll = std::size_t{4} << 20;
constexpr std::size_t kMostPointsOfOne = std::size_t{1} << 16;

}  // namespace

void RunCurves::find_files() {
  for (const Path& path : event_files(folder_)) {
    if (files_.size() >= kMostFiles) return;
    if (path.filename().string().starts_with('.')) continue;  // It is being written.
    const auto is_known =
        std::ranges::any_of(files_, [&](const EventTail& tail) { return tail.path() == path; });
    if (!is_known) files_.emplace_back(path);
  }
}

bool RunCurves::poll() {
  try {
    find_files();
  } catch (const Error&) {
    return false;  // The folder has gone; what was read of it stays.
  }
  const std::uint64_t before = count_;
  for (EventTail& file : files_) {
    file.poll([this](std::string_view record) { take(record); });
  }
  return count_ != before;
}

// Nothing for one that is not kept. Files of one scalar, or of long stretches of it, are common:
// the last one is found without a search.
ScalarSeries* RunCurves::series_of(std::string_view tag) {
  if (last_ != series_.end() && last_->first == tag) return &last_->second;
  last_ = series_.find(tag);
  if (last_ != series_.end()) return &last_->second;
  if (series_.size() >= kMostTags || tag.size() > kMostTagBytes) {
    has_too_many_tags_ = true;
    return nullptr;
  }
  last_ = series_.emplace(tag, ScalarSeries()).first;
  most_points_ = std::min(kMostPointsOfOne, kMostPointsOfAll / series_.size());
  return &last_->second;
}

void RunCurves::take(std::string_view record) {
  scan_scalars(record, [this](const ScalarEvent& event) {
    ScalarSeries* const series = series_of(event.tag);
    if (series == nullptr) return;
    series->add({event.step, event.time, event.value}, most_points_);
    last_step_ = event.step;
    if (count_ == 0) first_time_ = event.time;
    last_time_ = event.time;
    ++count_;
  });
}

std::string RunCurves::problem() const {
  for (const EventTail& file : files_) {
    if (file.problem().empty()) continue;
    return fmt::format("{}: {}", file.path().filename().string(), file.problem());
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
  for (const auto& [name, series] : series_) names.push_back(name);
  return names;
}

const ScalarSeries* RunCurves::find(std::string_view tag) const {
  const auto found = series_.find(tag);
  return found == series_.end() ? nullptr : &found->second;
}

}  // namespace muster::console
