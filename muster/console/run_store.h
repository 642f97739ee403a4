#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/file_system.h"
#include "muster/console/run_curves.h"
#include "muster/console/run_index.h"
#include "muster/console/run_notes.h"
#include "muster/console/run_summary.h"
#include "muster/data/summary/histogram.h"

namespace muster::console {

/// A scalar of a run, and where it was smallest and largest.
struct ScalarSummary {
  /// "" of training, else the evaluation.
  std::string evaluation{};
  std::string tag{};
  std::uint64_t count = 0;
  Point last{};
  Point least{};
  Point most{};
};

/// Data other than scalars that a run shows under one tag.
struct RunMedia {
  std::string run{};
  std::string evaluation{};
  MediaIndex::Key key{};
  std::vector<MediaPlace> places{};
};

/// One curve of a run.
struct Curve {
  std::string run{};
  /// "" of training, else the evaluation.
  std::string evaluation{};
  std::vector<Point> points{};
  /// Whether these are all that there were.
  bool is_whole = true;
};

/// Visible range of a curve: from one step, or one second since 1970, to another.
struct CurveRange {
  bool is_of_time = false;
  double from = 0;
  double to = 0;
};

/// A run whose curves are wanted.
struct WantedRun {
  std::string id{};
  /// Nothing: all of it.
  std::optional<CurveRange> range{};
};

/// The runs below some folders. Ids are looked up and never become paths; symbolic links are not
/// followed. All functions may be called from any thread.
class RunStore {
 public:
  /// Throws NotFound for a folder that is not there, InvalidArgument for one that is none or that
  /// is not of this host.
  explicit RunStore(const std::vector<Path>& log_folders);

  /// Looks at a folder and at those inside it that are new, and forgets those that are gone.
  /// Returns whether there are others than before. Folders that are not below the given ones are
  /// skipped.
  bool look_at(const Path& folder);
  /// All folders that were found, to be watched.
  std::vector<Path> folders() const;
  /// How pages name such a folder.
  std::string id_of(const Path& folder) const;

  /// Reads what is new of the event files of one run that may have changed since it was read.
  /// Nothing when there is none left. The caller repeats it in the background.
  struct ReadRun {
    std::string id{};
    bool has_changed = false;
  };
  std::optional<ReadRun> read_next();

  /// All runs, by id, as they are known now: nothing is waited for.
  std::vector<RunSummary> list() const;
  /// The curves of a tag, those of evaluations behind that of training. Reads what is new. Runs
  /// that are not known or have no such tag are missing. `most` points each; 0: all that are kept.
  std::vector<Curve> curves(const std::vector<WantedRun>& wanted, const std::string& tag,
                            std::size_t most);
  /// All scalars of a run, those of evaluations behind those of training. Reads what is new. Throws
  /// NotFound.
  std::vector<ScalarSummary> scalars(const std::string& id);
  bool has(const std::string& id) const { return find(id) != nullptr; }
  /// The run as it is known now. Throws NotFound.
  RunSummary summary(const std::string& id) const;
  /// All of its last record in muster.json, a JSON object; empty if there is none or it is damaged.
  /// Throws NotFound.
  std::string record(const std::string& id) const;
  /// Keeps what is known of the runs beside them (run_index.h), where that has changed and there
  /// are so many that reading them takes a while. A folder that may not be written is skipped.
  void save_index();
  /// Points of curves that are in memory.
  std::size_t held_points() const;
  /// Keeps notes beside a run. Throws NotFound.
  void set_notes(const std::string& id, const RunNotes& notes);
  /// Data of runs other than scalars. Runs that are not known are missing.
  std::vector<RunMedia> media(const std::vector<WantedRun>& wanted);
  /// One of it, that of a step. Throws NotFound.
  MediaItem media_item(const std::string& run, const std::string& evaluation,
                       const MediaIndex::Key& key, std::int64_t step);
  /// The histograms of a tag of a run, by step. Empty where it has none.
  std::vector<std::pair<std::int64_t, HistogramData>> histograms(const std::string& run,
                                                                 const std::string& evaluation,
                                                                 const std::string& tag);
  /// The folders below which there are runs, as they were given.
  const std::vector<Path>& roots() const { return roots_; }

 private:
  struct Run;
  using SharedRun = std::shared_ptr<Run>;
  using Index = std::map<std::string, IndexedRun>;

  bool is_ours(const Path& folder) const;
  bool visit(const Path& folder, int depth);
  bool note_run(const Path& folder, const std::vector<std::string>& evaluations);
  bool forget(const Path& folder);
  std::vector<SharedRun> runs() const;
  SharedRun find(const std::string& id) const;
  SharedRun get(const std::string& id) const;
  SharedRun new_run(const Path& folder);
  // Curves of a run that are in memory.
  struct Held {
    std::size_t points = 0;
    bool is_cheap = false;
  };
  struct Use {
    std::weak_ptr<Run> run{};
    std::size_t points = 0;
  };
  static std::optional<Held> held_of(const Run& run);
  void note_use(const SharedRun& run, const std::optional<Held>& held);
  // act(evaluation, curves) of training, "", and of evaluations, as they are now.
  template <typename Act>
  void with_curves(const SharedRun& run, const Act& act);

  std::vector<Path> roots_;
  std::vector<std::string> labels_;
  mutable std::mutex mutex_;
  std::map<std::string, SharedRun> runs_;
  std::set<Path> folders_;
  std::mutex reading_mutex_;
  // Runs that read_next() has still to look at, the next one last.
  std::vector<SharedRun> to_read_;
  RunTagSets tag_sets_;
  // Indices of the roots, in their order; runs that are found take their entries out.
  std::vector<Index> indices_;
  std::atomic<bool> has_unsaved_{false};

  mutable std::mutex use_mutex_;
  // All below are guarded by it: runs whose curves are in memory, by when they were used last.
  std::map<std::uint64_t, Use> used_;
  std::uint64_t last_use_ = 0;
  std::size_t held_points_ = 0;
};

}  // namespace muster::console
