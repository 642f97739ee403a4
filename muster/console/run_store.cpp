#include "muster/console/run_store.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <system_error>
#include <utility>
#include <variant>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/data/summary/event.h"
#include "muster/data/summary/recorded_runs.h"

namespace muster::console {
namespace {

namespace fs = std::filesystem;

constexpr int kDeepest = 8;
constexpr std::size_t kMostRuns = 20'000;
constexpr std::size_t kMostFolders = 100'000;
// Fewer runs are read in no time.
constexpr std::size_t kFewestIndexed = 100;
// Points of runs that are kept in memory although they could be read again: 96 MiB.
constexpr std::size_t kMostHeldPoints = std::size_t{4} << 20;
// Files of a run that are read again in some hundredths of a second.
constexpr std::uint64_t kMostCheapBytes = std::uint64_t{8} << 20;

// Samples of a task ("machine.worker_0") are curves of its run, as evaluations are.
bool is_evaluation(const std::string& name) {
  return name == "eval" || name.starts_with("eval_") || name.starts_with("machine.");
}

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
        "{} is in a store, and there is no folder for a copy of its event files: set HOME or "
        "XDG_CACHE_HOME, or copy it by `muster fs cp`",
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
  /// Its event files, read.
  struct Curves {
    RunCurves training;
    std::map<std::string, RunCurves> evaluations{};

    explicit Curves(const Path& folder) : training(folder) {}

    // act(evaluation, curves) of training, "", and of evaluations.
    template <typename Act>
    void for_each(const Act& act) const {
      act(std::string(), training);
      for (const auto& [name, one] : evaluations) act(name, one);
    }
    bool poll() {
      bool has_changed = training.poll();
      for (auto& [name, one] : evaluations) has_changed = one.poll() || has_changed;
      return has_changed;
    }
    std::size_t held_points() const {
      std::size_t held = 0;
      for_each([&](const std::string&, const RunCurves& one) { held += one.held_points(); });
      return held;
    }
    std::uint64_t read_bytes() const {
      std::uint64_t bytes = 0;
      for_each([&](const std::string&, const RunCurves& one) { bytes += one.read_bytes(); });
      return bytes;
    }
  };

  const std::string id;
  const Path folder;
  std::mutex mutex{};
  // All below are guarded by it.
  std::vector<std::string> evaluations{};
  /// Null while they are not in memory.
  std::unique_ptr<Curves> curves{};
  /// The files that `shown` tells of.
  std::vector<SeenFile> files{};
  bool may_have_changed = true;
  // Something was read that read_next() has not told of.
  bool has_news = false;
  // When its curves were used; RunStore::use_mutex_ guards it. 0: they are not counted.
  std::uint64_t use = 0;
  // Its summary as of the last read, for lists, which wait for no reader. Has a mutex of its own.
  mutable std::mutex shown_mutex{};
  RunSummary shown{};

  Run(std::string name, const Path& path)
      : id(std::move(name)), folder(path), shown{.id = id, .folder = path} {}

  RunSummary shown_summary() const {
    const std::lock_guard lock(shown_mutex);
    return shown;
  }

  void show(RunSummary now) {
    const std::lock_guard lock(shown_mutex);
    shown = std::move(now);
  }

  // Under the mutex: what is new; nothing is read where files are those that `shown` tells of.
  // Returns whether they were others.
  bool read(RunTagSets& sets) {
    std::vector<SeenFile> now = files_of(folder, evaluations);
    may_have_changed = false;
    if (!curves && shown_summary().is_read && now == files) return false;
    const bool had_others = now != files;
    load(sets);
    files = std::move(now);
    return had_others;
  }

  // Under the mutex: with its curves in memory.
  void load(RunTagSets& sets) {
    if (!curves) curves = std::make_unique<Curves>(folder);
    for (const std::string& name : evaluations) {
      curves->evaluations.try_emplace(name, folder / name);
    }
    curves->poll();
    const RunSummary before = shown_summary();
    RunSummary now = summary(sets);
    has_news = has_news || !before.is_read || now.points != before.points ||
               now.record != before.record || now.notes != before.notes ||
               now.has_media != before.has_media || now.problem != before.problem ||
               now.last_time != before.last_time;
    show(std::move(now));
  }

  // Under the mutex: the curves as they are now.
  const Curves& up_to_date(RunTagSets& sets) {
    if (may_have_changed) read(sets);
    if (!curves) load(sets);
    return *curves;
  }

