#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "muster/base/error.h"

namespace muster::serving {

/// Counts of values by size. The bounds grow by a factor, as those of TensorFlow Serving do.
class Histogram {
 public:
  /// Bounds at scale, scale * growth, ..., so many; the last bucket is everything above.
  Histogram(double scale, double growth, std::size_t bounds);

  void add(double value);
  std::uint64_t count() const { return count_; }
  double sum() const { return sum_; }
  const std::vector<double>& bounds() const { return bounds_; }
  /// Values up to each bound, and all of them at the end, as Prometheus has it.
  std::vector<std::uint64_t> cumulative() const;

 private:
  std::vector<double> bounds_;
  std::vector<std::uint64_t> counts_;
  std::uint64_t count_ = 0;
  double sum_ = 0;
};

/// A request that was answered or refused.
struct CallRecord {
  std::string model{};
  /// Negative when none was found.
  std::int64_t version = -1;
  std::string signature{};
  /// "Predict", "Classify", "Regress", "MultiInference".
  std::string_view method = "Predict";
  /// "REST" or "GRPC".
  std::string_view entrypoint = "REST";
  ErrorCode code = ErrorCode::kOk;
  std::int64_t rows = 0;
  std::int64_t batch_rows = 0;
  std::chrono::steady_clock::duration latency{};
  std::chrono::steady_clock::duration queued{};
  std::chrono::steady_clock::duration computed{};
};

/// Counters of one version.
struct VersionCounts {
  std::uint64_t success = 0;
  std::uint64_t failure = 0;
  std::uint64_t rows = 0;
  /// Batches: each request counts as its share of one.
  double executions = 0;
  std::uint64_t success_ns = 0;
  std::uint64_t failure_ns = 0;
  std::uint64_t queued_ns = 0;
  std::uint64_t computed_ns = 0;
  /// Milliseconds since 1970; 0 when there was none.
  std::uint64_t last_ms = 0;
};

/// A number that is asked for when the page is written.
struct Gauge {
  std::string name{};
  std::string help{};
  /// As Prometheus writes them, without braces: model="m",version="1".
  std::vector<std::pair<std::string, double>> values{};
  /// In Prometheus' words.
  const char* type = "gauge";
};

/// The requests of a server, counted. All functions may be called from any thread.
class Statistics {
 public:
  Statistics();

  void record(const CallRecord& call);
  /// How long a version took to load.
  VersionCounts counts(std::string_view model, std::int64_t version) const;

  /// Forgets versions for which `keep` is false, so that what was unloaded does not stay for ever.
  void retain(const std::function<bool(const std::string& model, std::int64_t version)>& keep);

  /// TensorFlow Serving's page for Prometheus, with its names.
  std::string tensorflow_page() const;
  /// Our own, by model, version and signature. `gauges` are written with it.
  std::string page(const std::vector<Gauge>& gauges) const;

 private:
  using SeriesKey = std::tuple<std::string, std::int64_t, std::string, std::string_view,
                               std::string_view>;  // model, version, signature, method, entrypoint
  struct TensorFlowSeries {
    Histogram latency;
    Histogram runtime;
    TensorFlowSeries();
  };
  using Examples = std::pair<Histogram, std::uint64_t>;
  struct Series {
    std::map<ErrorCode, std::uint64_t> codes{};
    Histogram latency;
    Histogram queued;
    Histogram computed;
    Histogram batch_rows;
    // Where else a request of it counts: looked up once. A version is forgotten with its series.
    VersionCounts* version = nullptr;
    TensorFlowSeries* tf = nullptr;
    Examples* tf_examples = nullptr;
    Series();
  };

  Series& series_of(const CallRecord& call);

  mutable std::mutex mutex_;
  std::map<SeriesKey, Series, std::less<>> series_;
  std::map<std::pair<std::string, std::int64_t>, VersionCounts> versions_;
  // Metrics of TensorFlow Serving: by model and status, and by model, method and entrypoint.
  std::map<std::tuple<std::string, ErrorCode>, std::uint64_t, std::less<>> tf_requests_;
  std::map<std::tuple<std::string, std::string_view, std::string_view>, TensorFlowSeries>
      tf_latency_;
  std::map<std::string, Examples, std::less<>> tf_examples_;
  Histogram tf_batches_;
  Histogram tf_queued_;
};

/// A label's value between double quotes, escaped as Prometheus reads it.
std::string label_text(std::string_view value);

}  // namespace muster::serving
