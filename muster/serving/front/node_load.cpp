#include <algorithm>
#include <utility>

#include "muster/base/log.h"
#include "muster/serving/front/node_load_internal.h"

namespace muster::serving {
namespace {

constexpr std::chrono::milliseconds kDecision{500};
constexpr double kShortRequests = 1e-3;

}  // namespace

// Since the last decision.
double NodeLoad::mean_in_flight(std::uint64_t answers) {
  const double sum = std::exchange(in_flight_sum_, 0);
  const std::size_t looks = std::exchange(looks_, 0);
  const bool has_answered = std::exchange(answers_, answers) != answers;
  const double mean = looks == 0 ? 0 : sum / static_cast<double>(looks);
  // Some are answered between two looks.
  return has_answered ? std::max(mean, kShortRequests) : mean;
}

// Mean over the requests whose answers the nodes have counted since the last decision.
std::chrono::microseconds NodeLoad::mean_queue_time(const NodeMetrics& metrics) {
  const double seconds = metrics.total("muster_request_queue_duration_seconds_sum");
  const double requests = metrics.total("muster_request_queue_duration_seconds_count");
  const double new_seconds = seconds - std::exchange(queue_seconds_, seconds);
  const double new_requests = requests - std::exchange(queued_requests_, requests);
  if (new_requests < 1) return std::chrono::microseconds(0);
  return std::chrono::microseconds(static_cast<std::int64_t>(1e6 * new_seconds / new_requests));
}

std::size_t NodeLoad::look(const Look& now, const NodeMetrics& metrics) {
  in_flight_sum_ += static_cast<double>(now.in_flight);
  ++looks_;
  const auto time = std::chrono::steady_clock::now();
  const bool is_urgent = now.waiting > 0 && now.target == 0;
  if (!is_urgent && time < next_decision_) return now.target;
  next_decision_ = time + kDecision;
  const LoadSample sample{.time = time,
                          .in_flight = mean_in_flight(now.answers),
                          .queue_time = mean_queue_time(metrics),
                          .waiting = now.waiting,
                          .nodes = now.nodes};
  const std::size_t target = scaler_.target(sample);
  if (target != now.target) {
    log::info("scaling nodes from={} to={} in_flight={:.2f} queue_ms={:.3f} waiting={}", now.target,
              target, sample.in_flight, static_cast<double>(sample.queue_time.count()) / 1000,
              now.waiting);
  }
  return target;
}

}  // namespace muster::serving
