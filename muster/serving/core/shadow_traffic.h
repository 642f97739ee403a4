#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "muster/serving/core/model_store.h"
#include "muster/serving/core/request_observer.h"

namespace muster::serving {

/// A version that gets requests a second time.
struct ShadowRule {
  /// Model whose requests these are.
  std::string model{};
  /// Who computes them again: a version by number or label, of another model if one is named.
  std::string shadow_model{};
  VersionChoice shadow{};
  /// Part of the requests, 0 to 1.
  double share = 0;

  /// Reads "MODEL=VERSION:SHARE" or "MODEL=OTHER/VERSION:SHARE", where VERSION is a number or a
  /// label. Throws InvalidArgument.
  static ShadowRule parse(std::string_view text);
};

struct ShadowOptions {
  std::vector<ShadowRule> rules{};
  /// Numbers may differ by this much, or by this part of the larger one.
  double tolerance = 1e-4;
  /// Requests that are computed again at one time; others are dropped, and counted.
  std::int64_t most_in_flight = 64;
  /// Differences that are logged in a minute.
  std::int64_t most_logged = 10;
  std::chrono::milliseconds timeout = std::chrono::seconds(10);
  /// Level of the requests that are computed again: the lowest there is.
  std::uint64_t priority = BatchOptions().priority_levels;
};

/// Shadow traffic: a share of the requests to a model is computed again by another version, after
/// they were answered. The answers are compared, and go nowhere.
class ShadowTraffic final : public RequestObserver {
 public:
  /// The store outlives it.
  ShadowTraffic(ModelStore& store, ShadowOptions options);
  ~ShadowTraffic() override;

  bool wants(const ModelVersion& version, std::string_view signature) override;
  void see(std::shared_ptr<const AnsweredRequest> request) noexcept override;
  void close() override;
  std::vector<Gauge> gauges() const override;

 private:
  struct Impl;
  struct Flight;
  std::shared_ptr<Impl> impl_;
};

/// The first difference between the answers, in words; empty where there is none beyond the
/// tolerance.
std::string difference_of(const Tensors& answer, const Tensors& shadow, double tolerance);

}  // namespace muster::serving
