#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "muster/serving/core/model_version.h"
#include "muster/serving/core/statistics.h"

namespace muster::serving {

/// A request that was answered.
struct AnsweredRequest {
  ModelVersionPtr version{};
  std::string signature{};
  Tensors inputs{};
  Tensors outputs{};
};

/// Sees requests that were answered, whatever the protocol, off the way of their answers. All
/// functions may be called from any thread.
class RequestObserver {
 public:
  virtual ~RequestObserver() = default;
  /// Whether it is to see a request, whose tensors are then copied.
  virtual bool wants(const ModelVersion& version, std::string_view signature) = 0;
  /// Called in a thread of the event loop, when the answer was given: work that takes long is for
  /// others.
  virtual void see(std::shared_ptr<const AnsweredRequest> request) noexcept = 0;
  /// Waits until it holds no version any more. Nothing is shown to it after that.
  virtual void close() = 0;
  /// For the page of metrics, in the form of Prometheus.
  virtual std::vector<Gauge> gauges() const = 0;
};

}  // namespace muster::serving
