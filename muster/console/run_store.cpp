#include "muster/console/run_store.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <system_error>
#include <utility>

#include "muster/base/error.h"
#include "muster/data/summary/recorded_runs.h"

namespace muster::console {
namespace {

namespace fs = std::filesystem;

constexpr int kDeepest = 8;
constexpr std::size_t kMostRuns = 10'000;
constexpr std::size_t kMostFolders = 50'000;

bool is_evaluation(const std::string& name) { return name == "eval" || name.starts_with("eval_"); }

bool holds_no_runs(const std::string& name) {
  return name.starts_with('.') || name == "export" || name == "ps_log";
}

bool is_inside(const Path& path, const Path& folder) {
  const auto [end, ignored] = std::mismatch(folder.begin(), folder.end(), path.begin(), path.end());
  return end == folder.end();
}

/// Entries of a folder that matter here.
struct Listing {
  bool has_events = false;
  bool has_notes = false;
  std::vector<std::string> evaluations{};
  std::vector<std::string> others{};
};

Listing listing_of(const Path& folder) {
  Listing listing;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    const auto kind = it->symlink_status(error).type();
    if (kind == fs::file_type::regular) {
      const bool is_whole = !name.starts_with('.');
      listing.has_events = listing.has_events || (is_whole && name.find("tfevents.") != name.npos);
      listing.has_notes = listing.has_notes || name == kNotesFile;
    } else if (kind == fs::file_type::directory && !holds_no_runs(name)) {
      (is_evaluation(name) ? listing.evaluations : listing.others).push_back(name);
    }
  }
  std::ranges::sort(listing.evaluations);
  std::ranges::sort(listing.others);
  return listing;
}

// The last path component, told apart by a number where several are the same.
std::vector<std::string> labels_of(const std::vector<Path>& roots) {
  std::vector<std::string> labels;
  for (const Path& root : roots) {
    const std::string name = root.filename().string();
    std::string label = name;
    for (int n = 2; std::ranges::find(labels, label) != labels.end(); ++n) {
      label = fmt::format("{}~{}", name, n);
    }
    labels.push_back(label);
  }
  return labels;
}

Path checked_root(const Path& folder) {
  if (folder.string().find("://") != std::string::npos && !folder.string().starts_with("file://")) {
    throw InvalidArgument(
        "--logdir {}: only folders of this host can be watched; muster fs cp copies a remote one",
        folder.string());
  }
  std::error_code error;
  const Path path = fs::canonical(strip_file_scheme(folder), error);
  if (error) throw NotFound("--logdir: there is no folder {}", folder.string());
  if (!fs::is_directory(path)) throw InvalidArgument("--logdir {} is no folder", folder.string());
  return path;
}

std::int64_t as_step(double value) {
  constexpr double kMost = 9e18;
  return static_cast<std::int64_t>(std::clamp(value, -kMost, kMost));
}

// The steps of a range of time are those of the points in it.
std::pair<std::int64_t, std::int64_t> steps_of(const CurveRange& range,
                                               const std::vector<Point>& points) {
  if (!range.is_of_time) return {as_step(std::ceil(range.from)), as_step(std::floor(range.to))};
  const auto from = std::ranges::lower_bound(points, range.from, {}, &Point::time);
  const auto to = std::ranges::upper_bound(points, range.to, {}, &Point::time);
  // Up to its neighbours: there may be points in between that were not kept.
  return {from == points.begin() ? points.front().step : std::prev(from)->step,
          to == points.end() ? points.back().step : to->step};
}

// Curve of a tag, which must exist.
Curve curve_of(const RunCurves& curves, const std::string& tag,
               const std::optional<CurveRange>& range, std::size_t most) {
  const ScalarSeries& series = *curves.find(tag);
  Curve curve{.points = series.points()};
  if (range && !curve.points.empty()) {
    const auto [first, last] = steps_of(*range, curve.points);
    curve.points = curves.between(tag, first, last, most);
  }
  if (most > 0) curve.points = downsampled(curve.points, most);
  curve.is_whole = series.is_whole() && curve.points.size() == series.count();
  return curve;
}

}  // namespace

