#pragma once

#include "muster/base/file_system.h"
#include "muster/console/api_request.h"
#include "muster/console/example_files.h"
#include "muster/console/run_store.h"

namespace muster::console {

/// Requests of pages that try a model, beside predictions:
///   GET models/SERVER/MODEL/VERSION/form    words that the model knows for its inputs, and files
///                                           with examples, those that its run evaluated with first
///   GET models/SERVER/MODEL/VERSION/rows    ?file=NAME&from=N&count=N&input=NAME&input=NAME: rows
///                                           of such a file
class TryApi {
 public:
  /// `models_dir` may be empty; `runs` must outlive this. Throws NotFound for a folder of examples
  /// that is not there.
  TryApi(Path models_dir, const RunStore& runs, ExampleFilesOptions examples)
      : models_dir_(std::move(models_dir)), runs_(runs), files_(std::move(examples)) {}

  serving::HttpResponse form(const ApiRequest& request) const;
  /// Throws NotFound, InvalidArgument, DataLoss.
  serving::HttpResponse rows(const ApiRequest& request) const;

 private:
  Path models_dir_;
  const RunStore& runs_;
  ExampleFiles files_;
};

}  // namespace muster::console
