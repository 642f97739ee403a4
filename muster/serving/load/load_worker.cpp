#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "muster/serving/load/load_worker_internal.h"

namespace muster::serving {
namespace {

// In flight on one connection over gRPC: what servers allow at least, by convention.
constexpr std::size_t kMostStreams = 100;

std::vector<double> weights_of(const std::vector<LoadTarget>& targets) {
  std::vector<double> weights;
  weights.reserve(targets.size());
  for (const LoadTarget& target : targets) weights.push_back(target.weight);
  return weights;
}

ConnectionPool::Options pool_options(const LoadPlan& plan, std::size_t connections,
                                     ClientSession::OnAnswer on_answer,
                                     std::function<void(const std::string&)> on_no_connection) {
  return {.server = &plan.server,
          .over_grpc = plan.over_grpc,
          .connections = connections,
          .session = {.authority = plan.server.text,
                      .token = plan.token,
                      .deadline_nanoseconds = plan.deadline.count(),
                      .most_streams = kMostStreams},
          .on_answer = std::move(on_answer),
          .on_no_connection = std::move(on_no_connection)};
}

}  // namespace

LoadWorker::LoadWorker(const LoadPlan& plan, const std::vector<LoadTarget>& targets,
                       std::size_t thread, std::size_t connections,
                       std::atomic<std::uint64_t>& answered)
    : targets_(targets),
      choice_(weights_of(targets), plan.seed),
      warm_up_(plan.warm_up.count()),
      end_((plan.warm_up + plan.duration).count()),
      deadline_(plan.deadline.count()),
      ends_by_count_(plan.most_requests.has_value()),
      answered_(answered),
      schedule_(plan, thread),
      pool_(pool_options(
          plan, connections, [this](ClientAnswer answer) { take_answer(std::move(answer)); },
          [this](const std::string& why) { fail_due(why); })) {
  measured_.models.resize(targets.size());
}

std::int64_t LoadWorker::since_begin() const {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - begin_).count();
}

void LoadWorker::run(Clock::time_point begin, const std::stop_token& stop) {
  begin_ = begin;
  const std::stop_callback wake(stop, [this] { pool_.wake(); });
  while (!stop.stop_requested() && since_begin() < 0) pool_.wait(begin_);
  while (!stop.stop_requested()) {
    now_ = since_begin();
    // First: those whose time is over make place for others.
    expire();
    schedule_.take(now_, due_.size() + flights_.size(), due_);
    // Again: after a moment without the processor some are too late before they are sent.
    expire();
    send_due();
    if (due_.empty() && flights_.size() == 0 && !schedule_.has_more(now_)) break;
    pool_.wait(begin_ + std::chrono::nanoseconds(next_event()));
  }
  measured_.was_stopped = stop.stop_requested();
  finish();
}

void LoadWorker::finish() {
  measured_.unfinished = due_.size() + flights_.size();
  std::int64_t last = std::min(since_begin(), end_);
  // A load that is over before its time, by the number of its requests, lasted up to its last
  // answer.
  if (last < end_ && !measured_.was_stopped) last = ends_by_count_ ? last_answer_ : end_;
  measured_.seconds = static_cast<double>(std::max<std::int64_t>(0, last - warm_up_)) / 1e9;
}

void LoadWorker::expire() {
  while (!due_.empty() && due_.front().due + deadline_ <= now_) {
    const DueRequest request = due_.front();
    due_.pop_front();
    count_failure(request, choice_(request.index), "deadline exceeded",
                  "it was not sent: no connection was free");
  }
  for (auto oldest = flights_.oldest(); oldest; oldest = flights_.oldest()) {
    if (flights_[*oldest].request.due + deadline_ > now_) return;
    const auto flight = flights_.take(*oldest);
    pool_.cancel(flight->connection, *oldest);
    count_failure(flight->request, flight->target, "deadline exceeded",
                  fmt::format("no answer within {} s", static_cast<double>(deadline_) / 1e9));
  }
}

void LoadWorker::send_due() {
  while (!due_.empty() && flights_.size() < schedule_.concurrency()) {
    const auto connection = pool_.next_free();
    if (!connection) return;
    const DueRequest request = due_.front();
    due_.pop_front();
    send(*connection, request);
  }
}

void LoadWorker::send(std::size_t connection, const DueRequest& request) {
  const std::size_t target = choice_(request.index);
  const auto& requests = targets_[target].requests;
  const std::uint64_t tag =
      flights_.add({.request = request, .target = target, .connection = connection});
  pool_.send(connection, tag, requests[request.index % requests.size()]);
  ++measured_.sent;
  if (is_measured(request)) measured_.send_delay.record(now_ - request.due);
}

std::int64_t LoadWorker::next_event() {
  std::int64_t next = schedule_.next(now_);
  if (!due_.empty()) next = std::min(next, due_.front().due + deadline_);
  if (const auto oldest = flights_.oldest()) {
    next = std::min(next, flights_[*oldest].request.due + deadline_);
  }
  constexpr std::int64_t kSecond = 1'000'000'000;
  return std::min(next, now_ + kSecond);
}

void LoadWorker::take_answer(ClientAnswer answer) {
  const auto flight = flights_.take(answer.tag);
  if (!flight) return;
  if (answer.kind == AnswerKind::kNotTaken) {
    due_.push_front(flight->request);
    return;
  }
  // When it came, not when its turn is: many answers may have come at once.
  const std::int64_t now = since_begin();
  last_answer_ = std::max(last_answer_, now);
  if (answer.kind == AnswerKind::kFailed) {
    return count_failure(flight->request, flight->target, answer.error, std::move(answer.message));
  }
  answered_.fetch_add(1, std::memory_order_relaxed);
  if (now >= warm_up_ && now < end_) ++measured_.answered;
  if (!is_measured(flight->request)) return;
  ModelMeasurements& model = measured_.models[flight->target];
  ++model.requests;
  model.latency.record(now - flight->request.due);
}

void LoadWorker::fail_due(const std::string& why) {
  for (const DueRequest& request : std::exchange(due_, {})) {
    count_failure(request, choice_(request.index), "connection failed", why);
  }
}

void LoadWorker::count_failure(const DueRequest& request, std::size_t target,
                               const std::string& error, std::string message) {
  if (!is_measured(request)) return;
  ModelMeasurements& model = measured_.models[target];
  ++model.requests;
  ++model.failed;
  if (error == "deadline exceeded") model.latency.record(deadline_);
  LoadError& kind = model.errors[error];
  if (kind.count++ > 0) return;
  kind.message = std::move(message);
  kind.first_nanoseconds = request.due;
}

}  // namespace muster::serving