struct RunStore::Run {
  std::string id{};
  Path folder{};
  std::mutex mutex{};
  // All below are guarded by it.
  RunCurves training;
  std::map<std::string, RunCurves> evaluations{};
  std::string record{};
  std::string notes_problem{};
  RunNotes notes{};
  bool is_read = false;
  bool may_have_changed = true;
  // Something was read that read_next() has not told of.
  bool has_news = false;
  // Its summary as of the last read, for lists, which wait for no reader. Has a mutex of its own.
  mutable std::mutex shown_mutex{};
  RunSummary shown{};

  Run(std::string name, const Path& path)
      : id(std::move(name)), folder(path), training(path), shown{.id = id, .folder = path} {}

  RunSummary shown_summary() const {
    const std::lock_guard lock(shown_mutex);
    return shown;
  }

  // Under the mutex.
  void show() {
    RunSummary now = summary();
    const std::lock_guard lock(shown_mutex);
    shown = std::move(now);
  }

  // Under the mutex: act(evaluation, curves) of training, "", and of evaluations.
  template <typename Act>
  void for_each(const Act& act) const {
    act(std::string(), training);
    for (const auto& [name, curves] : evaluations) act(name, curves);
  }

  // Under the mutex.
  void read() {
    bool changed = training.poll();
    for (auto& [name, curves] : evaluations) changed = curves.poll() || changed;
    std::string last = last_record();
    RunNotes now = last_notes();
    has_news = has_news || changed || last != record || now != notes || !is_read;
    record = std::move(last);
    notes = std::move(now);
    is_read = true;
    may_have_changed = false;
    show();
  }

  // Under the mutex.
  std::string last_record() {
    notes_problem.clear();
    try {
      auto records = recorded_runs(folder);
      return records.empty() ? std::string() : std::move(records.back());
    } catch (const Error& error) {
      notes_problem = error.what();
      return {};
    }
  }

  // Under the mutex.
  RunNotes last_notes() {
    try {
      return read_run_notes(folder);
    } catch (const Error& error) {
      if (notes_problem.empty()) notes_problem = error.what();
      return {};
    }
  }

  // Under the mutex.
  RunSummary summary() const {
    RunSummary out{.id = id,
                   .folder = folder,
                   .record = record,
                   .is_read = is_read,
                   .points = training.count(),
                   .last_step = training.last_step(),
                   .first_time = training.first_time(),
                   .last_time = training.last_time(),
                   .tags = training.tags(),
                   .has_media = training.media().count() > 0,
                   .notes = notes,
                   .problem = training.problem()};
    if (out.problem.empty()) out.problem = notes_problem;
    for (const auto& [name, curves] : evaluations) {
      out.evaluations[name] = curves.tags();
      out.points += curves.count();
      out.has_media = out.has_media || curves.media().count() > 0;
      if (out.problem.empty()) out.problem = curves.problem();
      out.last_step = std::max(out.last_step, curves.last_step());
    }
    return out;
  }
};

RunStore::RunStore(const std::vector<Path>& log_folders) {
  for (const Path& folder : log_folders) {
    const Path root = checked_root(folder);
    if (std::ranges::find(roots_, root) == roots_.end()) roots_.push_back(root);
  }
  labels_ = labels_of(roots_);
  for (const Path& root : roots_) visit(root, 0);
}

std::string RunStore::id_of(const Path& folder) const {
  for (std::size_t i = 0; i < roots_.size(); ++i) {
    if (!is_inside(folder, roots_[i])) continue;
    const std::string below = folder.lexically_relative(roots_[i]).string();
    if (below == ".") return labels_[i];
    return roots_.size() == 1 ? below : labels_[i] + "/" + below;
  }
  return {};
}

bool RunStore::is_ours(const Path& folder) const {
  return std::ranges::any_of(roots_, [&](const Path& root) { return is_inside(folder, root); });
}

