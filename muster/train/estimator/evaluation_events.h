#pragma once

#include <map>
#include <memory>

#include "muster/base/file_system.h"

namespace muster {

class EventWriter;

/// The event files of one estimator's evaluations: one a folder, which stays open from one
/// evaluation to the next and is closed with this. Belongs to the estimator's thread.
class EvaluationEvents {
 public:
  EvaluationEvents();
  ~EvaluationEvents();
  EvaluationEvents(const EvaluationEvents&) = delete;
  EvaluationEvents& operator=(const EvaluationEvents&) = delete;

  /// The writer of this folder, valid until the next call. A new file is begun where there is none
  /// yet, it was removed, or it has lost events to a failure.
  EventWriter& of(const Path& folder);

 private:
  std::map<Path, std::unique_ptr<EventWriter>> writers_;
};

}  // namespace muster
