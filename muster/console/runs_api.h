#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <vector>

#include "muster/console/api_request.h"
#include "muster/console/file_watch.h"
#include "muster/console/live_updates.h"
#include "muster/console/run_store.h"
#include "muster/console/store_mirror.h"

namespace muster::console {

/// Requests of pages about runs:
///   GET runs          all of them, trials with the id of their study, and the lists of tags that
///                     they have, `tagSet` of a run being a place in `tagSets`
///   GET run           ?id=ID: its whole record, its scalars with their extremes, its files
///   POST run/notes    ?id=ID: notes that are kept beside it
///   GET scalars       ?run=ID&run=ID&tag=TAG&points=N: curves, as drawn; with from=X&to=X once per
///                     run only what lies there, in full where it is little; over=time: X are
///                     seconds since 1970 and no steps
///   GET scalars.csv   ?run=ID&tag=TAG: what is kept of them, as a file
///   GET media         ?run=ID&run=ID: images, histograms, texts, graphs and
///                     precision-recall curves that there are
///   GET media.item    ?run=ID&evaluation=NAME&kind=KIND&tag=TAG&step=N: one of them
///   GET media.bands   ?run=ID&evaluation=NAME&tag=TAG: how a histogram changes from step to step
/// and what they are told: the event `runs` with the ids of those that have changed, `list` when
/// there are others, and `studies` when trials have begun or ended.
class RunsApi {
 public:
  /// Shows runs in the folders of `mirrors`, which must outlive this.
  RunsApi(const StoreMirrors& mirrors, LiveUpdates& updates);
  ~RunsApi();

  serving::HttpResponse list();
  serving::HttpResponse show(const ApiRequest& request);
  serving::HttpResponse set_notes(const ApiRequest& request);
  serving::HttpResponse scalars(const ApiRequest& request);
  serving::HttpResponse csv(const ApiRequest& request);
  serving::HttpResponse media(const ApiRequest& request);
  serving::HttpResponse media_item(const ApiRequest& request);
  serving::HttpResponse media_bands(const ApiRequest& request);
  /// Where runs are, for what else may lie in their folders.
  const RunStore& store() const { return store_; }

 private:
  void look(const std::stop_token& stop);
  void look_at(const std::set<Path>& folders);
  /// How many runs had changed.
  std::size_t read_all(const std::stop_token& stop);

  const StoreMirrors& mirrors_;
  LiveUpdates& updates_;
  RunStore store_;
  std::mutex mutex_;
  std::condition_variable_any has_work_;
  std::set<Path> changed_;
  std::optional<FileWatch> watch_;
  std::jthread reader_;
};

}  // namespace muster::console
