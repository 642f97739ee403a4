#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "muster/serving/load/arrivals.h"
#include "muster/serving/load/client_session.h"
#include "muster/serving/load/client_socket.h"
#include "muster/serving/load/latency_histogram.h"

namespace muster::serving {

/// A model under load.
struct LoadTarget {
  std::string model{};
  double weight = 1;
  /// At least one; asked in turns.
  std::vector<PreparedRequest> requests{};
};

/// Limits of a plan.
inline constexpr double kMostRate = 1e7;
inline constexpr std::size_t kMostConcurrency = 100'000;

struct LoadPlan {
  ServerAddress server{};
  bool over_grpc = false;
  std::string token{};
  /// Open loop: requests a second, sent whether others are answered or not. Nothing: closed loop,
  /// in which a request is sent when another is answered.
  std::optional<double> rate{};
  ArrivalPattern arrivals = ArrivalPattern::kPoisson;
  /// Requests in flight at one time: always in a closed loop, at most in an open one.
  std::size_t concurrency = 16;
  /// Over gRPC, which shares a connection among requests; 0: one for 16 requests in flight.
  std::size_t connections = 0;
  std::size_t threads = 1;
  /// Requests that are due in the warm-up are sent and not measured.
  std::chrono::nanoseconds warm_up{0};
  std::chrono::nanoseconds duration{std::chrono::seconds(10)};
  /// From the time at which a request is due.
  std::chrono::nanoseconds deadline{std::chrono::seconds(10)};
  std::optional<std::uint64_t> most_requests{};
  std::uint64_t seed = 0;
};

/// Errors of one kind.
struct LoadError {
  std::uint64_t count = 0;
  /// The first one's message and time.
  std::string message{};
  std::int64_t first_nanoseconds = 0;
};

/// Measurements of one model, or of all.
struct ModelMeasurements {
  /// Answered or failed; those of the warm-up are not counted.
  std::uint64_t requests = 0;
  std::uint64_t failed = 0;
  /// Latencies of answered requests, from the time at which they were due. Those without an
  /// answer by their deadline are in it, with the deadline: without them a slower server would look
  /// faster. Other failures are not.
  LatencyHistogram latency{};
  std::map<std::string, LoadError> errors{};

  void merge(const ModelMeasurements& other);
};

struct LoadMeasurements {
  /// In the order of the targets.
  std::vector<ModelMeasurements> models{};
  /// From the time at which requests were due to that at which they were sent: a connection was not
  /// free, or the load generator not fast enough.
  LatencyHistogram send_delay{};
  /// All that were sent, those of the warm-up too; again if the server had not taken them.
  std::uint64_t sent = 0;
  /// Answers that came in the measured time.
  std::uint64_t answered = 0;
  /// Measured time.
  double seconds = 0;
  /// Requests without an answer when the load was stopped; they are not counted.
  std::uint64_t unfinished = 0;
  bool was_stopped = false;

  ModelMeasurements total() const;
  double answers_per_second() const;
  /// Adds the measurements of another thread.
  void merge(const LoadMeasurements& other);
};

/// Loads a server, and waits for the last answers. Stops early when it is asked to. `answered`
/// counts answers as they come, for a display. Throws Unavailable when no connection can be opened
/// at the begin, InvalidArgument for a plan that cannot be.
LoadMeasurements run_load(const LoadPlan& plan, const std::vector<LoadTarget>& targets,
                          const std::stop_token& stop, std::atomic<std::uint64_t>& answered);

}  // namespace muster::serving
