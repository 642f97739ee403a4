#include "muster/data/dataset/stats.h"

#include <fmt/format.h>

#include <algorithm>

namespace muster {
namespace {

// Below this share of the time a wait is no sign of anything.
constexpr double kNoticeableShare = 0.05;

double share_of(std::chrono::nanoseconds part, std::chrono::nanoseconds whole) {
  if (whole.count() <= 0) return 0;
  return static_cast<double>(part.count()) / static_cast<double>(whole.count());
}

std::string milliseconds(std::chrono::nanoseconds time) {
  return fmt::format("{:.1f}", static_cast<double>(time.count()) * 1e-6);
}

std::string row_of(const StageStats& stage) {
  const std::string name = std::string(2 * stage.depth, ' ') + stage.name;
  if (stage.queue_capacity == 0) return fmt::format("{:<36} {:>12}\n", name, stage.elements);
  return fmt::format("{:<36} {:>12} {:>11} {:>12} {:>12} {:>10}\n", name, stage.elements,
                     fmt::format("{}/{}", stage.queue_depth, stage.queue_capacity),
                     milliseconds(stage.producer_wait), milliseconds(stage.consumer_wait),
                     milliseconds(stage.busy));
}

}  // namespace

StageStats StageCounters::read(std::string name, std::size_t depth) const {
  StageStats stats;
  stats.name = std::move(name);
  stats.depth = depth;
  stats.elements = elements_.load(std::memory_order_relaxed);
  stats.failures = failures_.load(std::memory_order_relaxed);
  stats.queue_depth = depth_.load(std::memory_order_relaxed);
  stats.queue_capacity = capacity_.load(std::memory_order_relaxed);
  stats.threads = threads_.load(std::memory_order_relaxed);
  stats.producer_wait = std::chrono::nanoseconds(producer_wait_.load(std::memory_order_relaxed));
  stats.consumer_wait = std::chrono::nanoseconds(consumer_wait_.load(std::memory_order_relaxed));
  stats.busy = std::chrono::nanoseconds(busy_.load(std::memory_order_relaxed));
  return stats;
}

std::shared_ptr<StageCounters> StatsCollector::counters(const std::string& place,
                                                        const std::string& name) {
  std::lock_guard lock(mutex_);
  Node& node = nodes_[place];
  if (node.counters == nullptr) node = {name, std::make_shared<StageCounters>()};
  return node.counters;
}

PipelineStats StatsCollector::read() const {
  PipelineStats stats;
  stats.elapsed = std::chrono::steady_clock::now() - start_;
  std::lock_guard lock(mutex_);
  for (const auto& [place, node] : nodes_) {
    const auto depth = static_cast<std::size_t>(std::count(place.begin(), place.end(), '.'));
    stats.stages.push_back(node.counters->read(node.name, depth));
  }
  return stats;
}

std::string PipelineStats::bottleneck() const {
  // The consumer waits at the first queue: what is before that queue is too slow, and so on
  // upwards, until a queue at which no consumer waits.
  const StageStats* waits = nullptr;
  const StageStats* full = nullptr;
  for (const StageStats& stage : stages) {
    if (stage.queue_capacity == 0) continue;
    if (share_of(stage.consumer_wait, elapsed) < kNoticeableShare) {
      full = &stage;
      break;
    }
    waits = &stage;
  }
  if (waits == nullptr && full == nullptr) {
    return "bottleneck: unknown, no stage has threads of its own; add prefetch(2) at the end to "
           "see "
           "whether the pipeline or its consumer is slow";
  }
  if (waits == nullptr) {
    return fmt::format("bottleneck: the consumer; {} always has elements ready for it", full->name);
  }
  const double busy_share =
      share_of(waits->busy, elapsed * static_cast<std::int64_t>(waits->threads));
  const std::string waited = fmt::format("its consumer waited {:.0f}% of the time",
                                         100 * share_of(waits->consumer_wait, elapsed));
  if (full != nullptr) {
    return fmt::format("bottleneck: between {} and {}; {}", full->name, waits->name, waited);
  }
  return fmt::format("bottleneck: {} or what feeds it; {}, its {} threads were busy {:.0f}%",
                     waits->name, waited, waits->threads, 100 * busy_share);
}

std::string PipelineStats::to_text() const {
  std::string text = fmt::format("{:<36} {:>12} {:>11} {:>12} {:>12} {:>10}\n", "stage", "elements",
                                 "queue", "producer", "consumer", "busy ms");
  text +=
      fmt::format("{:<36} {:>12} {:>11} {:>12} {:>12}\n", "", "out", "", "waited ms", "waited ms");
  for (const StageStats& stage : stages) text += row_of(stage);
  return text + bottleneck() + "\n";
}

}  // namespace muster
