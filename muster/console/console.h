#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/file_system.h"
#include "muster/console/example_files.h"
#include "muster/console/jobs_api.h"
#include "muster/console/models_api.h"
#include "muster/console/request_guard.h"
#include "muster/console/store_mirror.h"
#include "muster/serving/http/http_message.h"

namespace muster::console {

struct ConsoleOptions {
  /// Folders with runs and studies below them.
  std::vector<Path> log_folders{};
  /// Where and how often folders of stores are mirrored.
  StoreMirrorOptions mirrors{};
  /// None: there is no page of jobs.
  std::optional<JobsOptions> jobs{};
  /// A folder of models (muster models), whose versions and stages are shown; empty: none.
  Path models_dir{};
  /// Without servers there are no pages of models.
  ModelsOptions models{};
  /// Files whose rows pages offer to try a model with.
  ExampleFilesOptions examples{};
  GuardOptions guard{};
};

/// Answers the requests of the pages of `muster console`, and serves the pages themselves. It knows
/// no sockets; an HttpServer hands it requests. All functions may be called from any thread.
class Console {
 public:
  /// Throws NotFound for a folder that is not there.
  explicit Console(ConsoleOptions options);
  ~Console();
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  /// Never throws: what goes wrong is the answer.
  serving::HttpResponse handle(serving::HttpRequest request) noexcept;
  /// Name of the queue in which a request waits when all workers are busy; nothing for one that is
  /// answered at once.
  static std::optional<std::string> queue_of(const serving::HttpRequest& request);

  /// Ends the streams of all pages: before the server that carries them goes.
  void close();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::console