  // Under the mutex, with curves.
  RunSummary summary(RunTagSets& sets) const {
    const RunCurves& training = curves->training;
    RunSummary out{.id = id,
                   .folder = folder,
                   .is_read = true,
                   .points = training.count(),
                   .last_step = training.last_step(),
                   .first_time = training.first_time(),
                   .last_time = training.last_time(),
                   .has_media = training.media().count() > 0,
                   .problem = training.problem()};
    RunTags tags{.training = training.tags()};
    for (const auto& [name, one] : curves->evaluations) {
      tags.evaluations[name] = one.tags();
      out.points += one.count();
      out.has_media = out.has_media || one.media().count() > 0;
      if (out.problem.empty()) out.problem = one.problem();
      out.last_step = std::max(out.last_step, one.last_step());
    }
    out.tags = sets.shared(std::move(tags));
    read_notes(out);
    return out;
  }

  void read_notes(RunSummary& out) const {
    try {
      const auto records = recorded_runs(folder);
      if (!records.empty()) out.record = listed_fields(records.back());
    } catch (const Error& error) {
      if (out.problem.empty()) out.problem = error.what();
    }
    try {
      out.notes = read_run_notes(folder);
    } catch (const Error& error) {
      if (out.problem.empty()) out.problem = error.what();
    }
  }
};

RunStore::RunStore(const std::vector<Path>& log_folders) {
  for (const Path& folder : log_folders) {
    const Path root = checked_root(folder);
    if (std::ranges::find(roots_, root) == roots_.end()) roots_.push_back(root);
  }
  labels_ = labels_of(roots_);
  for (const Path& root : roots_) indices_.push_back(read_run_index(root, tag_sets_));
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

// Under the mutex. What the index has of it is shown until its files have been looked at.
RunStore::SharedRun RunStore::new_run(const Path& folder) {
  auto run = std::make_shared<Run>(id_of(folder), folder);
  for (std::size_t i = 0; i < roots_.size(); ++i) {
    if (!is_inside(folder, roots_[i])) continue;
    const auto found = indices_[i].find(folder.lexically_relative(roots_[i]).string());
    if (found == indices_[i].end()) break;
    run->shown = std::move(found->second.summary);
    run->shown.id = run->id;
    run->shown.folder = folder;
    run->shown.is_read = true;
    run->files = std::move(found->second.files);
    indices_[i].erase(found);
    break;
  }
  return run;
}

bool RunStore::note_run(const Path& folder, const std::vector<std::string>& evaluations) {
  SharedRun run;
  bool is_new = false;
  {
    const std::lock_guard lock(mutex_);
    auto& place = runs_[id_of(folder)];
    is_new = place == nullptr;
    if (is_new) place = new_run(folder);
    run = place;
  }
  const std::lock_guard lock(run->mutex);
  // One that has gone is a curve that was: what was read of it stays.
  for (const std::string& name : evaluations) {
    const auto at = std::ranges::lower_bound(run->evaluations, name);
    if (at == run->evaluations.end() || *at != name) run->evaluations.insert(at, name);
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
      ReadRun read{.id = run->id};
      std::optional<Held> held;
      {
        const std::lock_guard lock(run->mutex);
        if (!run->may_have_changed && !run->has_news) continue;
        if (run->may_have_changed && run->read(tag_sets_)) has_unsaved_ = true;
        read.has_changed = std::exchange(run->has_news, false);
        held = held_of(*run);
      }
      note_use(run, held);
      return read;
    }
    if (std::exchange(has_looked, true)) return std::nullopt;
    to_read_ = runs();
    std::ranges::reverse(to_read_);
  }
}

std::optional<RunStore::Held> RunStore::held_of(const Run& run) {
  if (!run.curves) return std::nullopt;
  return Held{.points = run.curves->held_points(),
              .is_cheap = run.curves->read_bytes() <= kMostCheapBytes};
}

// Curves that are read again in no time are given up where there are too many of them, those that
// were used least recently first.
void RunStore::note_use(const SharedRun& run, const std::optional<Held>& held) {
  if (!held) return;
  const std::lock_guard lock(use_mutex_);
  if (const auto before = used_.find(run->use); before != used_.end()) {
    held_points_ -= before->second.points;
    used_.erase(before);
  }
  run->use = 0;
  if (!held->is_cheap) return;
  run->use = ++last_use_;
  used_[run->use] = {.run = run, .points = held->points};
  held_points_ += held->points;
  for (auto use = used_.begin(); held_points_ > kMostHeldPoints && use != used_.end();) {
    const SharedRun other = use->second.run.lock();
    // The others' mutexes are only tried: those who have them may wait for this one.
    const std::unique_lock free = other == nullptr
                                      ? std::unique_lock<std::mutex>()
                                      : std::unique_lock(other->mutex, std::try_to_lock);
    if (other == run || (other != nullptr && !free)) {
      ++use;
      continue;
    }
    if (other != nullptr) {
      other->curves.reset();
      other->use = 0;
    }
    held_points_ -= use->second.points;
    use = used_.erase(use);
  }
}

std::size_t RunStore::held_points() const {
  const std::lock_guard lock(use_mutex_);
  return held_points_;
}

template <typename Act>
void RunStore::with_curves(const SharedRun& run, const Act& act) {
  std::optional<Held> held;
  {
    const std::lock_guard lock(run->mutex);
    run->up_to_date(tag_sets_).for_each(act);
    held = held_of(*run);
  }
  note_use(run, held);
}

void RunStore::save_index() {
  if (!has_unsaved_.exchange(false)) return;
  std::vector<Index> indices(roots_.size());
  for (const SharedRun& run : runs()) {
    const auto root =
        std::ranges::find_if(roots_, [&](const Path& one) { return is_inside(run->folder, one); });
    const std::lock_guard lock(run->mutex);
    if (!run->shown_summary().is_read || run->files.empty()) continue;
    indices[static_cast<std::size_t>(root - roots_.begin())].emplace(
        run->folder.lexically_relative(*root).string(),
        IndexedRun{.summary = run->shown_summary(), .files = run->files});
  }
  for (std::size_t i = 0; i < roots_.size(); ++i) {
    if (indices[i].size() < kFewestIndexed) continue;
    try {
      write_run_index(roots_[i], indices[i]);
    } catch (const Error& error) {
      log::info("no index is kept beside the runs, and the next console reads them again: {}",
                error.what());
    }
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
    with_curves(run, add);
  }
  return out;
}

std::vector<ScalarSummary> RunStore::scalars(const std::string& id) {
  const SharedRun run = get(id);
  std::vector<ScalarSummary> out;
  with_curves(run, [&](const std::string& evaluation, const RunCurves& curves) {
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

RunSummary RunStore::summary(const std::string& id) const { return get(id)->shown_summary(); }

std::string RunStore::record(const std::string& id) const {
  const SharedRun run = get(id);
  try {
    auto records = recorded_runs(run->folder);
    return records.empty() ? std::string() : std::move(records.back());
  } catch (const Error&) {
    return {};  // The summary has what is wrong.
  }
}

void RunStore::set_notes(const std::string& id, const RunNotes& notes) {
  const SharedRun run = get(id);
  const std::lock_guard lock(run->mutex);
  write_run_notes(run->folder, notes);
  RunSummary now = run->shown_summary();
  now.notes = notes;
  run->show(std::move(now));
}

std::vector<RunMedia> RunStore::media(const std::vector<WantedRun>& wanted) {
  std::vector<RunMedia> out;
  for (const WantedRun& one : wanted) {
    const SharedRun run = find(one.id);
    if (run == nullptr) continue;
    with_curves(run, [&](const std::string& evaluation, const RunCurves& curves) {
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
  std::optional<MediaItem> item;
  with_curves(run, [&](const std::string& name, const RunCurves& curves) {
    const auto found = curves.media().places().find(key);
    if (name != evaluation || found == curves.media().places().end()) return;
    const auto place = std::ranges::find(found->second, step, &MediaPlace::step);
    if (place != found->second.end()) item = curves.read_media(key, *place);
  });
  if (!item) throw NotFound("there is no such {} any more", name_of(key.first));
  return std::move(*item);
}

std::vector<std::pair<std::int64_t, HistogramData>> RunStore::histograms(
    const std::string& id, const std::string& evaluation, const std::string& tag) {
  std::vector<std::pair<std::int64_t, HistogramData>> found;
  with_curves(get(id), [&](const std::string& name, const RunCurves& curves) {
    const auto places = curves.media().places().find({MediaKind::kHistogram, tag});
    if (name != evaluation || places == curves.media().places().end()) return;
    for (const MediaPlace& place : places->second) {
      const Event event = curves.read_event(place);
      const auto* const summary = std::get_if<Summary>(&event.what);
      if (summary == nullptr) continue;
      for (const SummaryValue& value : *summary) {
        const auto* const histogram = std::get_if<HistogramData>(&value.data);
        if (value.tag == tag && histogram != nullptr) found.emplace_back(place.step, *histogram);
      }
    }
  });
  return found;
}

}  // namespace muster::console
