#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "muster/serving/load/connection_pool_internal.h"
#include "muster/serving/load/flights_internal.h"
#include "muster/serving/load/load_run.h"
#include "muster/serving/load/request_schedule_internal.h"

namespace muster::serving {

/// One thread of a load: its connections, its part of the schedule and its measurements.
class LoadWorker {
 public:
  using Clock = ConnectionPool::Clock;

  LoadWorker(const LoadPlan& plan, const std::vector<LoadTarget>& targets, std::size_t thread,
             std::size_t connections, std::atomic<std::uint64_t>& answered);

  /// Throws Unavailable when a connection cannot be opened; returns early when a stop is asked for.
  void connect(const Deadline& deadline, const std::stop_token& stop) {
    pool_.open(deadline, stop);
  }
  /// The times of the plan count from `begin`.
  void run(Clock::time_point begin, const std::stop_token& stop);
  const LoadMeasurements& measurements() const { return measured_; }

 private:
  std::int64_t since_begin() const;
  void expire();
  void send_due();
  void send(std::size_t connection, const DueRequest& request);
  std::int64_t next_event();
  void take_answer(ClientAnswer answer);
  void fail_due(const std::string& why);
  void count_failure(const DueRequest& request, std::size_t target, const std::string& error,
                     std::string message);
  void finish();
  bool is_measured(const DueRequest& request) const { return request.due >= warm_up_; }

  const std::vector<LoadTarget>& targets_;
  const WeightedChoice choice_;
  const std::int64_t warm_up_;
  const std::int64_t end_;
  const std::int64_t deadline_;
  const bool ends_by_count_;
  std::atomic<std::uint64_t>& answered_;
  RequestSchedule schedule_;
  ConnectionPool pool_;
  Clock::time_point begin_{};
  std::int64_t now_ = 0;
  std::int64_t last_answer_ = 0;
  std::deque<DueRequest> due_{};
  Flights flights_{};
  LoadMeasurements measured_{};
};

}  // namespace muster::serving