bool RunStore::forget(const Path& folder) {
  const std::lock_guard lock(mutex_);
  std::erase_if(folders_, [&](const Path& path) { return is_inside(path, folder); });
  return std::erase_if(
             runs_, [&](const auto& entry) { return is_inside(entry.second->folder, folder); }) > 0;
}

bool RunStore::note_run(const Path& folder, const std::vector<std::string>& evaluations) {
  SharedRun run;
  bool is_new = false;
  {
    const std::lock_guard lock(mutex_);
    auto& place = runs_[id_of(folder)];
    is_new = place == nullptr;
    if (is_new) place = std::make_shared<Run>(id_of(folder), folder);
    run = place;
  }
  const std::lock_guard lock(run->mutex);
  for (const std::string& name : evaluations) {
    run->evaluations.try_emplace(name, folder / name);
  }
  run->may_have_changed = true;
  return is_new;
}

bool RunStore::visit(const Path& folder, int depth) {
  {
    const std::lock_guard lock(mutex_);
    if (folders_.size() >= kMostFolders || runs_.size() >= kMostRuns) return false;
    folders_.insert(folder);
  }
  const Listing listing = listing_of(folder);
  std::vector<std::string> evaluations;
  for (const std::string& name : listing.evaluations) {
    if (listing_of(folder / name).has_events) evaluations.push_back(name);
    const std::lock_guard lock(mutex_);
    folders_.insert(folder / name);
  }
  bool changed = false;
  if (listing.has_events || listing.has_notes || !evaluations.empty()) {
    changed = note_run(folder, evaluations);
  }
  if (depth == kDeepest) return changed;
  for (const std::string& name : listing.others) {
    const auto is_known = [&] {
      const std::lock_guard lock(mutex_);
      return folders_.contains(folder / name);
    };
    if (!is_known()) changed = visit(folder / name, depth + 1) || changed;
  }
  return changed;
}

bool RunStore::look_at(const Path& folder) {
  if (!is_ours(folder)) return false;
  std::error_code error;
  if (!fs::is_directory(fs::symlink_status(folder, error))) return forget(folder);
  const bool is_of_evaluation =
      is_evaluation(folder.filename().string()) && is_ours(folder.parent_path());
  const Path place = is_of_evaluation ? folder.parent_path() : folder;
  const Path below = place.lexically_relative(
      *std::ranges::find_if(roots_, [&](const Path& root) { return is_inside(place, root); }));
  return visit(place,
               below == "." ? 0 : static_cast<int>(std::distance(below.begin(), below.end())));
}

std::vector<Path> RunStore::folders() const {
  const std::lock_guard lock(mutex_);
  return {folders_.begin(), folders_.end()};
}

std::vector<RunStore::SharedRun> RunStore::runs() const {
  const std::lock_guard lock(mutex_);
  std::vector<SharedRun> all;
  all.reserve(runs_.size());
  for (const auto& [id, run] : runs_) all.push_back(run);
  return all;
}

// Null for one that is not known.
RunStore::SharedRun RunStore::find(const std::string& id) const {
  const std::lock_guard lock(mutex_);
  const auto found = runs_.find(id);
  return found == runs_.end() ? nullptr : found->second;
}

RunStore::SharedRun RunStore::get(const std::string& id) const {
  SharedRun run = find(id);
  if (run == nullptr) throw NotFound("there is no such run");
  return run;
}

// All runs are looked through when none is left of the last time: once for every run would take
// long where there are thousands.
std::optional<RunStore::ReadRun> RunStore::read_next() {
  const std::lock_guard reading(reading_mutex_);
  for (bool has_looked = false;;) {
    while (!to_read_.empty()) {
      const SharedRun run = std::move(to_read_.back());
      to_read_.pop_back();
      const std::lock_guard lock(run->mutex);
      if (!run->may_have_changed && !run->has_news) continue;
      if (run->may_have_changed) run->read();
      return ReadRun{.id = run->id, .has_changed = std::exchange(run->has_news, false)};
    }
    if (std::exchange(has_looked, true)) return std::nullopt;
    to_read_ = runs();
    std::ranges::reverse(to_read_);
  }
}

