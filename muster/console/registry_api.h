#pragma once

#include <functional>
#include <string>

#include "muster/base/file_system.h"
#include "muster/console/api_request.h"

namespace muster::console {

/// Requests of pages to a folder of models (muster models):
///   GET registry                           models, their versions, stages and what they come from
///   POST registry/MODEL/VERSION/stage      {"stage": ..., "reason": ...}
class RegistryApi {
 public:
  /// Gives a run's folder its name in pages; "" of one that is below no folder with runs.
  using RunName = std::function<std::string(const Path& folder)>;

  RegistryApi(Path models_dir, RunName run_name)
      : models_dir_(std::move(models_dir)), run_name_(std::move(run_name)) {}

  serving::HttpResponse list() const;
  /// Throws NotFound, InvalidArgument for a stage that there is not or a change without a reason.
  serving::HttpResponse set_stage(const ApiRequest& request) const;

 private:
  Path models_dir_;
  RunName run_name_;
};

}  // namespace muster::console
