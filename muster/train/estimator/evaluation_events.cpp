#include "muster/train/estimator/evaluation_events.h"

#include "muster/data/summary/event_writer.h"

namespace muster {

EvaluationEvents::EvaluationEvents() = default;
EvaluationEvents::~EvaluationEvents() = default;

EventWriter& EvaluationEvents::of(const Path& folder) {
  auto& writer = writers_[folder];
  if (writer == nullptr || writer->dropped() > 0 || !file_exists(writer->path())) {
    writer = std::make_unique<EventWriter>(folder);
  }
  return *writer;
}

}  // namespace muster