std::vector<RunSummary> RunStore::list() const {
  const std::vector<SharedRun> all = runs();
  std::vector<RunSummary> list;
  list.reserve(all.size());
  for (const SharedRun& run : all) list.push_back(run->shown_summary());
  return list;
}

std::vector<Curve> RunStore::curves(const std::vector<WantedRun>& wanted, const std::string& tag,
                                    std::size_t most) {
  std::vector<Curve> out;
  for (const WantedRun& one : wanted) {
    const SharedRun run = find(one.id);
    if (run == nullptr) continue;
    const auto add = [&](const std::string& evaluation, const RunCurves& curves) {
      if (curves.find(tag) == nullptr) return;
      out.push_back(curve_of(curves, tag, one.range, most));
      out.back().run = one.id;
      out.back().evaluation = evaluation;
    };
    const std::lock_guard lock(run->mutex);
    if (run->may_have_changed) run->read();
    run->for_each(add);
  }
  return out;
}

std::vector<ScalarSummary> RunStore::scalars(const std::string& id) {
  const SharedRun run = get(id);
  std::vector<ScalarSummary> out;
  const std::lock_guard lock(run->mutex);
  if (run->may_have_changed) run->read();
  run->for_each([&](const std::string& evaluation, const RunCurves& curves) {
    for (const std::string& tag : curves.tags()) {
      const ScalarSeries& series = *curves.find(tag);
      ScalarSummary one{.evaluation = evaluation, .tag = tag, .count = series.count()};
      one.last = series.last();
      one.least = one.most = one.last;
      // The smallest and the largest value of every stretch are kept.
      for (const Point& point : series.points()) {
        if (!std::isfinite(point.value)) continue;
        if (!(point.value >= one.least.value)) one.least = point;
        if (!(point.value <= one.most.value)) one.most = point;
      }
      out.push_back(std::move(one));
    }
  });
  return out;
}

RunSummary RunStore::summary(const std::string& id) const {
  const SharedRun run = get(id);
  const std::lock_guard lock(run->mutex);
  return run->summary();
}

void RunStore::set_notes(const std::string& id, const RunNotes& notes) {
  const SharedRun run = get(id);
  const std::lock_guard lock(run->mutex);
  write_run_notes(run->folder, notes);
  run->notes = notes;
  run->show();
}

std::vector<RunMedia> RunStore::media(const std::vector<WantedRun>& wanted) {
  std::vector<RunMedia> out;
  for (const WantedRun& one : wanted) {
    const SharedRun run = find(one.id);
    if (run == nullptr) continue;
    const std::lock_guard lock(run->mutex);
    if (run->may_have_changed) run->read();
    run->for_each([&](const std::string& evaluation, const RunCurves& curves) {
      for (const auto& [key, places] : curves.media().places()) {
        out.push_back({.run = one.id, .evaluation = evaluation, .key = key, .places = places});
      }
    });
  }
  return out;
}

MediaItem RunStore::media_item(const std::string& id, const std::string& evaluation,
                               const MediaIndex::Key& key, std::int64_t step) {
  const SharedRun run = find(id);
  if (run == nullptr) throw NotFound("there is no such run");
  const std::lock_guard lock(run->mutex);
  std::optional<MediaItem> item;
  run->for_each([&](const std::string& name, const RunCurves& curves) {
    const auto found = curves.media().places().find(key);
    if (name != evaluation || found == curves.media().places().end()) return;
    const auto place = std::ranges::find(found->second, step, &MediaPlace::step);
    if (place != found->second.end()) item = curves.read_media(key, *place);
  });
  if (!item) throw NotFound("there is no such {} any more", name_of(key.first));
  return std::move(*item);
}

}  // namespace muster::console
