#include "muster/serving/front/node_metrics.h"

#include <condition_variable>
#include <cstddef>

namespace muster::serving {
namespace {

constexpr std::chrono::seconds kPatience{1};

/// Counts answers down.
class Latch {
 public:
  explicit Latch(std::size_t count) : left_(count) {}
  void count_down() {
    const std::lock_guard lock(mutex_);
    --left_;
    changed_.notify_all();
  }
  void wait(const Deadline& deadline) {
    std::unique_lock lock(mutex_);
    wait_until(
        changed_, lock, deadline, [] { return std::string("metrics of nodes"); },
        [this] { return left_ == 0; });
  }

 private:
  std::mutex mutex_{};
  std::condition_variable changed_{};
  std::size_t left_;
};

}  // namespace

void NodeMetrics::Pages::update(const std::string& path, int node,
                                const FrontServer::Reply& reply) {
  if (reply.status != 200) return;
  const std::lock_guard lock(mutex);
  // An answer that came late would count a second time.
  if (!retired.contains(node)) by_path[path].update(node, reply.body);
}

std::shared_ptr<const std::atomic<std::size_t>> NodeMetrics::refresh(
    FrontServer& front, const std::shared_ptr<Node>& node) {
  std::vector<std::string> paths;
  {
    const std::lock_guard lock(pages_->mutex);
    paths.reserve(pages_->by_path.size());
    for (const auto& page : pages_->by_path) paths.push_back(page.first);
  }
  const auto left = std::make_shared<std::atomic<std::size_t>>(paths.size());
  for (const std::string& path : paths) {
    front.get(node, path, Deadline::after(kPatience),
              [pages = pages_, path, left, number = node->number](const FrontServer::Reply& reply) {
                pages->update(path, number, reply);
                --*left;
              });
  }
  return left;
}

double NodeMetrics::total(std::string_view sample) const {
  const std::lock_guard lock(pages_->mutex);
  return pages_->by_path["/metrics"].total(sample);
}

std::string NodeMetrics::page(FrontServer& front, const std::vector<std::shared_ptr<Node>>& nodes,
                              const std::string& path, const Deadline& deadline) {
  const auto answers = std::make_shared<Latch>(nodes.size());
  for (const auto& node : nodes) {
    front.get(
        node, path, deadline,
        [pages = pages_, answers, path, number = node->number](const FrontServer::Reply& reply) {
          pages->update(path, number, reply);
          answers->count_down();
        });
  }
  answers->wait(deadline);
  const std::lock_guard lock(pages_->mutex);
  return pages_->by_path[path].page();
}

void NodeMetrics::retire(const Node& node) {
  const std::lock_guard lock(pages_->mutex);
  pages_->retired.insert(node.number);
  for (auto& page : pages_->by_path) page.second.retire(node.number);
}

}  // namespace muster::serving
