#pragma once

#include "muster/console/api_request.h"
#include "muster/console/jobs_api.h"
#include "muster/console/studies_api.h"

namespace muster::console {

/// Changes of pages to studies:
///   POST study/stop ?id=ID       its trials save and exit, and no other begins
///   POST study/extend ?id=ID     {"trials": N}: a job runs N more trials
class StudyChanges {
 public:
  StudyChanges(const StudiesApi& studies, JobsApi& jobs) : studies_(studies), jobs_(jobs) {}

  /// Throws NotFound, FailedPrecondition for a study that no process of this host runs.
  serving::HttpResponse stop(const ApiRequest& request);
  /// Throws NotFound, InvalidArgument, and FailedPrecondition for a study that runs, that another
  /// user has written, or whose number of trials cannot change.
  serving::HttpResponse extend(const ApiRequest& request);

 private:
  const StudiesApi& studies_;
  JobsApi& jobs_;
};

}  // namespace muster::console
