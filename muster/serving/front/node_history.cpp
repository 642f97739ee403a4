#include "muster/serving/front/node_history.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace muster::serving {
namespace {

double seconds_of(std::chrono::system_clock::time_point time) {
  return std::chrono::duration<double>(time.time_since_epoch()).count();
}

// A list of one field of all points: "name":[1,2].
template <typename Points, typename Field>
void write_field(const char* name, const Points& points, const Field& field, std::string& out) {
  fmt::format_to(std::back_inserter(out), ",\"{}\":[", name);
  const char* between = "";
  for (const auto* point : points) {
    fmt::format_to(std::back_inserter(out), "{}{}", std::exchange(between, ","), field(*point));
  }
  out += ']';
}

}  // namespace

NodeHistory::Point NodeHistory::point_of(const Look& look) const {
  const double seconds = std::chrono::duration<double>(look.time - before_.time).count();
  const LatencyBuckets latencies = look.latencies.since(before_.latencies);
  const double queued = look.queued_requests - before_.queued_requests;
  Point point{
      .time = look.time,
      .waiting = look.waiting,
      .answers_per_second = static_cast<double>(latencies.count()) / seconds,
      .queue_ms = queued > 0 ? 1000 * (look.queue_seconds - before_.queue_seconds) / queued : 0,
      .p50_ms = latencies.percentile_ms(0.5),
      .p99_ms = latencies.percentile_ms(0.99)};
  for (const NodeNow& node : look.nodes) {
    point.up += node.state == "up" ? 1 : 0;
    point.in_flight += node.in_flight;
  }
  return point;
}

void NodeHistory::add(Look look) {
  const std::lock_guard lock(mutex_);
  nodes_ = look.nodes;
  const bool is_first = before_.time == std::chrono::system_clock::time_point();
  if (!is_first && look.time - before_.time < kInterval) return;
  if (!is_first) {
    points_.push_back(point_of(look));
    if (points_.size() > kMostPoints) points_.pop_front();
  }
  before_ = std::move(look);
}

std::string NodeHistory::page(std::chrono::system_clock::time_point since) const {
  const std::lock_guard lock(mutex_);
  std::string out = fmt::format("{{\"interval_seconds\":{},\"nodes\":[", kInterval.count());
  const char* between = "";
  for (const NodeNow& node : nodes_) {
    // States and addresses have neither quotes nor backslashes.
    fmt::format_to(std::back_inserter(out),
                   "{}{{\"number\":{},\"state\":\"{}\",\"address\":\"{}\",\"process\":{},"
                   "\"in_flight\":{},\"latency_ms\":{:.3f}}}",
                   std::exchange(between, ","), node.number, node.state, node.address, node.process,
                   node.in_flight, node.latency_ms);
  }
  std::vector<const Point*> points;
  for (const Point& point : points_) {
    if (point.time > since) points.push_back(&point);
  }
  const auto number = [](double value) { return fmt::format("{:.3f}", value); };
  out += "],\"history\":{\"points\":" + std::to_string(points.size());
  write_field(
      "time", points, [&](const Point& one) { return number(seconds_of(one.time)); }, out);
  write_field(
      "up", points, [](const Point& one) { return one.up; }, out);
  write_field(
      "in_flight", points, [](const Point& one) { return one.in_flight; }, out);
  write_field(
      "waiting", points, [](const Point& one) { return one.waiting; }, out);
  write_field(
      "answers_per_second", points,
      [&](const Point& one) { return number(one.answers_per_second); }, out);
  write_field(
      "queue_ms", points, [&](const Point& one) { return number(one.queue_ms); }, out);
  write_field(
      "p50_ms", points, [&](const Point& one) { return number(one.p50_ms); }, out);
  write_field(
      "p99_ms", points, [&](const Point& one) { return number(one.p99_ms); }, out);
  return out + "}}\n";
}

}  // namespace muster::serving
